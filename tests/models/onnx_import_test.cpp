// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/onnx_import.hpp"

#include "models/state_dict/network_weights.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/onnx/onnx.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/models/onnx_graph.hpp"
#include "tests/support/shared_data.hpp"
#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace weft::models::onnx_import_test {
namespace {

using formats::OnnxNode;
using Graph = OnnxTestGraph;

/// The sound of tools/make_onnx_goldens.mjs.
std::vector<float> sound(std::int64_t count) {
  const std::int64_t resonances[3][2] = {{30985, -15815}, {28497, -15735}, {16694, -15575}};
  std::int64_t before[3][2] = {}, noise = 12345, next = 0;
  std::vector<float> samples;
  for (std::int64_t n = 0; n < count; ++n) {
    noise = noise * 16807 % 2147483647;
    const std::int64_t hiss = (noise >> 8) % 256 - 128, part = n / 6400 % 5;
    std::int64_t x = 0, y = 0;
    if (part != 2 && part != 3 && n / 1600 % 4 != 3) {
      if (n >= next) {
        x = 4000;
        next = n + 110 + n / 200 % 40;
      }
      x += hiss >> 2;
    } else if (part == 3) {
      x = hiss * 8;
    }
    for (int i = 0; i < 3; ++i) {
      const std::int64_t value = x + ((resonances[i][0] * before[i][0] + resonances[i][1] * before[i][1]) >> 14);
      before[i][1] = before[i][0];
      before[i][0] = value;
      y += value >> i;
    }
    samples.push_back(static_cast<float>(std::clamp<std::int64_t>(y, -32768, 32767)) / 32768.0f);
  }
  return samples;
}

class SileroVad : public ::testing::Test {
 protected:
  static constexpr std::size_t kFrames = 60, kFrame = 512, kContext = 64;
  void SetUp() override {
    path_ = shared_data("silero-vad/silero_vad.onnx");
    if (path_.empty()) GTEST_SKIP() << "no ../shared/data";
  }
  Result<mesh::Mesh> load() const { return imported_onnx(path_, {{{"input", {1, 576}}}, {{"sr", 16000}}}); }
  /// Holds what a network makes of the sound, in one state, against a golden.
  static void expect_heard(mesh::Mesh& mesh, const char* name) {
    const auto bytes = storage::real_file_system().read(source_path("tests/data/models/silero_golden.json"), 1 << 20);
    const Json golden = *parse_json(as_text(*bytes), "golden");
    const std::vector<float> samples = sound(kFrames * kFrame);
    double sum = 0;
    for (const float sample : samples) sum += std::abs(static_cast<double>(sample));
    ASSERT_EQ(sum, golden["sum"].get<double>()) << "another sound than the golden's";
    std::vector<float> frames;  // each with the end of the one before
    for (std::size_t f = 0; f < kFrames; ++f)
      for (std::size_t i = 0; i < kContext + kFrame; ++i) {
        const std::size_t at = f * kFrame + i;
        frames.push_back(at < kContext ? 0.0f : samples[at - kContext]);
      }
    std::vector<float> heard(kFrames);
    const mesh::RunInput input{"input", frames};
    const mesh::RunOutput output{"output", heard};
    const Status ran = mesh.run({&input, 1}, kFrames, {&output, 1});
    ASSERT_TRUE(ran) << ran.error().text();
    const auto expected = golden[name].get<std::vector<double>>();
    double error = 0, largest = 0;
    for (std::size_t f = 0; f < kFrames; ++f) {
      error = std::max(error, std::abs(static_cast<double>(heard[f]) - expected[f]));
      largest = std::max(largest, expected[f]);
    }
    EXPECT_LE(error, 1e-5);
    EXPECT_GT(largest, 0.8) << "a sound without a voice shows nothing";
    RecordProperty("largest_error", std::to_string(error));
  }
  std::string path_;
};

TEST_F(SileroVad, HearsWhatOnnxruntimeHears) {
  auto mesh = load();
  ASSERT_TRUE(mesh) << mesh.error().text();
  expect_heard(*mesh, "probabilities");
}

// The weights of a later training, without a description, for the network of the graph.
TEST_F(SileroVad, HearsWithTheWeightsOfItsOtherForm) {
  const auto network = load();
  ASSERT_TRUE(network) << network.error().text();
  const std::string path = shared_data("silero-vad/silero_vad_16k.safetensors");
  const auto model = import_network_weights(storage::real_file_system(), path, network->graph().spec());
  ASSERT_TRUE(model) << model.error().text();
  auto mesh = mesh::load_mesh(*collect(model->content), path);
  ASSERT_TRUE(mesh) << mesh.error().text();
  expect_heard(*mesh, "other_probabilities");
  const auto file = formats::load_safetensors(storage::real_file_system(), path);
  ASSERT_TRUE(file) << file.error().text();
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(std::as_const(*mesh));
  ASSERT_EQ(weights.parameters().size(), file->tensors().size());
  for (std::size_t i = 0; i < file->tensors().size(); ++i) {
    const auto values = file->values<float>(file->tensors()[i].name);
    ASSERT_TRUE(values) << values.error().text();
    EXPECT_EQ(weights.read(weights.parameters()[i]), Floats(values->begin(), values->end())) << file->tensors()[i].name;
  }
}

TEST_F(SileroVad, SaysWhichInputIsToBePinned) {
  const auto refused = imported_onnx(path_, {{{"input", {1, 576}}}, {}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("(Equal): no layer does it; --pin sr=16000"), std::string::npos)
      << refused.error().text();
}

/// Small graphs that the onnx package wrote, and what onnxruntime computes for them.
TEST(OnnxImport, ComputesWhatOnnxruntimeComputes) {
  const auto bytes = storage::real_file_system().read(source_path("tests/data/models/onnx_goldens.json"), 1 << 20);
  ASSERT_TRUE(bytes) << bytes.error().text();
  const Json goldens = *parse_json(as_text(*bytes), "goldens");
  EXPECT_EQ(goldens.size(), 16u);
  for (const auto& [name, golden] : goldens.members()) {
    SCOPED_TRACE(name);
    auto mesh = imported_onnx(source_path("tests/data/fuzz/onnx/" + name));
    ASSERT_TRUE(mesh) << mesh.error().text();
    const auto ticks = golden["runs"].get<std::size_t>();
    const auto expected = golden["y"].get<std::vector<double>>();
    std::vector<float> x, y(expected.size());
    for (std::size_t t = 0; t < ticks; ++t)
      for (const double value : golden["x"].get<std::vector<double>>()) x.push_back(static_cast<float>(value));
    const mesh::RunInput input{"x", x};
    const mesh::RunOutput output{"y", y};
    const Status ran = mesh->run({&input, 1}, ticks, {&output, 1});
    ASSERT_TRUE(ran) << ran.error().text();
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(static_cast<double>(y[i]), expected[i], 1e-6 * std::max(1.0, std::abs(expected[i]))) << i;
  }
}

TEST(OnnxImport, FoldsFactorsAndBiasesIntoTheMatrix) {
  Graph gemm({1, 2});
  gemm.floats("w", {2, 3}, {1, 2, 3, 4, 5, 6}).floats("c", {3}, {1, 1, 2});
  gemm.node("Gemm", {"x", "w", "c"}, {"y"}, {{"alpha", 2.0f}, {"beta", 0.5f}});
  EXPECT_EQ(gemm.run({1, 10}), (Floats{82.5f, 104.5f, 127.0f}));
  Graph matmul({1, 2, 2});
  matmul.floats("w", {2, 1}, {1, 2}).floats("b", {1}, {0.5f});
  matmul.node("MatMul", {"x", "w"}, {"a"}).node("Add", {"b", "a"}, {"s"}).node("Relu", {"s"}, {"y"});
  EXPECT_EQ(matmul.run({1, 2, -3, -4}), (Floats{5.5f, 0.0f}));
  Graph norm({1, 1, 3});
  norm.floats("w", {2, 1, 1}, {1, 2})
      .floats("one", {2}, {4, 1})
      .floats("zero", {2}, {1, 0})
      .floats("mean", {2}, {2, 0});
  norm.floats("var", {2}, {4, 1});
  norm.node("Conv", {"x", "w"}, {"a"});
  norm.node("BatchNormalization", {"a", "one", "zero", "mean", "var"}, {"y"}, {{"epsilon", 0.0f}});
  EXPECT_EQ(norm.run({1, 2, 3}), (Floats{-1, 1, 3, 2, 4, 6})) << "(a - 2) 4 / 2 + 1 and 2 x";
}

/// Norms over all places of `each` channels in binary64, as ONNX describes them.
std::vector<double> normed(const Floats& x, std::size_t channels, std::size_t each, const Floats& scale,
                           const Floats& bias, double epsilon) {
  const std::size_t places = x.size() / channels, width = each * places;
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t begin = i / width * width;
    double mean = 0, variance = 0;
    for (std::size_t k = 0; k < width; ++k) mean += static_cast<double>(x[begin + k]) / static_cast<double>(width);
    for (std::size_t k = 0; k < width; ++k)
      variance += std::pow(static_cast<double>(x[begin + k]) - mean, 2) / static_cast<double>(width);
    const std::size_t c = i / places;
    y.push_back((static_cast<double>(x[i]) - mean) / std::sqrt(variance + epsilon) * static_cast<double>(scale[c]) +
                static_cast<double>(bias[c]));
  }
  return y;
}

TEST(OnnxImport, ReadsNormsOfGroupsOfChannels) {
  const Floats scale{2, 0.5f, -1, 3}, bias{0, 1, -2, 0.25f};
  Floats x;
  for (std::size_t i = 0; i < 24; ++i) x.push_back(static_cast<float>((i * 7919 + 13) % 31) / 8 - 1.5f);
  const auto expect = [&](Graph& graph, std::size_t each, const Floats& by, const Floats& to) {
    const auto wanted = normed(x, 4, each, by, to, 0.01);
    const Floats found = graph.run(x);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 2e-6) << i;
  };
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{1, 4, 6}, std::vector<std::int64_t>{1, 4, 2, 3}}) {
    Graph instance(shape);
    instance.floats("s", {4}, scale).floats("b", {4}, bias);
    instance.node("InstanceNormalization", {"x", "s", "b"}, {"y"}, {{"epsilon", 0.01f}});
    expect(instance, 1, scale, bias);
    for (const std::int64_t groups : {1, 2, 4}) {
      Graph group(shape, 21);
      group.floats("s", {4}, scale).floats("b", {4}, bias);
      group.node("GroupNormalization", {"x", "s", "b"}, {"y"}, {{"epsilon", 0.01f}, {"num_groups", groups}});
      expect(group, static_cast<std::size_t>(4 / groups), scale, bias);
    }
    Graph by_group(shape, 18);
    by_group.floats("s", {2}, {2, -1}).floats("b", {2}, {0, 1});
    by_group.node("GroupNormalization", {"x", "s", "b"}, {"y"}, {{"epsilon", 0.01f}, {"num_groups", std::int64_t{2}}});
    expect(by_group, 2, {2, 2, -1, -1}, {0, 0, 1, 1});
  }
}

