// SPDX-License-Identifier: Apache-2.0
// Models of the original system compute here what they compute there: each layer against its documented layout, summed
// in float64.

#include "mesh/loom/loom_network.hpp"

#include "mesh/mesh.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"

#include "core/json.hpp"

#include "testing.hpp"
#include "tests/formats/loom_files.hpp"
#include <cmath>
#include <functional>

namespace weft::mesh::loom_network_test {
namespace {

using namespace testing_support;
using formats::entity_v1_files::decode_v1;
using formats::entity_v1_files::raw;
using formats::entity_v1_files::V1Model;
using Values = std::vector<double>;

Result<ImportedEntity> import(const V1Model& model) { return import_entity_v1(must(decode_v1(model.encode()))); }

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

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// sum over i of w[at + i] x[from + i]
double dot(const std::vector<float>& w, std::size_t at, const auto& x, std::size_t from, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<double>(w[at + i]) * static_cast<double>(x[from + i]);
  return sum;
}

TEST(EntityV1Import, DenseWithEveryActivation) {
  const std::pair<const char*, std::function<double(double)>> table[] = {
      {"Linear", [](double v) { return v; }},
      {"ReLU", [](double v) { return std::max(v, 0.0); }},
      {"Silu", [](double v) { return v * sigmoid(v); }},
      {"GELU", [](double v) { return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); }},
      {"Tanh", [](double v) { return std::tanh(v); }},
      {"Sigmoid", sigmoid},
      {"LeakyReLU", [](double v) { return v < 0 ? 0.01 * v : v; }},
      {"ReLU2", [](double v) { return v < 0 ? 0 : v * v; }}};
  const auto w = noise(5 * 3, 1), x = noise(3, 2);
  for (const auto& [activation, f] : table) {
    Values y;
    for (std::size_t o = 0; o < 5; ++o) y.push_back(f(dot(w, o * 3, x, 0, 3)));
    expect_near(answer(V1Model()
                           .layer("Dense", {{"activation", activation}, {"input_height", 3}, {"output_height", 5}})
                           .weights(w),
                       x),
                y);
  }
}

TEST(EntityV1Import, RnnAndLstmBeginEachCallWithZeros) {
  constexpr std::size_t kIn = 3, kOut = 4, kTokens = 5;
  const auto x = noise(kTokens * kIn, 3);
  const Json keys{{"input_height", kIn}, {"output_height", kOut}, {"seq_length", kTokens}};
  const auto w = noise(kOut * kIn + kOut * kOut + kOut, 4, 0.5f);
  Values h(kOut), y;
  for (std::size_t t = 0; t < kTokens; ++t) {
    Values next(kOut);
    for (std::size_t o = 0; o < kOut; ++o)
      next[o] = std::tanh(w[kOut * (kIn + kOut) + o] + dot(w, o * kIn, x, t * kIn, kIn) +
                          dot(w, kOut * kIn + o * kOut, h, 0, kOut));
    h = next;
    y.insert(y.end(), h.begin(), h.end());
  }
  expect_near(answer(V1Model().layer("RNN", keys).weights(w), x), y);
  expect_near(answer(V1Model().layer("RNN", keys).weights(w), x, 7), y);

  const std::size_t gate = kOut * kIn + kOut * kOut + kOut;
  const auto g = noise(4 * gate, 5, 0.5f);
  Values c(kOut);
  h.assign(kOut, 0), y.clear();
  for (std::size_t t = 0; t < kTokens; ++t) {
    Values next(kOut);
    for (std::size_t o = 0; o < kOut; ++o) {
      double sums[4];  // i, f, g, o
      for (std::size_t k = 0; k < 4; ++k)
        sums[k] = g[k * gate + kOut * (kIn + kOut) + o] + dot(g, k * gate + o * kIn, x, t * kIn, kIn) +
                  dot(g, k * gate + kOut * kIn + o * kOut, h, 0, kOut);
      c[o] = sigmoid(sums[1]) * c[o] + sigmoid(sums[0]) * std::tanh(sums[2]);
      next[o] = sigmoid(sums[3]) * std::tanh(c[o]);
    }
    h = next;
    y.insert(y.end(), h.begin(), h.end());
  }
  expect_near(answer(V1Model().layer("LSTM", keys).weights(g), x), y);
}

TEST(EntityV1Import, Norms) {
  const auto x = noise(6, 6), gain = noise(6, 7), both = noise(12, 8);
  double squares = 0, mean = 0, variance = 0;
  for (const float v : x) squares += static_cast<double>(v) * v, mean += v / 6.0;
  for (const float v : x) variance += (v - mean) * (v - mean) / 6;
  Values rms, layer;
  for (std::size_t i = 0; i < 6; ++i) {
    rms.push_back(x[i] / std::sqrt(squares / 6 + 1e-6) * gain[i]);
    layer.push_back((x[i] - mean) / std::sqrt(variance + 1e-5) * both[i] + both[6 + i]);
  }
  expect_near(answer(V1Model().layer("RMSNorm", {{"input_height", 6}, {"output_height", 6}}).weights(gain), x), rms);
  expect_near(answer(V1Model().layer("LayerNorm", {{"input_height", 6}}).weights(both), x), layer);
}

TEST(EntityV1Import, SoftmaxOfRowsWithATemperature) {
  const auto x = noise(6, 9);
  Values y;
  for (std::size_t r = 0; r < 2; ++r) {
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) sum += std::exp(x[3 * r + i] / 0.5);
    for (std::size_t i = 0; i < 3; ++i) y.push_back(std::exp(x[3 * r + i] / 0.5) / sum);
  }
  const Json grid{
      {"input_height", 6}, {"softmax_type", "Grid"}, {"softmax_rows", 2}, {"softmax_cols", 3}, {"temperature", 0.5}};
  expect_near(answer(V1Model().layer("Softmax", grid), x), y);
}

