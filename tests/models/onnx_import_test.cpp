// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/onnx_import.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/persistence/mesh_load.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/onnx/onnx.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/support/shared_data.hpp"
#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace weft::models::onnx_import_test {
namespace {

using formats::OnnxModel;
using formats::OnnxNode;
using formats::OnnxValue;

Result<mesh::Mesh> imported(const std::string& path, const OnnxImportOptions& options = {}) {
  WEFT_TRY(const ImportedOnnx model, import_onnx(storage::real_file_system(), path, options));
  WEFT_TRY(const ByteBuffer bytes, collect(model.content));
  return mesh::load_mesh(bytes, path);
}

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
  Result<mesh::Mesh> load() const { return imported(path_, {{{"input", {1, 576}}}, {{"sr", 16000}}}); }
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

// The weights of a later training, in the order of the network's parameters.
TEST_F(SileroVad, HearsWithTheWeightsOfItsOtherForm) {
  const auto file =
      formats::load_safetensors(storage::real_file_system(), shared_data("silero-vad/silero_vad_16k.safetensors"));
  ASSERT_TRUE(file) << file.error().text();
  auto mesh = load();
  ASSERT_TRUE(mesh) << mesh.error().text();
  mesh::WeightStore& weights = mesh::MeshAccess::weights(*mesh);
  ASSERT_EQ(weights.parameters().size(), file->tensors().size());
  for (std::size_t i = 0; i < file->tensors().size(); ++i) {
    const formats::Tensor& tensor = file->tensors()[i];
    const auto values = file->values<float>(tensor.name);
    ASSERT_TRUE(values) << values.error().text();
    const Status written = weights.write(weights.parameters()[i], *values, tensor.name);
    ASSERT_TRUE(written) << written.error().text();
  }
  expect_heard(*mesh, "other_probabilities");
}

/// Small graphs that the onnx package wrote, and what onnxruntime computes for them.
TEST(OnnxImport, ComputesWhatOnnxruntimeComputes) {
  const auto bytes = storage::real_file_system().read(source_path("tests/data/models/onnx_goldens.json"), 1 << 20);
  ASSERT_TRUE(bytes) << bytes.error().text();
  const Json goldens = *parse_json(as_text(*bytes), "goldens");
  EXPECT_EQ(goldens.size(), 16u);
  for (const auto& [name, golden] : goldens.members()) {
    SCOPED_TRACE(name);
    auto mesh = imported(source_path("tests/data/fuzz/onnx/" + name));
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

/// A graph from "x" to "y" and its constants.
struct Graph {
  OnnxModel model;
  std::map<std::string, std::vector<float>> held;

  explicit Graph(std::vector<std::int64_t> x, std::int64_t opset = 17) {
    model.opsets[""] = opset;
    std::vector<formats::OnnxAxis> axes;
    for (const std::int64_t extent : x) axes.push_back({extent, ""});
    model.graph.inputs = {{"x", "float32", axes}};
    model.graph.outputs = {{"y", "float32", {}}};
  }
  Graph& node(std::string type, std::vector<std::string> in, std::vector<std::string> out,
              std::vector<std::pair<std::string, OnnxValue>> attributes = {}) {
    OnnxNode node;
    node.type = std::move(type);
    node.inputs = std::move(in);
    node.outputs = std::move(out);
    node.attributes = std::move(attributes);
    model.graph.nodes.push_back(std::move(node));
    return *this;
  }
  Graph& floats(const std::string& name, Shape shape, std::vector<float> values) {
    auto& kept = held[name] = std::move(values);
    model.graph.initializers.push_back({name, "float32", std::move(shape), std::as_bytes(std::span(kept))});
    return *this;
  }
  Graph& codes(const std::string& name, const std::string& type, Shape shape, std::vector<std::uint8_t> values) {
    auto& kept = bytes[name] = std::move(values);
    model.graph.initializers.push_back({name, type, std::move(shape), std::as_bytes(std::span(kept))});
    return *this;
  }
  Graph& integers(const std::string& name, const std::vector<std::int64_t>& values) {
    auto& kept = wholes[name] = values;
    model.graph.initializers.push_back({name, "int64", {values.size()}, std::as_bytes(std::span(kept))});
    return *this;
  }
  std::map<std::string, std::vector<std::int64_t>> wholes;
  std::map<std::string, std::vector<std::uint8_t>> bytes;

  std::string written(const std::string& folder) const {
    const std::string path = folder + "/g.onnx";
    const auto source = formats::onnx_source(model);
    EXPECT_TRUE(source) << source.error().text();
    EXPECT_TRUE(storage::write_file_durably(storage::real_file_system(), path, *source));
    return path;
  }
  std::vector<float> run(const std::vector<float>& x) const {
    const storage::TemporaryDirectory folder;
    const auto mesh = imported(written(folder.path()));
    EXPECT_TRUE(mesh) << mesh.error().text();
    if (!mesh) return {};
    std::vector<float> y(mesh->graph().nodes()[mesh->graph().outputs()[0]].width);
    const mesh::RunInput input{"x", x};
    const mesh::RunOutput output{"y", y};
    const Status ran = mesh->forward({&input, 1}, 1, {&output, 1});
    EXPECT_TRUE(ran) << ran.error().text();
    return y;
  }
  std::string refusal() const {
    const storage::TemporaryDirectory folder;
    const auto mesh = imported(written(folder.path()));
    return mesh ? "" : mesh.error().text();
  }
};

using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;

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

TEST(OnnxImport, ComputesShapesBeforeTheNetworkRuns) {
  Graph graph({1, 6});
  graph.integers("zero", {0}).integers("two", {2}).integers("minus", {-1});
  graph.node("Shape", {"x"}, {"s"}).node("Gather", {"s", "zero"}, {"n"}, {{"axis", std::int64_t{0}}});
  graph.node("Concat", {"n", "two", "minus"}, {"wanted"}, {{"axis", std::int64_t{0}}});
  graph.node("Reshape", {"x", "wanted"}, {"a"}).node("Transpose", {"a"}, {"b"}, {{"perm", Integers{0, 2, 1}}});
  graph.node("Flatten", {"b"}, {"y"});
  EXPECT_EQ(graph.run({1, 2, 3, 4, 5, 6}), (Floats{1, 4, 2, 5, 3, 6}));
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

/// Attention of 5 tokens of 6 values with 4 heads of 4 elements, in binary64 and by the words of the operators.
struct AttentionCase {
  std::size_t kv_heads = 2;
  double scale = 0.5, cap = 0;  // 0: none
  bool is_causal = true, has_bias = false;
  int turning = 0;  // 1: halves, 2: neighbours
  static constexpr std::size_t kTokens = 5, kIn = 6, kHeads = 4, kDim = 4;

  static Floats numbers(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    Floats made(count);
    for (float& value : made) value = static_cast<float>(random() % 2001) / 1000 - 1;
    return made;
  }
  std::size_t width(int part) const { return (part == 0 ? kHeads : kv_heads) * kDim; }
  Floats matrix(int part) const { return numbers(kIn * width(part), 10 + static_cast<unsigned>(part)); }
  Floats bias() const { return numbers(3 * kHeads * kDim, 20); }
  static Floats input() { return numbers(kTokens * kIn, 1); }
  static double angle(std::size_t t, std::size_t pair) {
    return static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(pair) / (kDim / 2));
  }
  static Floats table(bool is_sine) {
    Floats made;
    for (std::size_t t = 0; t < kTokens + 2; ++t)
      for (std::size_t i = 0; i < kDim / 2; ++i)
        made.push_back(static_cast<float>(is_sine ? std::sin(angle(t, i)) : std::cos(angle(t, i))));
    return made;
  }

  /// [tokens][width] of queries (0), keys (1) or values (2).
  std::vector<double> projected(int part) const {
    const Floats x = input(), w = matrix(part), b = bias();
    std::vector<double> made(kTokens * width(part));
    for (std::size_t t = 0; t < kTokens; ++t)
      for (std::size_t j = 0; j < width(part); ++j) {
        double sum = has_bias ? static_cast<double>(b[static_cast<std::size_t>(part) * kHeads * kDim + j]) : 0;
        for (std::size_t k = 0; k < kIn; ++k) sum += double{x[t * kIn + k]} * double{w[k * width(part) + j]};
        made[t * width(part) + j] = sum;
      }
    if (part == 2 || turning == 0) return made;
    for (std::size_t t = 0; t < kTokens; ++t)
      for (std::size_t h = 0; h < width(part) / kDim; ++h)
        for (std::size_t i = 0; i < kDim / 2; ++i) {
          const std::size_t at = t * width(part) + h * kDim;
          double &a = made[at + (turning == 1 ? i : 2 * i)], &c = made[at + (turning == 1 ? i + kDim / 2 : 2 * i + 1)];
          const double cosine = std::cos(angle(t, i)), sine = std::sin(angle(t, i)), before = a;
          a = before * cosine - c * sine;
          c = before * sine + c * cosine;
        }
    return made;
  }
  /// [tokens][heads dim].
  std::vector<double> expected() const {
    const auto q = projected(0), k = projected(1), v = projected(2);
    std::vector<double> y(kTokens * kHeads * kDim);
    for (std::size_t h = 0; h < kHeads; ++h)
      for (std::size_t t = 0; t < kTokens; ++t) {
        const std::size_t kv = h / (kHeads / kv_heads) * kDim, last = is_causal ? t : kTokens - 1;
        std::vector<double> share(last + 1);
        double sum = 0;
        for (std::size_t j = 0; j <= last; ++j) {
          double score = 0;
          for (std::size_t d = 0; d < kDim; ++d) score += q[t * width(0) + h * kDim + d] * k[j * width(1) + kv + d];
          score *= scale;
          if (cap != 0) score = cap * std::tanh(score / cap);
          sum += share[j] = std::exp(score);
        }
        for (std::size_t j = 0; j <= last; ++j)
          for (std::size_t d = 0; d < kDim; ++d)
            y[t * width(0) + h * kDim + d] += share[j] / sum * v[j * width(2) + kv + d];
      }
    return y;
  }
  /// Matrices and the products "q", "k", "v".
  Graph graph(std::int64_t opset = 23) const {
    Graph made({1, kTokens, kIn}, opset);
    for (const auto& [part, name] : {std::pair(0, "q"), std::pair(1, "k"), std::pair(2, "v")})
      made.floats(std::string("w") + name, {kIn, width(part)}, matrix(part))
          .node("MatMul", {"x", std::string("w") + name}, {name});
    return made;
  }
  void expect(const Graph& graph, const char* what) const {
    const Floats y = graph.run(input());
    const std::vector<double> wanted = expected();
    ASSERT_EQ(y.size(), wanted.size()) << what;
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(double{y[i]}, wanted[i], 2e-6) << what << " " << i;
  }
};
using Attributes = std::vector<std::pair<std::string, OnnxValue>>;
Graph& foreign_node(Graph& graph, const char* type, std::vector<std::string> inputs, Attributes attributes,
                    std::vector<std::string> outputs = {"y"}) {
  graph.node(type, std::move(inputs), std::move(outputs), std::move(attributes));
  graph.model.graph.nodes.back().domain = "com.microsoft";
  return graph;
}

TEST(OnnxImport, TakesAttentionThatIsOneOperator) {
  const std::int64_t four = 4, two = 2, one = 1;
  const AttentionCase grouped;
  grouped.expect(grouped.graph().node("Attention", {"q", "k", "v"}, {"y"},
                                      {{"q_num_heads", four}, {"kv_num_heads", two}, {"is_causal", one}}),
                 "causal");
  Graph masked = grouped.graph();
  std::vector<std::uint8_t> seen;
  for (std::size_t i = 0; i < 25; ++i) seen.push_back(i % 5 <= i / 5);
  masked.codes("mask", "BOOL", {5, 5}, seen);
  grouped.expect(
      masked.node("Attention", {"q", "k", "v", "mask"}, {"y"}, {{"q_num_heads", four}, {"kv_num_heads", two}}),
      "a mask");
  const AttentionCase whole{.kv_heads = 4, .scale = 0.3, .cap = 0.7, .is_causal = false};
  whole.expect(whole.graph().node("Attention", {"q", "k", "v"}, {"y"},
                                  {{"q_num_heads", four}, {"kv_num_heads", four}, {"scale", 0.3f}, {"softcap", 0.7f}}),
               "without a mask, with a cap");
  Graph split = grouped.graph();  // heads first, as PyTorch has them
  split.integers("heads", {0, 0, -1, 4});
  for (const std::string name : {"q", "k", "v"})
    split.node("Reshape", {name, "heads"}, {name + "r"})
        .node("Transpose", {name + "r"}, {name + "t"}, {{"perm", Integers{0, 2, 1, 3}}});
  split.node("Attention", {"qt", "kt", "vt"}, {"a"}, {{"is_causal", one}});
  split.integers("flat", {0, 0, -1}).node("Transpose", {"a"}, {"b"}, {{"perm", Integers{0, 2, 1, 3}}});
  grouped.expect(split.node("Reshape", {"b", "flat"}, {"y"}), "heads first");
  const AttentionCase biased{.kv_heads = 4, .has_bias = true};
  Graph multi = biased.graph(17);
  multi.floats("bias", {48}, biased.bias());
  biased.expect(foreign_node(multi, "MultiHeadAttention", {"q", "k", "v", "bias"},
                             {{"num_heads", four}, {"unidirectional", one}}),
                "MultiHeadAttention");
  for (const int turning : {0, 1, 2}) {
    const AttentionCase turned{.cap = 1.5, .turning = turning};
    Graph query = turned.graph(17);
    query.integers("before", {4}).integers("all", {5});
    query.floats("cos", {7, 2}, AttentionCase::table(false)).floats("sin", {7, 2}, AttentionCase::table(true));
    Attributes attributes{{"num_heads", four}, {"kv_num_heads", two}, {"softcap", 1.5f}};
    if (turning != 0) attributes.push_back({"do_rotary", one});
    if (turning == 2) attributes.push_back({"rotary_interleaved", one});
    turned.expect(
        foreign_node(query, "GroupQueryAttention", {"q", "k", "v", "", "", "before", "all", "cos", "sin"}, attributes),
        "GroupQueryAttention");
    Graph packed = turned.graph(17);
    packed.integers("before", {4}).integers("all", {5});
    packed.floats("cos", {7, 2}, AttentionCase::table(false)).floats("sin", {7, 2}, AttentionCase::table(true));
    packed.model.graph.nodes.clear();
    packed.model.graph.initializers.erase(packed.model.graph.initializers.begin(),
                                          packed.model.graph.initializers.begin() + 3);
    Floats together;
    for (std::size_t k = 0; k < AttentionCase::kIn; ++k)
      for (const int part : {0, 1, 2}) {
        const Floats w = turned.matrix(part);
        const auto row = w.begin() + static_cast<std::ptrdiff_t>(k * turned.width(part));
        together.insert(together.end(), row, row + static_cast<std::ptrdiff_t>(turned.width(part)));
      }
    packed.floats("w", {6, 32}, together).node("MatMul", {"x", "w"}, {"qkv"});
    turned.expect(
        foreign_node(packed, "GroupQueryAttention", {"qkv", "", "", "", "", "before", "all", "cos", "sin"}, attributes),
        "packed");
  }
}

TEST(OnnxImport, RefusesAttentionOfTwoValuesAndCachesByName) {
  const std::int64_t four = 4, two = 2, one = 1;
  const AttentionCase grouped;
  const auto expect = [](const Graph& graph, const std::vector<std::string>& parts) {
    const std::string text = graph.refusal();
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  };
  const Attributes heads{{"q_num_heads", four}, {"kv_num_heads", two}};
  expect(grouped.graph().node("Attention", {"q", "k", "v", "", "x", "x"}, {"y", "pk"}, heads).node("Foo", {"x"}, {"z"}),
         {"(Attention): Attention with past_key, past_value, present_key", "(Foo): no layer does it"});
  Graph cross = grouped.graph();
  cross.node("Relu", {"x"}, {"other"}).node("MatMul", {"other", "wk"}, {"ok"});
  expect(cross.node("Attention", {"q", "ok", "v"}, {"y"}, heads), {"across two values"});
  expect(grouped.graph().node("Attention", {"q", "k", "v"}, {"y"},
                              {{"q_num_heads", four}, {"kv_num_heads", two}, {"is_causal", one}, {"softcap", 1.0f}}),
         {"softcap and a mask"});
  expect(grouped.graph().node("Attention", {"x", "x", "x"}, {"y"}, {{"q_num_heads", two}, {"kv_num_heads", two}}),
         {"no heads of a projection"});
  Graph query = grouped.graph(17);
  query.integers("before", {3}).integers("all", {5});
  expect(foreign_node(query, "GroupQueryAttention", {"q", "k", "v", "", "", "before", "all"},
                      {{"num_heads", four}, {"kv_num_heads", two}}),
         {"input 5 (a length) is not that of one sample, 4"});
  expect(grouped.graph(17).node("GroupQueryAttention", {"q", "k", "v"}, {"y"}), {"com.microsoft has one of this name"});
}

TEST(OnnxImport, RefusesAttributesAndMasksThatNoAttentionHas) {
  const std::int64_t four = 4, two = 2;
  const AttentionCase grouped;
  const auto expect = [](const Graph& graph, const std::string& part) {
    const std::string text = graph.refusal();
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  };
  const Attributes heads{{"q_num_heads", four}, {"kv_num_heads", two}};
  const auto with = [&](const char* name, OnnxValue value) {
    Attributes attributes = heads;
    attributes.emplace_back(name, std::move(value));
    Graph made = grouped.graph();
    made.node("Attention", {"q", "k", "v"}, {"y"}, attributes);
    return made;
  };
  Graph blind = grouped.graph();
  blind.codes("mask", "BOOL", {5, 5}, std::vector<std::uint8_t>(25));
  expect(blind.node("Attention", {"q", "k", "v", "mask"}, {"y"}, heads),
         "node 3 (Attention): attention with a mask that hides every key");
  expect(with("frobnicate", std::int64_t{3}), "Attention with attribute 'frobnicate'");
  expect(with("scale", -0.3f), "'scale' is -0.3");
  expect(with("scale", NAN), "'scale' is nan");
  expect(with("softcap", NAN), "'softcap' is nan");
  expect(with("softcap", INFINITY), "'softcap' is inf");
  expect(grouped.graph().node("Attention", {"q", "k", "v", "", "", "", "", "x"}, {"y"}, heads), "input 7");
  Graph query = grouped.graph(17);
  query.integers("before", {4}).integers("all", {5});
  expect(
      foreign_node(query, "GroupQueryAttention", {"q", "k", "v", "", "", "before", "all", "", "", "", "", "", "before"},
                   {{"num_heads", four}, {"kv_num_heads", two}, {"k_quant_type", std::string("PER_TENSOR")}}),
      "GroupQueryAttention with input 12, attribute 'k_quant_type'");
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
         "the cell state");
  Graph state({1, 1, 2});
  state.model.graph.inputs.push_back({"h", "float32", std::vector<formats::OnnxAxis>{{1, ""}, {1, ""}, {1, ""}}});
  state.floats("w", {1, 1, 2}, Floats(2))
      .floats("r", {1, 1, 1}, Floats(1))
      .node("RNN", {"x", "w", "r", "", "", "h"}, {"a"})
      .node("Relu", {"a"}, {"y"});
  expect(state, "input 'h' is the first state of recurrent layers, and no output");
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
  const auto mesh = imported(graph.written(folder.path()));
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
  auto mesh = imported(graph.written(folder.path()));
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