TEST(OnnxImport, RefusesNormsThatDoNotFitByNode) {
  const auto refusal = [](std::vector<std::int64_t> shape, std::size_t numbers, Attributes attributes) {
    Graph graph(std::move(shape), 21);
    graph.floats("s", {numbers}, Floats(numbers, 1)).floats("b", {numbers}, Floats(numbers, 0));
    graph.node("GroupNormalization", {"x", "s", "b"}, {"y"}, std::move(attributes));
    return graph.refusal();
  };
  EXPECT_NE(refusal({1, 4, 6}, 4, {{"num_groups", std::int64_t{3}}}).find("3 groups of 4 channels"), std::string::npos);
  EXPECT_NE(refusal({1, 4, 6}, 4, {}).find("0 groups of 4 channels"), std::string::npos);
  EXPECT_NE(refusal({1, 4, 6}, 2, {{"num_groups", std::int64_t{2}}}).find("2 numbers, expected 4"), std::string::npos);
  EXPECT_NE(refusal({2, 4, 6}, 4, {{"num_groups", std::int64_t{2}}}).find("one sample of channels"), std::string::npos);
  EXPECT_NE(
      refusal({1, 4, 6}, 4, {{"num_groups", std::int64_t{2}}, {"stash_type", std::int64_t{10}}}).find("stash_type"),
      std::string::npos);
  for (const char* const type : {"LogSoftmax", "HardSwish"}) {
    Graph graph({1, 4});
    graph.node(type, {"x"}, {"y"});
    EXPECT_NE(graph.refusal().find("(" + std::string(type) + "): no layer does it"), std::string::npos)
        << graph.refusal();
  }
}