TEST(EntityV1Import, SwigluWithItsBiases) {
  constexpr std::size_t kIn = 3, kHidden = 4;
  const auto w = noise(3 * kIn * kHidden + 2 * kHidden + kIn, 10), x = noise(kIn, 11);
  const std::size_t m = kIn * kHidden;
  Values hidden, y;
  for (std::size_t o = 0; o < kHidden; ++o) {
    const double g = dot(w, o * kIn, x, 0, kIn) + w[3 * m + o];
    hidden.push_back(g * sigmoid(g) * (dot(w, m + o * kIn, x, 0, kIn) + w[3 * m + kHidden + o]));
  }
  for (std::size_t i = 0; i < kIn; ++i)
    y.push_back(dot(w, 2 * m + i * kHidden, hidden, 0, kHidden) + w[3 * m + 2 * kHidden + i]);
  expect_near(answer(V1Model()
                         .layer("SwiGLU", {{"activation", "ReLU"}, {"input_height", kIn}, {"output_height", kHidden}})
                         .weights(w),
                     x),
              y);
}

TEST(EntityV1Import, ConvolutionsAndTheirMirrors) {
  // Channels, filters, taps, stride, padding, extents of the input; depth, height, width.
  constexpr int C = 2, F = 3, K = 2, S = 2, P = 1;
  const int in[3] = {3, 4, 5};
  const char* const keys[3][2] = {
      {"input_depth", "output_depth"}, {"input_height", "output_height"}, {"input_width", "output_width"}};
  for (const bool is_transposed : {false, true})
    for (int axes = 1; axes <= 3; ++axes) {
      int n[3] = {1, 1, 1}, out[3] = {1, 1, 1}, k[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
      Json settings{{"activation", "Tanh"}, {"input_channels", C}, {"filters", F},
                    {"kernel_size", K},     {"stride", S},         {"padding", P}};
      for (int a = axes == 3 ? 0 : 1; a < (axes == 1 ? 2 : 3); ++a) {
        n[a] = in[a], k[a] = K, stride[a] = S, pad[a] = P;
        out[a] = is_transposed ? (n[a] - 1) * S - 2 * P + K : (n[a] + 2 * P - K) / S + 1;
        settings[keys[a][0]] = n[a], settings[keys[a][1]] = out[a];
      }
      const int taps = k[0] * k[1] * k[2], volume_in = n[0] * n[1] * n[2], volume_out = out[0] * out[1] * out[2];
      const auto w = noise(static_cast<std::size_t>(F * C * taps), 12),
                 x = noise(static_cast<std::size_t>(C * volume_in), 13);
      Values y(static_cast<std::size_t>(F * volume_out));
      const auto each_tap = [&](auto f) {  // (where in x's and y's extents, which tap): from the documented loops
        const int* small = is_transposed ? n : out;
        const int* large = is_transposed ? out : n;
        for (int z = 0; z < small[0]; ++z)
          for (int r = 0; r < small[1]; ++r)
            for (int q = 0; q < small[2]; ++q)
              for (int tz = 0; tz < k[0]; ++tz)
                for (int tr = 0; tr < k[1]; ++tr)
                  for (int tq = 0; tq < k[2]; ++tq) {
                    const int lz = z * stride[0] + tz - pad[0], lr = r * stride[1] + tr - pad[1],
                              lq = q * stride[2] + tq - pad[2];
                    if (lz < 0 || lr < 0 || lq < 0 || lz >= large[0] || lr >= large[1] || lq >= large[2]) continue;
                    f((z * small[1] + r) * small[2] + q, (lz * large[1] + lr) * large[2] + lq,
                      (tz * k[1] + tr) * k[2] + tq);
                  }
      };
      for (int f = 0; f < F; ++f)
        for (int c = 0; c < C; ++c)
          each_tap([&](int s, int l, int tap) {
            const int from = is_transposed ? s : l, to = is_transposed ? l : s;
            y[static_cast<std::size_t>(f * volume_out + to)] +=
                static_cast<double>(w[static_cast<std::size_t>((f * C + c) * taps + tap)]) *
                x[static_cast<std::size_t>(c * volume_in + from)];
          });
      for (double& v : y) v = std::tanh(v);
      const std::string type =
          is_transposed ? "ConvTransposed" + std::to_string(axes) + "D" : "CNN" + std::to_string(axes);
      SCOPED_TRACE(type);
      expect_near(answer(V1Model().layer(type, settings).weights(w), x), y);
      settings["output_height"] = out[1] + 1;
      expect_error(Graph::build(must(import(V1Model().layer(type, settings).weights(w))).spec), Errc::shape_mismatch,
                   {});
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
  const formats::entity_v1_files::Bytes codes = raw(std::vector<std::int8_t>{127, -64, 3, 0, 1, -127, 5, 9});
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
  const formats::entity_v1_files::Bytes fp4{std::byte{0x12}, std::byte{0x34}, std::byte{0x59}, std::byte{0xBC}};
  const auto fitting = must(import(V1Model().layer("Dense", keys).weights(fp4, "fp4", 2.0f)));
  EXPECT_EQ(fitting.spec.layers[0].dtype, Dtype::fp4);
  EXPECT_EQ(fitting.notes[0], "network.layers[0]: 8 weights of fp4 keep their type and every value");
  const auto table = must(fitting.file.values<float>("weights/0,0,0,0/weight", {2, 4}));
  EXPECT_EQ(std::vector<float>(table.begin(), table.end()), (std::vector<float>{1.5f, 2, 3, 4, 6, -1.5f, -3, -4}));

  const formats::entity_v1_files::Bytes small{std::byte{0x12}, std::byte{0x34}, std::byte{0x09}, std::byte{0xBC}};
  const auto wide = must(import(V1Model().layer("Dense", keys).weights(small, "FP4", 2.0f)));
  EXPECT_EQ(wide.spec.layers[0].dtype, Dtype::float32) << "2 and 0.75 are no numbers of ours at one scale";
  EXPECT_NE(wide.notes[0].find("8 weights of fp4 are kept as float32"), std::string::npos) << wide.notes[0];
  const auto values = must(wide.file.values<float>("weights/0,0,0,0/weight", {2, 4}));
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{1.5f, 2, 3, 4, 0, -1.5f, -3, -4}));
}

