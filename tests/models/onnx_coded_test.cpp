// SPDX-License-Identifier: Apache-2.0
// Inputs of matrices as int8, in graphs written by hand.

#include "tests/models/onnx_graph.hpp"
#include <cmath>

namespace weft::models::onnx_coded_test {
namespace {

using Graph = OnnxTestGraph;

/// x [1, in] to whole numbers "q" with their scale "step", as BitNet takes its inputs.
Graph coded(std::int64_t in, float least = 1e-5f) {
  Graph graph({1, in}, 18);
  graph.floats("least", {}, {least}).floats("most", {}, {127}).integers("last", {-1});
  graph.node("Abs", {"x"}, {"a"}).node("ReduceMax", {"a", "last"}, {"r"}).node("Max", {"least", "r"}, {"m"});
  graph.node("Div", {"most", "m"}, {"factor"}).node("Div", {"m", "most"}, {"step"});
  graph.node("Mul", {"factor", "x"}, {"s"}).node("Round", {"s"}, {"q"});
  return graph;
}

Result<mesh::Mesh> imported(const Graph& graph) {
  const storage::TemporaryDirectory folder;
  return imported_onnx(graph.written(folder.path()));
}

// 127 is the largest, so codes are the numbers themselves, rounded to even.
TEST(OnnxCoded, WholeNumbersTimesScalesAreTernary) {
  Graph graph = coded(4);
  graph.floats("w", {4, 2}, {1, 0, -1, 1, 0, -1, 1, 1}).floats("scale", {}, {0.5f});
  graph.node("MatMul", {"q", "w"}, {"i"}).node("Mul", {"step", "i"}, {"u"}).node("Mul", {"u", "scale"}, {"y"});
  const auto mesh = imported(graph);
  ASSERT_TRUE(mesh) << mesh.error().text();
  const mesh::LayerSpec& layer = mesh->graph().spec().layers[0].layers[0];
  EXPECT_EQ(layer.type, "dense");
  EXPECT_EQ(layer.activations, Activations::int8_row);
  EXPECT_EQ(Encoding(layer.dtype, layer.granularity), Encoding(Dtype::ternary, Granularity::tensor));
  EXPECT_EQ(graph.run({127, -63.5f, 1.4f, 2.5f}), (Floats{0.5f * (127 + 64 + 2), 0.5f * (-64 - 1 + 2)}));
  EXPECT_EQ(graph.run({0, 0, 0, 0}), (Floats{0, 0}));
}

TEST(OnnxCoded, ASharedLayerIsOneAndABiasItsOwn) {
  Graph graph = coded(2);
  graph.floats("w", {2, 2}, {5, -3, 2, 7}).floats("scale", {2}, {0.5f, 2}).floats("b", {2}, {10, 20});
  graph.node("MatMul", {"q", "w"}, {"i"}).node("Mul", {"i", "scale"}, {"u"}).node("Mul", {"u", "step"}, {"v"});
  graph.node("Add", {"v", "b"}, {"z"}).node("Sigmoid", {"z"}, {"g"}).node("Mul", {"z", "g"}, {"y"});
  const auto mesh = imported(graph);
  ASSERT_TRUE(mesh) << mesh.error().text();
  const auto& layers = mesh->graph().spec().layers[0].layers;
  ASSERT_EQ(layers.size(), 2u) << "a dense layer and a silu";
  EXPECT_EQ(Encoding(layers[0].dtype, layers[0].granularity), Encoding(Dtype::int4, Granularity::channel));
  EXPECT_EQ(graph.run({127, 100})[0], 0.5f * (5 * 127 + 200) + 10);
}

TEST(OnnxCoded, PartsHaveTheirShapes) {
  Graph graph = coded(2);
  graph.floats("w", {2, 3}, {5, -3, 2, 7, 0, 1}).floats("scale", {}, {0.5f}).node("MatMul", {"q", "w"}, {"i"});
  graph.node("Mul", {"i", "step"}, {"u"}).node("Mul", {"u", "scale"}, {"v"}).node("Shape", {"v"}, {"of_v"});
  graph.node("Shape", {"m"}, {"of_m"}).node("Concat", {"of_m", "of_v"}, {"all"}, {{"axis", std::int64_t{0}}});
  graph.node("Reshape", {"v", "all"}, {"z"}).node("Relu", {"z"}, {"y"});
  EXPECT_EQ(graph.refusal(), "") << "[1, 1] and [1, 3]";
}

TEST(OnnxCoded, RefusesInputsAsInt8ThatWeftDoesNotTakeSo) {
  const auto expect = [](const Graph& graph, std::string_view part) {
    const std::string text = graph.refusal();
    EXPECT_NE(text.find(part), std::string::npos) << text << "\nexpected: " << part;
  };
  const auto times = [](Graph graph, const Floats& w) {
    graph.floats("w", {4, 1}, w).floats("scale", {}, {0.5f}).node("MatMul", {"q", "w"}, {"i"});
    return graph;
  };
  expect(times(coded(4), {1, 0, -1, 1}).node("Mul", {"i", "scale"}, {"y"}), "without their scale");
  expect(times(coded(4), {1, 0, -1, 1}).node("Mul", {"i", "step"}, {"u"}).node("Relu", {"u"}, {"y"}),
         "a matrix that is no codes of one scale, or of one for each output; weft export --type stored");
  for (const float other : {0.5f, 128.0f, NAN, INFINITY})
    expect(times(coded(4), {other, 0, -1, 1})
               .node("Mul", {"i", "step"}, {"u"})
               .node("Mul", {"u", "scale"}, {"v"})
               .node("Relu", {"v"}, {"y"}),
           "a matrix that is no codes");
  expect(times(coded(4, 0.25f), {1, 0, -1, 1}).node("Mul", {"i", "step"}, {"y"}),
         "with a scale for 4 of 4 values, divided by 0.25");
  expect(Graph({1, 4}).node("Round", {"x"}, {"y"}), "no layer does it, but of inputs as int8");
  expect(coded(4).node("Relu", {"q"}, {"y"}), "a part of a function that is not known");
  expect(coded(4).floats("w", {3, 1}, Floats(3)).node("MatMul", {"q", "w"}, {"y"}),
         "inputs [1, 4] times float32 [3, 1]");
  for (const Shape& empty : {Shape{0, 1}, Shape{4, 0}, Shape{}})
    expect(coded(4).floats("w", empty, Floats(empty.size() == 2 ? 0 : 1)).node("MatMul", {"q", "w"}, {"y"}),
           "inputs [1, 4] times");
  Graph scalar({}, 18);
  scalar.floats("least", {}, {1e-5f}).floats("most", {}, {127}).integers("last", {-1}).floats("w", {1, 1}, {1});
  scalar.node("Abs", {"x"}, {"a"}).node("ReduceMax", {"a", "last"}, {"r"}).node("Max", {"least", "r"}, {"m"});
  scalar.node("Div", {"most", "m"}, {"f"}).node("Mul", {"f", "x"}, {"s"}).node("Round", {"s"}, {"q"});
  expect(scalar.node("MatMul", {"q", "w"}, {"y"}), "(MatMul)");
  // The scale of other values.
  Graph other = times(coded(4), {1, 0, -1, 1});
  other.node("Relu", {"x"}, {"x2"}).node("Abs", {"x2"}, {"a2"}).node("ReduceMax", {"a2", "last"}, {"r2"});
  other.node("Max", {"r2", "least"}, {"m2"}).node("Div", {"m2", "most"}, {"step2"}).node("Mul", {"i", "step2"}, {"y"});
  EXPECT_NE(other.refusal(), "");
}

}  // namespace
}  // namespace weft::models::onnx_coded_test