TEST(OnnxImport, ComputesShapesBeforeTheNetworkRuns) {
  Graph graph({1, 6});
  graph.integers("zero", {0}).integers("two", {2}).integers("minus", {-1});
  graph.node("Shape", {"x"}, {"s"}).node("Gather", {"s", "zero"}, {"n"}, {{"axis", std::int64_t{0}}});
  graph.node("Concat", {"n", "two", "minus"}, {"wanted"}, {{"axis", std::int64_t{0}}});
  graph.node("Reshape", {"x", "wanted"}, {"a"}).node("Transpose", {"a"}, {"b"}, {{"perm", Integers{0, 2, 1}}});
  graph.node("Flatten", {"b"}, {"y"});
  EXPECT_EQ(graph.run({1, 2, 3, 4, 5, 6}), (Floats{1, 4, 2, 5, 3, 6}));
}

TEST(OnnxImport, ReducesKnownNumbersOverTheAxesThatAnInputNames) {
  const std::int64_t zero = 0, one = 1;
  // Rows 1, 2, 4 and 3, 1, 2: products 8 and 6, sums 7 and 6.
  for (const auto& [type, first] :
       {std::pair("ReduceProd", std::int64_t{8}), std::pair("ReduceSum", std::int64_t{7})}) {
    Graph graph({1, first * 6}, 18);
    graph.integers("m", {1, 2, 4, 3, 1, 2}).integers("two", {2, -1}).integers("axis", {1}).integers("none", {});
    graph.node("Reshape", {"m", "two"}, {"rows"}).node(type, {"rows", "axis"}, {"r"}, {{"keepdims", zero}});
    graph.node(type, {"r", "none"}, {"n"}, {{"noop_with_empty_axes", one}}).node("Reshape", {"x", "n"}, {"a"});
    graph.node("Softmax", {"a"}, {"y"});
    EXPECT_EQ(graph.refusal(), "") << type << " is not [" << first << ", 6]";
  }
}

