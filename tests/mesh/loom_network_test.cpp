// SPDX-License-Identifier: Apache-2.0
// Models of Loom compute here what they compute there: each layer against its documented layout, summed
// in float64.

#include "mesh/loom/loom_network.hpp"

#include "mesh/mesh.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"

#include "storage/file_system.hpp"

#include "core/json.hpp"

#include "convolution_models.hpp"
#include "layer_models.hpp"
#include "testing.hpp"
#include "tests/formats/loom_files.hpp"
#include "tests/support/source_path.hpp"
#include <cmath>
#include <tuple>

namespace weft::mesh::loom_network_test {
namespace {

using namespace testing_support;
using formats::loom_files::decode_v1;
using formats::loom_files::raw;
using formats::loom_files::V1Model;
using Values = std::vector<double>;

Result<ImportedEntity> import(const V1Model& model) { return import_loom_entity(must(decode_v1(model.encode()))); }

/// Output of the imported model for `x`, held until all layers have seen it.
std::vector<float> answer(const V1Model& model, const std::vector<float>& x, std::uint64_t ticks = 0) {
  const ImportedEntity imported = must(import(model));
  Mesh mesh = must(Mesh::build(imported.spec, {.executor = ExecutorKind::deterministic}));
  must(restore_weights(mesh, imported.file));
  must(mesh.set_input("in", x));
  must(mesh.tick(ticks ? ticks : imported.spec.layers.size()));
  const auto y = must(mesh.output("out"));
  return {y.begin(), y.end()};
}

void expect_near(const std::vector<float>& found, const Values& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 2e-6 * (1.0 + std::fabs(expected[i]))) << i;
}

/// sum over i of w[at + i] x[from + i]
double dot(const std::vector<float>& w, std::size_t at, const auto& x, std::size_t from, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(w[at + i]) * static_cast<double>(x[from + i]);
  return sum;
}

/// Values of `w` from `at` on, row by row.
Values part(const std::vector<float>& w, std::size_t at, std::size_t n) {
  return {w.begin() + static_cast<std::ptrdiff_t>(at), w.begin() + static_cast<std::ptrdiff_t>(at + n)};
}
Values wide(const std::vector<float>& x) { return {x.begin(), x.end()}; }

/// A model's outputs for tokens of `width` values, one after the other, from a state of zeros.
Values over_tokens(const models::Model& model, const std::vector<Values>& weights, const std::vector<float>& x,
                   std::size_t width, std::size_t states) {
  Values y, state(states);
  for (std::size_t at = 0; at < x.size(); at += width) {
    auto outcome = model(weights, part(x, at, width), state);
    y.insert(y.end(), outcome.y.begin(), outcome.y.end());
    state = std::move(outcome.next);
  }
  return y;
}

TEST(EntityV1Import, DenseWithEveryActivation) {
  using kernels::Activation;
  const auto w = noise(5 * 3, 1), x = noise(3, 2);
  for (const auto& [name, activation] : {std::pair{"Linear", Activation::linear},
                                         {"ReLU", Activation::relu},
                                         {"Silu", Activation::silu},
                                         {"GELU", Activation::gelu_tanh},
                                         {"Tanh", Activation::tanh},
                                         {"Sigmoid", Activation::sigmoid},
                                         {"LeakyReLU", Activation::leaky_relu},
                                         {"ReLU2", Activation::relu2}})
    expect_near(
        answer(V1Model().layer("Dense", {{"activation", name}, {"input_height", 3}, {"output_height", 5}}).weights(w),
               x),
        models::dense(activation)({wide(w)}, wide(x), {}).y);
}

/// Cases that make_loom_goldens.py computed in float64.
Json goldens(const char* what) {
  const auto bytes =
      must(storage::real_file_system().read(source_path("tests/data/formats/loom_goldens.json"), 1 << 24));
  return must(parse_json(as_text(bytes), "goldens"))[what];
}

TEST(EntityV1Import, LayersInsideLayers) {
  for (const Json& golden : goldens("networks")) {
    SCOPED_TRACE(golden["name"].text());
    expect_near(answer(formats::loom_files::golden_model(golden), golden["x"].get<std::vector<float>>()),
                golden["y"].get<Values>());
  }
}

/// Weights of the worked examples of planetbridging's mixers.
std::vector<float> g(std::size_t k, std::size_t n) {
  return formats::loom_files::golden_weights({{"seed", k}, {"count", n}});
}

TEST(EntityV1Import, BiasesOfPlanetbridgingAreNamedByTheLayersPlace) {
  V1Model model;
  const auto conv = [](std::size_t channels, std::size_t filters, std::size_t kernel) {
    return Json{{"input_channels", channels}, {"filters", filters}, {"kernel_size", kernel}, {"stride", 1}};
  };
  const auto with = [](Json keys, const Json& more) { return keys.update(more), keys; };
  model.layer("CNN3", with(conv(1, 2, 2), {{"input_depth", 2},
                                           {"input_height", 2},
                                           {"input_width", 2},
                                           {"output_depth", 1},
                                           {"output_height", 1},
                                           {"output_width", 1}}));
  model.weights(g(1, 16)).layer("Dense", {{"input_height", 2}, {"output_height", 8}}).weights(g(2, 16));
  model.layer("CNN2", with(conv(1, 2, 2),
                           {{"input_height", 2}, {"input_width", 4}, {"output_height", 1}, {"output_width", 3}}));
  model.weights(g(3, 8));
  model.layer("Dense", {{"input_height", 6}, {"output_height", 8}, {"activation", "ReLU"}}).weights(g(4, 48));
  model.layer("CNN1", with(conv(1, 4, 8), {{"input_height", 8}, {"output_height", 1}})).weights(g(5, 32));
  model.layer("Dense", {{"input_height", 4}, {"output_height", 8}}).weights(g(6, 32));
  std::vector<float> attention;
  for (const auto& part : {g(7, 16), g(8, 16), g(9, 16), g(10, 16), g(31, 4), g(32, 4), g(33, 4), g(34, 4)})
    attention.insert(attention.end(), part.begin(), part.end());
  model.layer("MultiHeadAttention", {{"d_model", 4}, {"num_heads", 2}, {"head_dim", 2}, {"seq_length", 2}});
  model.weights(attention);
  model.layer("RNN", {{"input_height", 4}, {"output_height", 4}, {"seq_length", 2}}).weights(g(11, 36));
  std::vector<float> gates;
  for (const std::size_t k : {12, 13, 14, 15}) {
    const auto gate = g(k, 36);
    gates.insert(gates.end(), gate.begin(), gate.end());
  }
  model.layer("LSTM", {{"input_height", 4}, {"output_height", 4}, {"seq_length", 2}}).weights(gates);
  model.layer("Dense", {{"input_height", 8}, {"output_height", 8}}).weights(g(16, 64));
  for (const auto& [layer, k] : {std::pair{9, 36}, {1, 22}, {5, 26}, {3, 24}}) {  // in any order
    model.weights(raw(g(static_cast<std::size_t>(k), 8)), "float32", 1, false);
    model.blobs.back()["path"] = "bridge.dense." + std::to_string(layer) + ".biases";
  }
  // Another program's answers to the two samples of that example.
  expect_near(
      answer(model, {0.5f, -1, 2, 0.25f, 1, 0.75f, -0.5f, 1.5f}),
      {1.15465254, 1.15406698, -1.66432609, -0.582098574, 1.37708921, -0.0226464485, -0.0232320064, -1.02912508});
  expect_near(answer(model, {1, 1, 1, 1, -1, -1, -1, -1}),
              {1.0884182, 1.06388667, -1.68751072, -0.514158547, 1.41563361, -0.0815030395, -0.106034571, -1.04493196});
}

TEST(EntityV1Import, ASumFirstAddsASecondInput) {
  const auto imported = must(import(V1Model().layer("Residual", {{"input_height", 2}}).layer("Residual")));
  EXPECT_EQ(imported.notes.size(), 2u);
  Mesh mesh = must(Mesh::build(imported.spec, {.executor = ExecutorKind::deterministic}));
  must(mesh.set_input("in", std::vector<float>{1, -4}));
  must(mesh.tick());
  EXPECT_EQ(must(mesh.output("out"))[1], -4.0f) << "Loom hands it nothing to add";
  must(mesh.set_input("skip", std::vector<float>{0.5f, 4}));
  must(mesh.tick());
  EXPECT_EQ(must(mesh.output("out"))[0], 1.5f);
  EXPECT_EQ(must(mesh.output("out"))[1], 0.0f);
}

TEST(EntityV1Import, NormsOfQueriesAndKeys) {
  const Json keys{{"d_model", 4}, {"num_heads", 2}, {"head_dim", 2}, {"seq_length", 3}};
  const auto weights = noise(4 * 16 + 4 * 4, 3), x = noise(12, 4);
  V1Model plain = V1Model().layer("MHA", keys).weights(weights), normed = plain;
  for (const char* const end : {".q_norm", ".k_norm"}) {
    normed.weights(std::vector<float>{1, 1});
    normed.blobs.back()["path"] = std::string("layers.0") + end;
  }
  const auto imported = must(import(normed));
  EXPECT_EQ(std::get<std::string>(imported.spec.layers[0].options.at("qk_norm")), "rms");
  const auto gain = must(imported.file.values<float>("weights/0,0,0,0/key_gain", {2}));
  EXPECT_EQ(gain[1], 1.0f);
  EXPECT_NE(answer(normed, x), answer(plain, x));
  normed.blobs.back()["path"] = "layers.0.x_norm";
  expect_error(import(normed), Errc::unsupported, {"a norm of queries or of keys alone"});
}

TEST(EntityV1Import, TypesInsideContainersAreOneOrFloat32) {
  const auto model_of = [](const char* second) {
    V1Model model;
    const Json dense{
        {"z", 0}, {"y", 0}, {"x", 0}, {"l", 0}, {"type", "Dense"}, {"input_height", 2}, {"output_height", 2}};
    model.layer("Sequential", {{"sequential_layers", Json{dense, dense}}});
    model.weights(raw(std::vector<std::int8_t>{127, -3, 4, 5}), "int8", 0.5f);
    model.blobs.back()["path"] = "layers.0.sequential_layers.0";
    const std::string type = second;
    model.weights(type == "int8" ? raw(std::vector<std::int8_t>{1, 2, 127, 4}) : raw(std::vector<float>{1, 2, 3, 4}),
                  type, 0.25f);
    model.blobs.back()["path"] = "layers.0.sequential_layers.1";
    return model;
  };
  const auto same = must(import(model_of("int8"))), mixed = must(import(model_of("float32")));
  EXPECT_EQ(same.spec.layers[0].dtype, Dtype::int8);
  EXPECT_EQ(mixed.spec.layers[0].dtype, Dtype::float32);
  ASSERT_EQ(mixed.notes.size(), 1u);
  EXPECT_NE(mixed.notes[0].find("the layers of a container have one type"), std::string::npos);
  const double a = 0.5 * (127 - 6), b = 0.5 * (4 + 10);
  expect_near(answer(model_of("float32"), {1, 2}), {a + 2 * b, 3 * a + 4 * b});
  expect_near(answer(model_of("int8"), {1, 2}), {0.25 * (a + 2 * b), 0.25 * (127 * a + 4 * b)});
}

TEST(EntityV1Import, DenseBiasesInBlobsOfTheirOwn) {
  const auto w = noise(2 * 3, 1), v = noise(2 * 2, 2), x = noise(3, 3);
  const std::vector<float> bias{0.5f, -2};
  V1Model model;
  model.layer("Dense", {{"input_height", 3}, {"output_height", 2}}).weights(w);
  model.layer("Dense", {{"input_height", 2}, {"output_height", 2}}).weights(v);
  const std::vector<float> plain = answer(model, x);
  model.weights(bias);
  model.blobs.back()["path"] = "bridge.dense.1.biases";
  const std::vector<float> biased = answer(model, x);
  ASSERT_EQ(biased.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(biased[i], plain[i] + bias[i], 1e-6);
  model.blobs.back()["path"] = "bridge.dense.2.biases";
  EXPECT_FALSE(import(model));  // there is no third
  model.blobs.back()["path"] = "bridge.dense.1.biases";
  model.weights({1.0f});
  model.blobs.back()["path"] = "bridge.dense.0.biases";
  EXPECT_FALSE(import(model));  // one number, for two outputs
}

TEST(EntityV1Import, RnnAndLstmBeginEachCallWithZeros) {
  constexpr std::size_t kIn = 3, kOut = 4, kTokens = 5;
  const auto x = noise(kTokens * kIn, 3);
  const Json keys{{"input_height", kIn}, {"output_height", kOut}, {"seq_length", kTokens}};
  // Of each gate: what the input is multiplied by, what the state is, and the bias.
  constexpr std::size_t kGate = kOut * kIn + kOut * kOut + kOut;
  const auto w = noise(4 * kGate, 5, 0.5f);
  const auto weights_of = [&](std::size_t gates) {
    std::vector<Values> all(4);
    for (std::size_t g = 0; g < gates; ++g)
      for (const auto& [i, at, n] :
           {std::tuple{0, std::size_t{0}, kOut * kIn}, {1, kOut * kIn, kOut * kOut}, {2, kOut * (kIn + kOut), kOut}}) {
        const Values values = part(w, g * kGate + at, n);
        all[static_cast<std::size_t>(i)].insert(all[static_cast<std::size_t>(i)].end(), values.begin(), values.end());
      }
    all[3].resize(gates * kOut);
    return all;
  };
  const Values rnn = over_tokens(models::rnn(kOut, true, kernels::Activation::tanh), weights_of(1), x, kIn, kOut);
  const std::vector<float> one(w.begin(), w.begin() + kGate);
  expect_near(answer(V1Model().layer("RNN", keys).weights(one), x), rnn);
  expect_near(answer(V1Model().layer("RNN", keys).weights(one), x, 7), rnn);
  expect_near(answer(V1Model().layer("LSTM", keys).weights(w), x),
              over_tokens(models::lstm(kOut, true), weights_of(4), x, kIn, 2 * kOut));
}

TEST(EntityV1Import, NormsSoftmaxAndSwiglu) {
  const auto x = noise(6, 6), gain = noise(6, 7), both = noise(12, 8);
  expect_near(answer(V1Model().layer("RMSNorm", {{"input_height", 6}, {"output_height", 6}}).weights(gain), x),
              models::rms_norm(1e-6)({wide(gain)}, wide(x), {}).y);
  expect_near(answer(V1Model().layer("LayerNorm", {{"input_height", 6}}).weights(both), x),
              models::layer_norm(1e-5)({part(both, 0, 6), part(both, 6, 6)}, wide(x), {}).y);
  const Json grid{
      {"input_height", 6}, {"softmax_type", "Grid"}, {"softmax_rows", 2}, {"softmax_cols", 3}, {"temperature", 0.5}};
  expect_near(answer(V1Model().layer("Softmax", grid), x),
              models::in_groups(models::softmax(0.5), 2)({}, wide(x), {}).y);
  const auto w = noise(3 * 3 * 4 + 2 * 4 + 3, 10), three = noise(3, 11);
  expect_near(
      answer(V1Model().layer("SwiGLU", {{"activation", "ReLU"}, {"input_height", 3}, {"output_height", 4}}).weights(w),
             three),
      models::swiglu(4, true, kernels::Activation::silu)(
          {part(w, 0, 12), part(w, 12, 12), part(w, 24, 12), part(w, 36, 4), part(w, 40, 4), part(w, 44, 3)},
          wide(three), {})
          .y);
}

TEST(EntityV1Import, ConvolutionsAndTheirMirrors) {
  constexpr int kChannels = 2, kFilters = 3;
  const char* const keys[3][2] = {
      {"input_depth", "output_depth"}, {"input_height", "output_height"}, {"input_width", "output_width"}};
  for (const bool is_transposed : {false, true})
    for (int axes = 1; axes <= 3; ++axes) {
      models::Slide slide;
      slide.in[0] = kChannels, slide.out = kFilters;
      Json settings{{"activation", "Tanh"}, {"input_channels", kChannels},
                    {"filters", kFilters},  {"kernel_size", 2},
                    {"stride", 2},          {"padding", 1}};
      int taps = 1, volume = 1, height = 1;
      for (int a = axes == 3 ? 0 : 1; a < (axes == 1 ? 2 : 3); ++a) {
        slide.in[a + 1] = 3 + a, slide.kernel[a] = 2, slide.stride[a] = 2, slide.padding[a] = 1;
        taps *= 2, volume *= 3 + a;
        const int out = is_transposed ? slide.spread(a) : slide.windows(a);
        if (a == 1) height = out;
        settings[keys[a][0]] = 3 + a, settings[keys[a][1]] = out;
      }
      const auto w = noise(static_cast<std::size_t>(kFilters * kChannels * taps), 12),
                 x = noise(static_cast<std::size_t>(kChannels * volume), 13);
      // There filters come first in transposed ones too.
      Values ours = wide(w);
      for (int f = 0; f < kFilters && is_transposed; ++f)
        for (int c = 0; c < kChannels; ++c)
          std::copy_n(w.begin() + (f * kChannels + c) * taps, taps, ours.begin() + (c * kFilters + f) * taps);
      const std::string type =
          is_transposed ? "ConvTransposed" + std::to_string(axes) + "D" : "CNN" + std::to_string(axes);
      SCOPED_TRACE(type);
      expect_near(answer(V1Model().layer(type, settings).weights(w), x),
                  models::convolution(slide, is_transposed, false, kernels::Activation::tanh)({ours}, wide(x), {}).y);
      settings["output_height"] = height + 1;
      expect_error(import(V1Model().layer(type, settings).weights(w)), Errc::shape_mismatch,
                   {"network.layers[0]: gives " + std::to_string(height) + " values along axis"});
    }
}

TEST(EntityV1Import, EmbeddingThenDenseOverAllTokens) {
  const auto table = noise(5 * 3, 14), w = noise(2 * 6, 15);
  Values flat, y;
  for (const std::size_t token : {4u, 1u})
    for (std::size_t i = 0; i < 3; ++i) flat.push_back(table[token * 3 + i]);
  for (std::size_t o = 0; o < 2; ++o) y.push_back(dot(w, o * 6, flat, 0, 6));
  V1Model model;
  model.layer("Embedding", {{"vocab_size", 5}, {"embedding_dim", 3}, {"seq_length", 2}}).weights(table);
  model.layer("Dense", {{"input_height", 6}, {"output_height", 2}}).weights(w);
  expect_near(answer(model, {4, 1}), y);
}

TEST(EntityV1Import, AttentionWithTurnedPairs) {
  constexpr std::size_t kTokens = 3, kWidth = 4, kHeads = 2, kHead = 2;
  const auto x = noise(kTokens * kWidth, 16);
  // One key and value head for two query heads: query and output [4, 4], key and value [2, 4], then the biases.
  constexpr std::size_t kKey = kHead, kQ = 0, kK = kQ + 16, kV = kK + 8, kO = kV + 8, kQb = kO + 16, kKb = kQb + 4,
                        kVb = kKb + kKey, kOb = kVb + kKey;
  std::vector<float> weights = noise(kOb + kWidth, 18, 0.7f);
  const auto project = [&](std::size_t at, std::size_t bias, std::size_t n, std::size_t t) {
    Values out;
    for (std::size_t o = 0; o < n; ++o)
      out.push_back(weights[bias + o] + dot(weights, at + o * kWidth, x, t * kWidth, kWidth));
    return out;
  };
  const auto turned = [](Values v, std::size_t t) {
    for (std::size_t h = 0; h + 1 < v.size(); h += 2) {
      const double a = v[h], b = v[h + 1], angle = static_cast<double>(t);  // head_dim 2: one frequency, 1
      v[h] = a * std::cos(angle) - b * std::sin(angle), v[h + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
    return v;
  };
  Values y;
  for (std::size_t t = 0; t < kTokens; ++t) {
    const Values q = turned(project(kQ, kQb, kWidth, t), t);
    Values heads;
    for (std::size_t h = 0; h < kHeads; ++h) {
      Values scores;
      double sum = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        const Values k = turned(project(kK, kKb, kKey, s), s);
        scores.push_back(std::exp((q[2 * h] * k[0] + q[2 * h + 1] * k[1]) / std::sqrt(2.0)));
        sum += scores.back();
      }
      for (std::size_t d = 0; d < kHead; ++d) {
        double v = 0;
        for (std::size_t s = 0; s <= t; ++s) v += scores[s] / sum * project(kV, kVb, kKey, s)[d];
        heads.push_back(v);
      }
    }
    for (std::size_t o = 0; o < kWidth; ++o)
      y.push_back(weights[kOb + o] + dot(weights, kO + o * kWidth, heads, 0, kWidth));
  }
  expect_near(
      answer(V1Model()
                 .layer("MultiHeadAttention",
                        {{"d_model", kWidth}, {"num_heads", kHeads}, {"num_kv_heads", 1}, {"seq_length", kTokens}})
                 .weights(weights),
             x),
      y);
}

TEST(EntityV1Import, KeepsATypeOnlyWhereItHoldsEveryValue) {
  const Json keys{{"input_height", 4}, {"output_height", 2}};
  // int8 with a scale of max / 127: ours holds it too.
  const formats::loom_files::Bytes codes = raw(std::vector<std::int8_t>{127, -64, 3, 0, 1, -127, 5, 9});
  const auto kept = must(import(V1Model().layer("Dense", keys).weights(codes, "int8", 0.5f)));
  EXPECT_EQ(kept.spec.layers[0].dtype, Dtype::int8);
  EXPECT_EQ(kept.spec.layers[0].granularity, Granularity::tensor);
  EXPECT_EQ(kept.spec.layers[0].activations, Activations::float32) << "only weights are quantised there";
  ASSERT_EQ(kept.notes.size(), 1u);
  EXPECT_EQ(kept.notes[0], "network.layers[0]: 8 weights of int8 keep their type and every value");
  Mesh mesh = must(Mesh::build(kept.spec, {.executor = ExecutorKind::deterministic}));
  must(restore_weights(mesh, kept.file));
  const std::vector<float> x{1, 10, 100, 1000};
  must(mesh.set_input("in", x));
  must(mesh.tick());
  EXPECT_EQ(must(mesh.output("out"))[0], 0.5f * (127 - 640 + 300));

  // Its fp4 has other numbers, 0 0.75 1 1.5 2 3: where 3 is among them, all are numbers of ours at half the scale.
  const formats::loom_files::Bytes fp4{std::byte{0x12}, std::byte{0x34}, std::byte{0x59}, std::byte{0xBC}};
  const auto fitting = must(import(V1Model().layer("Dense", keys).weights(fp4, "fp4", 2.0f)));
  EXPECT_EQ(fitting.spec.layers[0].dtype, Dtype::fp4);
  EXPECT_EQ(fitting.notes[0], "network.layers[0]: 8 weights of fp4 keep their type and every value");
  const auto table = must(fitting.file.values<float>("weights/0,0,0,0/weight", {2, 4}));
  EXPECT_EQ(std::vector<float>(table.begin(), table.end()), (std::vector<float>{1.5f, 2, 3, 4, 6, -1.5f, -3, -4}));

  const formats::loom_files::Bytes small{std::byte{0x12}, std::byte{0x34}, std::byte{0x09}, std::byte{0xBC}};
  const auto wide = must(import(V1Model().layer("Dense", keys).weights(small, "FP4", 2.0f)));
  EXPECT_EQ(wide.spec.layers[0].dtype, Dtype::float32) << "2 and 0.75 are no numbers of ours at one scale";
  EXPECT_NE(wide.notes[0].find("8 weights of fp4 are kept as float32"), std::string::npos) << wide.notes[0];
  const auto values = must(wide.file.values<float>("weights/0,0,0,0/weight", {2, 4}));
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{1.5f, 2, 3, 4, 0, -1.5f, -3, -4}));
}

TEST(EntityV1Import, LeavesEmptyAndDisabledPlacesOut) {
  V1Model model;
  model.layer("Dense");  // as Loom fills places that nothing was put at
  model.layer("Dense", {{"input_height", 2}, {"output_height", 2}}).weights(std::vector<float>{1, 2, 3, 4});
  model.layer("Dense", {{"input_height", 2}, {"output_height", 2}, {"is_disabled", true}})
      .weights(std::vector<float>{0, 0, 0, 0});
  model.layer("Dense", {{"input_height", 2}, {"output_height", 1}}).weights(std::vector<float>{1, 1});
  const auto imported = must(import(model));
  ASSERT_EQ(imported.spec.layers.size(), 2u);
  EXPECT_EQ(imported.spec.layers[1].at, (Coord{0, 0, 0, 3}));
  EXPECT_EQ(imported.spec.layers[1].from[0].at, (Coord{0, 0, 0, 1}));
  EXPECT_EQ(imported.notes, (std::vector<std::string>{"network.layers[2]: is disabled there and left out"}));
  EXPECT_EQ(answer(model, {1, 10}), (std::vector<float>{21 + 43}));
}

TEST(EntityV1Import, NamesWhatItDoesNotUnderstand) {
  const auto refuse = [](const V1Model& model, Errc code, std::string_view text) {
    expect_error(import(model), code, {text});
  };
  const Json dense{{"input_height", 2}, {"output_height", 1}};
  const auto with = [&](const char* key, Json value) {
    Json keys = dense;
    keys[key] = std::move(value);
    return V1Model().layer("Dense", keys).weights(std::vector<float>{1, 2});
  };
  const auto softmax = [](const char* type) {
    return V1Model().layer("Softmax", {{"input_height", 4}, {"softmax_type", type}, {"entmax_alpha", 1.7}});
  };
  refuse(V1Model().layer("Frobnicate"), Errc::unknown_name, "network.layers[0].type: no layer type 'FROBNICATE'");
  refuse(V1Model().layer("KMeans"), Errc::out_of_range, "network.layers[0].num_clusters: is 0");
  refuse(with("use_magic", 1), Errc::unknown_name, "network.layers[0].use_magic");
  refuse(with("activation", "Swish"), Errc::unknown_name, "network.layers[0].activation");
  refuse(with("parallel_branches", Json{Json::object()}), Errc::unsupported, "network.layers[0].parallel_branches");
  refuse(with("meta_rules", Json{1}), Errc::unsupported, "network.layers[0].meta_rules");
  refuse(with("weights", "AAAA"), Errc::unsupported, "network.layers[0].weights");
  refuse(with("z", 1), Errc::out_of_range, "network.layers[0].z");
  refuse(with("input_height", 1 << 25), Errc::out_of_range, "network.layers[0].input_height");
  refuse(with("output_height", 0), Errc::out_of_range, "network.layers[0].output_height: is 0 or left out");
  refuse(with("input_height", 3), Errc::corrupt, "3 weights of float32 take 12 bytes, there are 8");
  refuse(with("input_height", 1 << 24), Errc::corrupt, "take 67108864 bytes");
  refuse(V1Model().layer("Dense", dense), Errc::not_found, "blob 'layers.0' with its weights is not in the file");
  refuse(V1Model().layer("Softmax", {{"input_height", 2}}).weights(std::vector<float>{1}), Errc::unsupported,
         "blob 'layers.0': belongs to no layer");
  refuse(V1Model().layer("Dense"), Errc::unsupported, "no layer is left");
  refuse(softmax("Masked"), Errc::unsupported, "network.layers[0].softmax_type: the mask");
  refuse(softmax("Entmax"), Errc::unsupported, "a blend");
  refuse(softmax("Adaptive"), Errc::unsupported, "'Adaptive' is not imported");
  refuse(V1Model().layer("Softmax",
                         {{"input_height", 4}, {"softmax_type", "Grid"}, {"softmax_rows", 3}, {"softmax_cols", 2}}),
         Errc::shape_mismatch, "network.layers[0].softmax_rows");
  refuse(V1Model().layer("RMSNorm", {{"input_height", 4}, {"output_height", 3}}), Errc::shape_mismatch,
         "output_height");
  refuse(V1Model().layer("MHA", {{"d_model", 3}, {"num_heads", 1}}), Errc::out_of_range, "head_dim");
  refuse(V1Model().layer("MHA", {{"d_model", 4}, {"num_heads", 1}, {"query_dim", 8}}), Errc::shape_mismatch,
         "query_dim");
  refuse(V1Model().layer("CNN3", {{"input_channels", 1},
                                  {"filters", 1},
                                  {"kernel_size", 4096},
                                  {"stride", 1},
                                  {"input_depth", 1},
                                  {"input_height", 1},
                                  {"input_width", 1},
                                  {"output_depth", 1},
                                  {"output_height", 1},
                                  {"output_width", 1}}),
         Errc::too_large, "network.layers[0].kernel_size");
  refuse(V1Model()
             .layer("Embedding", {{"vocab_size", 1 << 24}, {"embedding_dim", 1 << 24}})
             .weights(std::vector<float>{1}),
         Errc::too_large, "at most 2^40");
  const Json inner{
      {"z", 0}, {"y", 0}, {"x", 0}, {"l", 0}, {"type", "Dense"}, {"input_height", 2}, {"output_height", 2}};
  const auto parallel = [&](const char* mode) {
    return V1Model().layer("Parallel", {{"parallel_branches", Json{inner, inner}}, {"combine_mode", mode}});
  };
  refuse(parallel("filter"), Errc::unsupported, "network.layers[0].combine_mode: 'filter': the gate");
  refuse(parallel("max"), Errc::unknown_name, "network.layers[0].combine_mode: \"max\" is not known");
  refuse(parallel("add"), Errc::not_found,
         "network.layers[0].parallel_branches[0]: blob 'layers.0.parallel_branches.0' with its weights is not in the "
         "file; network.layers[0].parallel_branches[1]: blob");
  refuse(V1Model().layer("Metacognition", {{"meta_rules", Json{Json::object(), Json::object()}}}), Errc::unsupported,
         "network.layers[0].meta_rules: 2 rules");
  // All that is wrong, at once.
  V1Model wrong = with("input_height", 3);
  wrong.layer("Frobnicate").layer("Softmax", {{"softmax_type", "Masked"}, {"input_height", 2}}).weights({1.0f});
  wrong.blobs.back()["path"] = "stray";
  refuse(wrong, Errc::corrupt,
         "12 bytes, there are 8; network.layers[1].type: no layer type 'FROBNICATE' is known; "
         "network.layers[2].softmax_type: the mask is not in the file; blob 'stray': belongs to no layer");
  V1Model model;
  model.transformer = {{"hidden_size", 1}};
  refuse(model, Errc::unsupported, "transformer: is a language model; weft import");
  V1Model narrow;
  narrow.layer("Dense", dense).weights(std::vector<float>{1, 2});
  narrow.layer("Dense", dense).weights(std::vector<float>{1, 2});
  expect_error(import(narrow), Errc::shape_mismatch,
               {"network.layers[1]: reads 2 values [2], the layer before gives 1 [1]"});
  V1Model twice = V1Model().layer("Dense").layer("Dense");
  twice.layers[1]["l"] = 0;
  expect_error(import(twice), Errc::duplicate_name, {"network.layers[1]: another layer stands at [0,0,0,0]"});
  Json header = narrow.header();
  header["network"]["depth"] = 0;
  expect_error(import_loom_entity(must(decode_v1(formats::loom_files::v1_file(header.dump(), narrow.payload)))),
               Errc::out_of_range, {"network.depth"});
  header["network"]["depth"] = 1 << 30;
  header["network"]["rows"] = 1 << 30;
  expect_error(import_loom_entity(must(decode_v1(formats::loom_files::v1_file(header.dump(), narrow.payload)))),
               Errc::too_large, {});
}

}  // namespace
}  // namespace weft::mesh::loom_network_test