TEST(EntityV1Import, LeavesEmptyAndDisabledPlacesOut) {
  V1Model model;
  model.layer("Dense");  // as the original fills places that nothing was put at
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
  struct Case {
    const char* what;
    V1Model model;
    Errc code;
    const char* text;
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
  const Case table[] = {
      {"type", V1Model().layer("Frobnicate"), Errc::unknown_name, "network.layers[0].type: no layer type 'FROBNICATE'"},
      {"refused type", V1Model().layer("KMeans"), Errc::unsupported, "network.layers[0].type: layers of type KMEANS"},
      {"key", with("use_magic", 1), Errc::unknown_name, "network.layers[0].use_magic"},
      {"activation", with("activation", "Swish"), Errc::unknown_name, "network.layers[0].activation"},
      {"branches", with("parallel_branches", Json{Json::object()}), Errc::unsupported,
       "network.layers[0].parallel_branches"},
      {"rules", with("meta_rules", Json{1}), Errc::unsupported, "network.layers[0].meta_rules"},
      {"weights", with("weights", "AAAA"), Errc::unsupported, "network.layers[0].weights"},
      {"place", with("z", 1), Errc::out_of_range, "network.layers[0].z"},
      {"width", with("input_height", 1 << 25), Errc::out_of_range, "network.layers[0].input_height"},
      {"no width", with("output_height", 0), Errc::out_of_range, "network.layers[0].output_height: is 0 or left out"},
      {"too many weights", with("input_height", 3), Errc::corrupt, "3 weights of float32 take 12 bytes, there are 8"},
      {"far too many", with("input_height", 1 << 24), Errc::corrupt, "take 67108864 bytes"},
      {"no weights", V1Model().layer("Dense", dense), Errc::not_found,
       "blob 'layers.0' with its weights is not in the file"},
      {"weights of none", V1Model().layer("Softmax", {{"input_height", 2}}).weights(std::vector<float>{1}),
       Errc::unsupported, "blob 'layers.0': belongs to no layer"},
      {"nothing", V1Model().layer("Dense"), Errc::unsupported, "no layer is left"},
      {"masked", softmax("Masked"), Errc::unsupported, "network.layers[0].softmax_type: the mask"},
      {"blend", softmax("Entmax"), Errc::unsupported, "a blend"},
      {"softmax", softmax("Adaptive"), Errc::unsupported, "'Adaptive' is not imported"},
      {"rows",
       V1Model().layer("Softmax",
                       {{"input_height", 4}, {"softmax_type", "Grid"}, {"softmax_rows", 3}, {"softmax_cols", 2}}),
       Errc::shape_mismatch, "network.layers[0].softmax_rows"},
      {"norm", V1Model().layer("RMSNorm", {{"input_height", 4}, {"output_height", 3}}), Errc::shape_mismatch,
       "output_height"},
      {"odd head", V1Model().layer("MHA", {{"d_model", 3}, {"num_heads", 1}}), Errc::out_of_range, "head_dim"},
      {"query", V1Model().layer("MHA", {{"d_model", 4}, {"num_heads", 1}, {"query_dim", 8}}), Errc::shape_mismatch,
       "query_dim"},
      {"taps",
       V1Model().layer("CNN3", {{"input_channels", 1},
                                {"filters", 1},
                                {"kernel_size", 4096},
                                {"stride", 1},
                                {"input_depth", 1},
                                {"input_height", 1},
                                {"input_width", 1},
                                {"output_depth", 1},
                                {"output_height", 1},
                                {"output_width", 1}}),
       Errc::too_large, "network.layers[0].kernel_size"},
      {"weights past counting",
       V1Model()
           .layer("Embedding", {{"vocab_size", 1 << 24}, {"embedding_dim", 1 << 24}})
           .weights(std::vector<float>{1}),
       Errc::too_large, "at most 2^40"},
  };
  for (const Case& entry : table) {
    SCOPED_TRACE(entry.what);
    expect_error(import(entry.model), entry.code, {entry.text});
  }
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
  expect_error(import_entity_v1(must(decode_v1(formats::entity_v1_files::v1_file(header.dump(), narrow.payload)))),
               Errc::out_of_range, {"network.depth"});
  header["network"]["depth"] = 1 << 30;
  header["network"]["rows"] = 1 << 30;
  expect_error(import_entity_v1(must(decode_v1(formats::entity_v1_files::v1_file(header.dump(), narrow.payload)))),
               Errc::too_large, {});
}

}  // namespace
}  // namespace weft::mesh::loom_network_test