TEST(OnnxImport, TakesTheBranchOfAKnownCondition) {
  const auto branch = [](const char* type) {
    auto inner = std::make_shared<formats::OnnxGraph>();
    OnnxNode node;
    node.type = type;
    node.inputs = {"x"};
    node.outputs = {std::string("in_") + type};
    inner->nodes = {node};
    inner->outputs = {{node.outputs[0], "float32", {}}};
    return std::shared_ptr<const formats::OnnxGraph>(inner);
  };
  for (const bool wanted : {true, false}) {
    Graph graph({1, 2});
    graph.integers("two", {2}).integers("other", {wanted ? 2 : 3}).integers("one", {1});
    graph.node("Shape", {"x"}, {"s"}).node("Gather", {"s", "one"}, {"n"}).node("Equal", {"n", "other"}, {"is"});
    graph.node("If", {"is"}, {"y"}, {{"then_branch", branch("Relu")}, {"else_branch", branch("Identity")}});
    EXPECT_EQ(graph.run({-1, 2}), (wanted ? Floats{0, 2} : Floats{-1, 2}));
  }
}

TEST(OnnxImport, KnowsFunctionsOfSeveralNodes) {
  Graph gelu({1, 3});
  gelu.floats("root", {}, {1.41421356f}).floats("one", {}, {1}).floats("half", {}, {0.5f});
  gelu.node("Div", {"x", "root"}, {"a"}).node("Erf", {"a"}, {"b"}).node("Add", {"b", "one"}, {"c"});
  gelu.node("Mul", {"x", "c"}, {"d"}).node("Mul", {"d", "half"}, {"y"});
  const Floats made = gelu.run({-1, 0, 2});
  ASSERT_EQ(made.size(), 3u);
  EXPECT_NEAR(made[0], -0.158655f, 1e-6f);
  EXPECT_NEAR(made[2], 1.954500f, 1e-6f);
  Graph silu({1, 2});
  silu.node("Sigmoid", {"x"}, {"a"}).node("Mul", {"x", "a"}, {"y"});
  EXPECT_NEAR(silu.run({1, 2})[0], 0.7310586f, 1e-6f);
  Graph gate({1, 4});
  gate.node("Split", {"x"}, {"a", "b"}, {{"axis", std::int64_t{1}}}).node("Sigmoid", {"b"}, {"c"});
  gate.node("Mul", {"a", "c"}, {"y"});
  EXPECT_EQ(gate.run({2, 4, 0, 0}), (Floats{1, 2}));
  Graph square({1, 2});
  square.node("Relu", {"x"}, {"a"}).node("Mul", {"a", "a"}, {"y"});
  EXPECT_EQ(square.run({-3, 3}), (Floats{0, 9}));
}

TEST(OnnxImport, PutsValuesWhereTheyGo) {
  Graph pad({1, 4});
  pad.integers("pads", {0, 1, 0, 3});
  pad.node("Pad", {"x", "pads"}, {"y"}, {{"mode", std::string("reflect")}});
  EXPECT_EQ(pad.run({1, 2, 3, 4}), (Floats{2, 1, 2, 3, 4, 3, 2, 1}));
  Graph zeros({1, 2});
  zeros.integers("pads", {0, 1, 0, 2});
  zeros.node("Pad", {"x", "pads"}, {"y"});
  EXPECT_EQ(zeros.run({1, 2}), (Floats{0, 1, 2, 0, 0}));
  Graph slice({1, 6});
  slice.integers("from", {-1}).integers("to", {-7}).integers("axis", {1}).integers("step", {-2});
  slice.node("Slice", {"x", "from", "to", "axis", "step"}, {"a"})
      .node("Concat", {"a", "x"}, {"y"}, {{"axis", std::int64_t{1}}});
  EXPECT_EQ(slice.run({1, 2, 3, 4, 5, 6}), (Floats{6, 4, 2, 1, 2, 3, 4, 5, 6}));
  Graph same({1, 1, 5});
  same.floats("w", {1, 1, 2}, {1, 10});
  same.node("Conv", {"x", "w"}, {"y"}, {{"auto_pad", std::string("SAME_UPPER")}});
  EXPECT_EQ(same.run({1, 2, 3, 4, 5}), (Floats{21, 32, 43, 54, 5}));
}

TEST(OnnxImport, RefusesNumbersThatAreNotFiniteAndInputsTooMany) {
  const auto expect = [](const Graph& graph, const std::string& part) {
    const std::string text = graph.refusal();
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  };
  for (const char* const type : {"LeakyRelu", "Elu", "Swish"})
    expect(Graph({1, 4}).node(type, {"x"}, {"y"}, {{"alpha", NAN}}), "attribute 'alpha' is nan");
  expect(Graph({1, 4}).floats("w", {4, 1}, Floats(4)).node("Gemm", {"x", "w"}, {"y"}, {{"alpha", INFINITY}}),
         "attribute 'alpha' is inf");
  expect(Graph({1, 4}).node("Relu", {"x", "x"}, {"y"}), "(Relu): 2 inputs, at most 1");
}

TEST(OnnxImport, RefusesAttributesThatNoReaderKnowsByValue) {
  Graph graph({1, 4});
  graph.floats("g", {4}, Floats(4, 1.0f)).floats("w", {1, 1, 1}, {1});
  graph.node("LayerNormalization", {"x", "g"}, {"a"}, {{"stash_type", std::int64_t{10}}, {"frob", 0.5f}});
  graph.node("Foo", {"a"}, {"b"}).node("Relu", {"b"}, {"c"}, {{"axis", Integers{1, 2}}});
  graph.node("Transpose", {"c"}, {"d"}, {{"perm", Integers{0, 1}}, {"order", std::string("CW")}});
  graph.node("Constant", {}, {"e"}, {{"value_int", std::int64_t{1}}, {"values", std::vector<std::string>{"a"}}});
  graph.node("Conv", {"x", "w"}, {"y"}, {{"groups", std::int64_t{2}}});
  EXPECT_EQ(graph.refusal().substr(graph.refusal().find(": ") + 2),
            "graph: node 0 (LayerNormalization): attribute 'stash_type' is 10, expected 1, attribute 'frob' is "
            "0.500000 and not known; node 1 (Foo): no layer does it; node 2 (Relu): attribute 'axis' is [1, 2] and not "
            "known; node 3 (Transpose): attribute 'order' is 'CW' and not known; node 4 (Constant): attribute 'values' "
            "is ['a'] and not known; node 5 (Conv): [1, 4] with weights [1, 1, 1]; one to three axes; node 5 (Conv): "
            "attribute 'groups' is 2 and not known");
}

// As exporters write them: defaults that are not read, and what says a second time how large something is.
TEST(OnnxImport, TakesAttributesThatChangeNothing) {
  const std::int64_t zero = 0, one = 1, two = 2;
  Graph graph({1, 4}, 19);
  graph.floats("g", {4}, Floats(4, 2.0f)).integers("shape", {1, 2, 2}).floats("w", {2, 2, 1}, {1, 0, 0, 1});
  graph.codes("trains", "BOOL", {}, {0}).floats("ratio", {}, {0.5f}).integers("none", {}).integers("last", {2});
  graph.node("Cast", {"x"}, {"a"}, {{"to", one}, {"saturate", one}});
  graph.node("LayerNormalization", {"a", "g"}, {"b"}, {{"axis", -one}, {"epsilon", 1e-10f}, {"stash_type", one}});
  graph.node("Dropout", {"b", "ratio", "trains"}, {"c"}, {{"seed", two}});
  graph.node("Reshape", {"c", "shape"}, {"d"}, {{"allowzero", zero}});
  graph.node("Conv", {"d", "w"}, {"e"}, {{"kernel_shape", Integers{1}}, {"group", one}, {"dilations", Integers{1}}});
  graph.node("MaxPool", {"e"}, {"f"}, {{"kernel_shape", Integers{1}}, {"storage_order", zero}, {"ceil_mode", zero}});
  graph.node("ReduceMean", {"f", "none"}, {"h"}, {{"noop_with_empty_axes", one}});
  graph.node("ReduceMax", {"h", "last"}, {"y"}, {{"noop_with_empty_axes", zero}, {"keepdims", zero}});
  EXPECT_EQ(graph.run({1, 1, 3, 3}), (Floats{-2, 2}));
}

TEST(OnnxImport, RefusesNumbersThatContradictTheWeights) {
  const auto expect = [](const Graph& graph, const std::string& part) {
    const std::string text = graph.refusal();
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  };
  expect(Graph({1, 1, 5})
             .floats("w", {1, 1, 2}, Floats(2))
             .node("Conv", {"x", "w"}, {"y"}, {{"kernel_shape", Integers{3}}}),
         "another kernel_shape than that of weights [1, 1, 2]");
  expect(Graph({1, 1, 2})
             .floats("w", {1, 1, 2}, Floats(2))
             .floats("r", {1, 1, 1}, Floats(1))
             .node("RNN", {"x", "w", "r"}, {"y"}, {{"hidden_size", std::int64_t{3}}}),
         "hidden_size is 3, of weights [1, 1, 1]");
  expect(Graph({1, 4}).node("Split", {"x"}, {"y", "z"}, {{"axis", std::int64_t{1}}, {"num_outputs", std::int64_t{3}}}),
         "num_outputs is 3, of 2 outputs");
  expect(Graph({1, 4}).codes("trains", "BOOL", {}, {1}).node("Dropout", {"x", "", "trains"}, {"y"}),
         "training_mode, in which values are dropped");
}

TEST(OnnxImport, TellsAllThatHasNoLayerAtOnce) {
  Graph graph({1, 4});
  graph.floats("w", {4, 4}, Floats(16, 1.0f));
  graph.node("Foo", {"x"}, {"a"}).node("Relu", {"a"}, {"b"}).node("NonZero", {"x"}, {"c"});
  graph.node("LeakyRelu", {"x"}, {"d"}, {{"alpha", 0.3f}}).node("Add", {"b", "d"}, {"y"});
  graph.model.graph.nodes[0].name = "first";
  const std::string text = graph.refusal();
  for (const char* part : {"node 'first' (Foo): no layer does it", "node 2 (NonZero)", "node 3 (LeakyRelu): alpha 0.3"})
    EXPECT_NE(text.find(part), std::string::npos) << text << "\nexpected: " << part;
  EXPECT_EQ(text.find("(Relu)"), std::string::npos) << "what reads a refused one is not told of: " << text;
  // But one that no reader knows is, whatever it reads.
  Graph behind({1, 4});
  behind.node("Foo", {"x"}, {"a"}).node("Baz", {"x"}, {"b"}).node("Add", {"a", "b"}, {"c"}).node("Bar", {"c"}, {"d"});
  foreign_node(behind, "Gelu", {"d"}, {}, {"e"}).node("Exp", {"e"}, {"f"}).node("Loop", {"f"}, {"y"});
  EXPECT_EQ(behind.refusal().substr(behind.refusal().find(": ") + 2),
            "graph: node 0 (Foo): no layer does it; node 1 (Baz): no layer does it; node 3 (Bar): no layer does it; "
            "node 4 (Gelu): an operator of domain 'com.microsoft'; node 6 (Loop): a graph that runs more than once");
}

TEST(OnnxImport, RefusesWhatItWouldGetWrong) {
  const auto expect = [](const Graph& graph, std::string_view part) {
    const std::string text = graph.refusal();
    EXPECT_NE(text.find(part), std::string::npos) << text << "\nexpected: " << part;
  };
  expect(Graph({1, 4}, 6).node("Relu", {"x"}, {"y"}), "operators of version 6, expected 7 to 23");
  expect(Graph({1, 4}, 24).node("Relu", {"x"}, {"y"}), "operators of version 24");
  Graph foreign({1, 4});
  foreign.node("Gelu", {"x"}, {"y"});
  foreign.model.graph.nodes[0].domain = "com.microsoft";
  expect(foreign, "an operator of domain 'com.microsoft'");
  expect(Graph({2, 3, 4}).floats("w", {1, 3, 1}, {1, 2, 3}).node("Conv", {"x", "w"}, {"y"}), "a batch of 2");
  expect(Graph({1, 3, 4}).node("Softmax", {"x"}, {"y"}, {{"axis", std::int64_t{1}}}), "only the last one");
  expect(Graph({1, 1, 2})
             .floats("w", {1, 3, 2}, Floats(6))
             .floats("r", {1, 3, 1}, Floats(3))
             .node("GRU", {"x", "w", "r"}, {"y"}, {{"hidden_size", std::int64_t{1}}}),
         "linear_before_reset 0");
  expect(Graph({1, 1, 2})
             .floats("w", {1, 4, 2}, Floats(8))
             .floats("r", {1, 4, 1}, Floats(4))
             .node("LSTM", {"x", "w", "r", "", "", "x", "x"}, {"y"}, {{"direction", std::string("reverse")}}),
         "direction 'reverse' with a first state");
  // Scores whose mask is neither causal nor a window, and values that are another's.
  const auto attention = [](const Floats& mask, const char* value) {
    Graph graph({1, 2, 2});
    graph.floats("w", {2, 2}, {1, 2, 3, 4}).floats("mask", {2, 2}, mask);
    graph.node("MatMul", {"x", "w"}, {"a"}).node("Unsqueeze", {"a", "one"}, {"q"}).integers("one", {1});
    graph.node("Transpose", {"q"}, {"k"}, {{"perm", Integers{0, 1, 3, 2}}}).node("MatMul", {"q", "k"}, {"s"});
    graph.node("Add", {"s", "mask"}, {"m"}).node("Softmax", {"m"}, {"p"}).node("Unsqueeze", {"x", "one"}, {"v"});
    graph.node("MatMul", {"p", value}, {"y"});
    return graph;
  };
  expect(attention({0, 0, -1e9f, 0}, "q"), "neither causal nor a window");
  expect(attention({0, -1, 0, 0}, "q"), "other numbers");
  expect(attention(Floats(4, -1e9f), "q"), "(Add): attention with a mask that hides every key");
  expect(attention({0, -1e9f, 0, 0}, "v"), "no heads of a projection");
  EXPECT_EQ(attention({0, -1e9f, 0, 0}, "q").refusal(), "");
  expect(Graph({1, 1, 2})
             .floats("w", {1, 4, 2}, Floats(8))
             .floats("r", {1, 4, 1}, Floats(4))
             .node("LSTM", {"x", "w", "r"}, {"", "", "y"}),
         "a state that a layer keeps");
  Graph state({1, 1, 2});
  state.model.graph.inputs.push_back({"h", "float32", std::vector<formats::OnnxAxis>{{1, ""}, {1, ""}, {1, ""}}});
  state.floats("w", {1, 1, 2}, Floats(2))
      .floats("r", {1, 1, 1}, Floats(1))
      .node("RNN", {"x", "w", "r", "", "", "h"}, {"a"})
      .node("Relu", {"a"}, {"y"});
  expect(state, "input 'h' is the first state of layers, and no output");
  Graph unknown({1, 4});
  (*unknown.model.graph.inputs[0].axes) = {{std::nullopt, "n"}, {std::nullopt, "width"}};
  expect(unknown.node("Relu", {"x"}, {"y"}), "axis 1 is not said; say it with --shape");
  expect(Graph({1, 4}).node("Mul", {"x", "x"}, {"y"}), "output 'y' is a part of a function that is not known");
  Graph huge({1, 4});
  huge.integers("n", {1 << 23}).floats("z", {}, {0});
  huge.node("Expand", {"z", "n"}, {"a"})
      .node("Concat", {"a", "a"}, {"b"}, {{"axis", std::int64_t{0}}})
      .node("Relu", {"x"}, {"y"});
  expect(huge, "more memory than the file's");
}

/// The type of the only layer's matrix.
Encoding encoding_of(const Graph& graph) {
  const storage::TemporaryDirectory folder;
  const auto mesh = imported_onnx(graph.written(folder.path()));
  EXPECT_TRUE(mesh) << mesh.error().text();
  if (!mesh) return Encoding();
  const mesh::LayerSpec& layer = mesh->graph().spec().layers[0].layers[0];
  EXPECT_TRUE(layer.dtype == Dtype::float32 || layer.activations == Activations::float32);
  return Encoding(layer.dtype, layer.granularity);
}

// All numbers are sums of powers of two, so that every order gives the same.
TEST(OnnxImport, KeepsCodesOfDequantizeLinear) {
  const std::int64_t zero = 0, one = 1;
  Graph tensor({1, 3});
  tensor.codes("q", "int8", {2, 3}, {1, 254, 127, 0, 129, 4}).floats("s", {}, {0.5f});
  tensor.node("DequantizeLinear", {"q", "s"}, {"w"}).node("Gemm", {"x", "w"}, {"y"}, {{"transB", one}});
  EXPECT_EQ(encoding_of(tensor), Encoding(Dtype::int8, Granularity::tensor));
  EXPECT_EQ(tensor.run({2, 4, 8}), (Floats{505, -238}));
  // A scale and a zero point for each output, of a matrix in either order.
  Graph rows({1, 3});
  rows.codes("q", "uint8", {2, 3}, {1, 254, 127, 0, 129, 4})
      .floats("s", {2}, {0.5f, 2})
      .codes("z", "uint8", {2}, {1, 4});
  rows.node("DequantizeLinear", {"q", "s", "z"}, {"w"}, {{"axis", zero}});
  rows.node("Gemm", {"x", "w"}, {"y"}, {{"transB", one}});
  EXPECT_EQ(encoding_of(rows), Encoding(Dtype::uint8, Granularity::channel));
  EXPECT_EQ(rows.run({2, 4, 8}), (Floats{1010, 984}));
  Graph columns({1, 3});
  columns.codes("q", "uint8", {3, 2}, {1, 0, 254, 129, 127, 4}).floats("s", {2}, {0.5f, 2});
  columns.codes("z", "uint8", {2}, {1, 4}).node("DequantizeLinear", {"q", "s", "z"}, {"w"}, {{"axis", one}});
  columns.node("MatMul", {"x", "w"}, {"y"});
  EXPECT_EQ(encoding_of(columns), Encoding(Dtype::uint8, Granularity::channel));
  EXPECT_EQ(columns.run({2, 4, 8}), (Floats{1010, 984}));
  // int8's lowest code, and zero points, are uint8's.
  Graph lowest({1, 2});
  lowest.codes("q", "int8", {1, 2}, {128, 3}).floats("s", {}, {0.25f}).codes("z", "int8", {}, {1});
  lowest.node("DequantizeLinear", {"q", "s", "z"}, {"w"}).node("Gemm", {"x", "w"}, {"y"}, {{"transB", one}});
  EXPECT_EQ(encoding_of(lowest), Encoding(Dtype::uint8, Granularity::tensor));
  EXPECT_EQ(lowest.run({4, 8}), (Floats{-125}));
  // Blocks of 32 inputs, two codes to a byte: -1 and 7 of each output's.
  Graph blocks({1, 64}, 21);
  blocks.codes("q", "int4", {64, 2}, std::vector<std::uint8_t>(64, 0x7f)).floats("s", {2, 2}, {1, 2, 4, 8});
  blocks.node("DequantizeLinear", {"q", "s"}, {"w"}, {{"axis", zero}, {"block_size", std::int64_t{32}}});
  blocks.node("MatMul", {"x", "w"}, {"y"});
  EXPECT_EQ(encoding_of(blocks), Encoding(Dtype::int4, Granularity::block32));
  EXPECT_EQ(blocks.run(Floats(64, 1)), (Floats{-160, 2240}));
  // A scale for each input is no type of Weft's.
  Graph inputs({1, 2});
  inputs.codes("q", "int8", {2, 1}, {1, 2}).floats("s", {2}, {0.5f, 2});
  inputs.node("DequantizeLinear", {"q", "s"}, {"w"}, {{"axis", zero}}).node("MatMul", {"x", "w"}, {"y"});
  EXPECT_EQ(encoding_of(inputs), Encoding());
  EXPECT_EQ(inputs.run({1, 1}), (Floats{4.5f}));
}

TEST(OnnxImport, KeepsTheStateOfRecurrentLayersInside) {
  Graph graph({1, 1, 1});
  graph.model.graph.inputs.push_back({"h", "float32", std::vector<formats::OnnxAxis>{{1, ""}, {1, ""}, {1, ""}}});
  graph.model.graph.outputs.push_back({"next", "float32", {}});
  graph.floats("w", {1, 1, 1}, {1}).floats("r", {1, 1, 1}, {0.5f});
  graph.node("RNN", {"x", "w", "r", "", "", "h"}, {"all", "next"}, {{"activations", std::vector<std::string>{"Relu"}}});
  graph.node("Flatten", {"all"}, {"y"});
  const storage::TemporaryDirectory folder;
  auto mesh = imported_onnx(graph.written(folder.path()));
  ASSERT_TRUE(mesh) << mesh.error().text();
  const Floats x{4, 0, 0, 1};
  Floats y(4);
  const mesh::RunInput input{"x", x};
  const mesh::RunOutput output{"y", y};
  ASSERT_TRUE(mesh->run({&input, 1}, 4, {&output, 1}));
  EXPECT_EQ(y, (Floats{4, 2, 1, 1.5f}));
}

}  // namespace
}  // namespace weft::models::onnx_import_test
