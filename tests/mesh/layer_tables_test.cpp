// SPDX-License-Identifier: Apache-2.0

// Sizes, first weights and refusals of layers, as rows. Bounds, kinds and names of single options:
// layer_options_test.cpp.

#include "goldens.hpp"

namespace weft::mesh::layer_tables_test {
namespace {

using namespace testing_support;

/// "[3, 7]; state 16; weight 5x6 ~bias 5": ~ is not decayed.
std::string sizes_of(const Layer& layer) {
  std::string text = weft::to_string(layer.out_shape());
  if (layer.state_size() > 0) text += "; state " + std::to_string(layer.state_size());
  text += ";";
  for (const ParameterSpec& p : layer.parameters())
    text += (p.decays ? " " : " ~") + p.name + " " + std::to_string(p.out) + (p.in ? "x" + std::to_string(p.in) : "");
  return text;
}

struct Sized {
  const char* layer;
  Shape in;
  const char* sizes;
  double multiply_adds = -1;  // below 0: not asked
};

TEST(Layers, HaveTheirSizes) {
  const Sized all[] = {
      {R"({"type": "rnn", "out": 6})", {5}, "[6]; state 6; weight_ih 6x5 weight_hh 6x6 ~bias_ih 6 ~bias_hh 6", 66},
      {R"({"type": "lstm", "out": 6})",
       {5},
       "[6]; state 12; weight_ih 24x5 weight_hh 24x6 ~bias_ih 24 ~bias_hh 24",
       264},
      {R"({"type": "gru", "out": 6})", {5}, "[6]; state 6; weight_ih 18x5 weight_hh 18x6 ~bias_ih 18 ~bias_hh 18", 198},
      {R"({"type": "rnn", "bias": false})", {2}, "[2]; state 2; weight_ih 2x2 weight_hh 2x2"},
      // A header; rings of 32 keys of 5 and values of 16.
      {R"({"type": "attention", "out": 7, "heads": 4, "kv_heads": 2, "head_dim": 5, "context": 20, "qk_norm": "rms"})",
       {3, 6},
       "[3, 7]; state 1360; query 20x6 key 10x6 value 10x6 output 7x20 ~query_bias 20 ~key_bias 10 ~value_bias 10 "
       "~output_bias 7 ~query_gain 5 ~key_gain 5"},
      {R"({"type": "attention", "bias": false})", {9}, "[9]; query 9x9 key 9x9 value 9x9 output 9x9"},
      {R"({"type": "conv2d", "out": 6, "kernel": [3, 5], "stride": 2, "padding": [1, 0], "groups": 2})",
       {4, 9, 12},
       "[6, 5, 4]; weight 6x30 ~bias 6",
       6.0 * 20 * 30},
      {R"({"type": "conv_transposed2d", "out": 6, "kernel": 3, "stride": 2, "padding": 1, "output_padding": [1, 0],
           "groups": 2})",
       {4, 5, 4},
       "[6, 10, 7]; weight 4x27 ~bias 6",
       4.0 * 20 * 27},
      // PyTorch: a window that would start in the lower padding is left out.
      {R"({"type": "max_pool", "kernel": 2, "padding": 1, "ceil_mode": true})", {3, 7, 8}, "[3, 4, 5];"},
      {R"({"type": "adaptive_avg_pool", "out": 3, "size": [2, 9]})", {3, 7, 8}, "[3, 2, 9];"},
      {R"({"type": "embedding", "out": 7, "vocabulary": 300})", {1}, "[7]; table 7x300"},
      {R"({"type": "embedding", "out": 7, "vocabulary": 300})", {5}, "[5, 7]; table 7x300"},
      {R"({"type": "crelu"})", {3, 5}, "[3, 10];"},
      {R"({"type": "crelu", "axis": "first"})", {3, 4, 5}, "[6, 4, 5];"},
      {R"({"type": "swiglu"})", {1}, "[1]; gate 16x1 up 16x1 down 1x16", 48},
      {R"({"type": "swiglu"})", {6}, "[6]; gate 16x6 up 16x6 down 6x16", 288},
      {R"({"type": "swiglu"})", {7}, "[7]; gate 32x7 up 32x7 down 7x32", 672},
      {R"({"type": "swiglu"})", {12}, "[12]; gate 32x12 up 32x12 down 12x32", 1152},
      {R"({"type": "swiglu"})", {96}, "[96]; gate 256x96 up 256x96 down 96x256", 73728},
      // Matrices of the paper.
      {R"({"type": "adaptive_softmax", "out": 100, "cutoffs": [10, 40], "head_bias": true})",
       {64},
       "[100]; head 12x64 ~head_bias 12 project_0 16x64 classes_0 30x16 project_1 4x64 classes_1 60x4",
       12.0 * 64 + 16 * 64 + 30 * 16 + 4 * 64 + 60 * 4},
      {R"({"type": "kmeans", "out": 7})", {2}, "[7]; ~centres 7x2"},
  };
  for (const Sized& row : all) {
    SCOPED_TRACE(row.layer);
    const auto layer = must(make_layer(goldens::layer(row.layer), row.in, "layer"));
    EXPECT_EQ(sizes_of(*layer), row.sizes);
    if (row.multiply_adds >= 0) {
      EXPECT_EQ(layer->multiply_adds(), row.multiply_adds);
    }
  }
  for (const char* type : {"rnn", "attention", "swiglu", "softmax"})
    EXPECT_EQ(
        must(make_layer(goldens::layer(R"({"type": ")" + std::string(type) + "\"}"), 4, "layer"))->weight_matrix(), -1);
  // Memory for backward grows with the tokens, not with their square.
  const auto cache = [](std::size_t tokens) {
    return must(make_layer(goldens::layer(R"({"type": "attention", "heads": 2})"), Shape{tokens, 8}, "layer"))
        ->cache_size();
  };
  EXPECT_EQ(cache(200), 2 * cache(100));
}

/// First values of a parameter: their variance and the largest size.
struct First {
  const char* layer;
  Shape in;
  std::size_t parameter;
  double variance, bound = 99;
};

// Moments of the draws; bounds of 5 standard errors.
TEST(Layers, DrawWeightsFromTheirStatedDistributions) {
  constexpr const char* kDense = R"({"type": "dense", "out": 200, "init": ")";
  const double he = 2.0 / 144;
  std::vector<First> all = {
      {R"({"type": "conv2d", "out": 64, "kernel": 3, "init": "he"})", {16, 5, 5}, 0, he},
      {R"({"type": "conv_transposed2d", "out": 64, "kernel": 3, "init": "he"})", {16, 5, 5}, 0, he},
      {R"({"type": "conv2d", "out": 64, "kernel": 3})", {16, 5, 5}, 0, 2.0 / (144 + 576)},
      {R"({"type": "embedding", "out": 64, "vocabulary": 300})", {1}, 0, 1},
      {R"({"type": "lstm", "out": 100, "init": "he"})", {7}, 0, 2.0 / 7},
      {R"({"type": "lstm", "out": 100, "init": "he"})", {7}, 2, 0},
  };
  std::vector<std::string> texts;
  texts.reserve(32);
  const auto add = [&](const std::string& text, const Shape& in, std::size_t p, double variance, double bound) {
    all.push_back({texts.emplace_back(text).c_str(), in, p, variance, bound});
  };
  for (const auto& [init, variance, bound] : {std::tuple{"xavier", 2.0 / 500, std::sqrt(6.0 / 500)},
                                              {"he", 2.0 / 300, 99.0},
                                              {"normal", 1.0 / 300, 99.0},
                                              {"uniform", 1.0 / 900, std::sqrt(1.0 / 300)},
                                              {"zero", 0.0, 0.0},
                                              {"xavier_normal", 2.0 / 500, 99.0},
                                              {"he_uniform", 2.0 / 300, std::sqrt(6.0 / 300)}})
    for (const std::size_t p : {0, 1})
      add(kDense + std::string(init) + "\"}", {300}, p, p ? 0 : variance, p ? 0 : bound);
  // PyTorch's: uniform within +-1/sqrt(100).
  for (const char* type : {"rnn", "lstm", "gru"})
    for (std::size_t p = 0; p < 4; ++p)
      add(R"({"type": ")" + std::string(type) + R"(", "out": 100})", {7}, p, 1.0 / 300, 0.1);
  for (const First& row : all) {
    SCOPED_TRACE(row.layer + std::string(", ") + std::to_string(row.parameter));
    const auto layer = must(make_layer(goldens::layer(row.layer), row.in, "layer"));
    const ParameterSpec& p = layer->parameters()[row.parameter];
    std::vector<float> values(goldens::Sequence::values_of(p), NAN);
    RandomStream random(3, 0, RandomPurpose::init);
    p.init(random, values);
    double sum = 0, squares = 0, largest = 0;
    for (const float v : values) {
      sum += v, squares += double{v} * v;
      largest = std::max(largest, std::fabs(double{v}));
    }
    const double n = static_cast<double>(values.size());
    EXPECT_LE(std::fabs(sum / n), 5 * std::sqrt(row.variance / n));
    EXPECT_LE(std::fabs(squares / n - row.variance), 5 * row.variance * std::sqrt(2.0 / n));
    EXPECT_LE(largest, row.bound * (1 + 1e-6));
  }
}

void refuse(const char* type, const char* options, const Shape& in, Errc code, const char* fragments) {
  const std::string text = R"({"type": ")" + std::string(type) + "\", " + options + "}";
  SCOPED_TRACE(text);
  const auto layer = make_layer(goldens::layer(text), in, "layers[3]");
  expect_error(layer, code, {"layers[3]"});
  expect_refused(layer, code, fragments);
}

TEST(Layers, RefuseSoftmaxesThatCannotBe) {
  using enum Errc;
  refuse("softmax", R"("groups": 3)", {4}, out_of_range, ".groups|4 values");
  refuse("softmax", R"("groups": 8)", {4}, out_of_range, ".groups|4 values");
  refuse("softmax", R"("kind": "grid")", {3, 4}, parse_failed, "layers[3].axes: needed");
  refuse("softmax", R"("kind": "grid", "axes": [2])", {3, 4}, out_of_range, "axis 2 of an input [3, 4]");
  refuse("softmax", R"("kind": "grid", "axes": [1, 1])", {3, 4}, out_of_range, "given twice");
  refuse("softmax", R"("kind": "grid", "axes": [0.5])", {3, 4}, out_of_range, "axes[0]");
  refuse("softmax", R"("kind": "grid", "axes": [])", {3, 4}, shape_mismatch, "axes");
  refuse("softmax", R"("kind": "grid", "axes": [0], "groups": 2)", {3, 4}, unknown_name, "groups");
  refuse("softmax", R"("kind": "masked")", {3, 4}, parse_failed, "layers[3].mask: needed");
  refuse("softmax", R"("kind": "masked", "mask": [1, 1, 1])", {3, 4}, shape_mismatch, "3 entries for an axis of 4");
  refuse("softmax", R"("kind": "masked", "mask": [0, 0, 0, 0])", {3, 4}, invalid_argument, "entries 0 to 3");
  refuse("softmax", R"("kind": "masked", "mask": [1, 1, 0, 0], "groups": 2)", {3, 4}, invalid_argument,
         "entries 2 to 3");
  refuse("softmax", R"("kind": "masked", "mask": [1, 1, 0.5, 0])", {3, 4}, out_of_range, "mask[2]");
  refuse("softmax", R"("kind": "masked", "mask": "1101")", {3, 4}, parse_failed, "a list of whole numbers");
  refuse("softmax", R"("kind": "hierarchical")", {3, 4}, parse_failed, "layers[3].branches");
  refuse("softmax", R"("kind": "hierarchical", "branches": [2, 2])", {3, 4}, shape_mismatch, "more than 4 logits");
  refuse("softmax", R"("kind": "hierarchical", "branches": [3])", {3, 4}, shape_mismatch, "3, not 4 logits");
  refuse("softmax", R"("kind": "hierarchical", "branches": [0, 4])", {3, 4}, out_of_range, "branches[0]");
  refuse("softmax", R"("kind": "hierarchical", "branches": [4], "groups": 2)", {3, 4}, unknown_name, "groups");
  refuse("softmax", R"("kind": "hierarchical", "branches": [4], "out": 5)", {4}, shape_mismatch,
         "layers[3].out|4 leaves, not 5");
  refuse("adaptive_softmax", R"("out": 9, "cutoffs": [9])", {3, 4}, out_of_range, "[9] of 9 classes");
  refuse("adaptive_softmax", R"("out": 9, "cutoffs": [4, 4], "div_value": 1)", {3, 4}, out_of_range, "must ascend");
  refuse("adaptive_softmax", R"("out": 9, "cutoffs": [4, 2], "div_value": 1)", {3, 4}, out_of_range, "must ascend");
  refuse("adaptive_softmax", R"("out": 9, "cutoffs": [0, 2])", {3, 4}, out_of_range, "cutoffs[0]");
  refuse("adaptive_softmax", R"("out": 9, "cutoffs": [2, 4])", {3, 4}, out_of_range, "div_value: cluster 1");
  refuse("adaptive_softmax", R"("out": 9, "cutoffs": [2], "bias": true)", {3, 4}, unknown_name, "head_bias");
  refuse("mixture_of_softmaxes", R"("out": 5, "components": 65536, "hidden": 65536)", {3, 4}, too_large, "components");
}

TEST(Layers, RefuseAttentionThatCannotBe) {
  using enum Errc;
  refuse("attention", R"("heads": 3)", {4}, out_of_range, "4 values is not 3 equal heads");
  refuse("attention", R"("kv_heads": 2)", {4}, out_of_range, "1 heads do not fall into 2");
  refuse("attention", R"("heads": 2, "kv_heads": 2, "context": 4, "window": 5)", {4}, out_of_range, "5 tokens");
  refuse("attention", R"("context": 4, "causal": false)", {4}, out_of_range, "causal");
  refuse("attention", R"("heads": 6, "kv_heads": 4, "head_dim": 2)", {4}, out_of_range, "6 heads");
  refuse("attention", R"("rope": "half")", {2, 3}, out_of_range, "head_dim of 3");
  refuse("attention", R"("rope": "half", "head_dim": 2, "rope_scaling": "ntk")", {3}, out_of_range, "above 2");
  refuse("attention", R"("rope": "half", "rope_scaling": "llama3", "rope_high_freq_factor": 1)", {4}, out_of_range,
         "rope_low_freq_factor");
  refuse("attention", R"("rope": "half", "rope_scaling": "linear", "rope_high_freq_factor": 2)", {4}, unknown_name,
         "no such option");
  refuse("attention", R"("heads": 65536, "head_dim": 257)", {4}, out_of_range, "65536 heads of 257");
  refuse("attention", R"("context": 16777216, "heads": 64, "head_dim": 64)", {4}, out_of_range, "16777216 tokens");
  refuse("attention", R"("heads": 1)", {2, 3, 4}, shape_mismatch, "[2, 3, 4]");
  refuse("attention", R"("heads": 2, "rope_dims": 2)", {8}, unknown_name, ".rope_dims");
  refuse("attention", R"("heads": 2, "rope": "half", "rope_dims": 6)", {8}, out_of_range, ".rope_dims: 6|4");
  refuse("attention", R"("heads": 2, "rope": "half", "rope_dims": 3)", {8}, out_of_range, ".rope_dims: 3|even");
  refuse("attention", R"("heads": 2, "rope": "half", "rope_divisors": [1])", {8}, out_of_range, ".rope_divisors: 1|2");
  refuse("attention", R"("heads": 2, "rope": "half", "rope_divisors": [1, 0])", {8}, out_of_range, ".rope_divisors: 0");
  refuse("attention", R"("heads": 2, "score_cap": -1)", {8}, out_of_range, ".score_cap");
  refuse("attention", R"("heads": 2, "mask": "keys", "context": 6)", {4, 9}, out_of_range, ".mask|context of 6");
  refuse("attention", R"("mask": "keys")", {4, 1}, out_of_range, ".mask: keys|last 1 of 1|[values, mask]");
  refuse("attention", R"("mask": "scores")", {4, 4}, out_of_range, ".mask: scores|last 4 of 4");
  refuse("attention", R"("heads": 2, "mask": "heads")", {4, 7}, out_of_range, ".mask: heads|last 8 of 7");
  refuse("attention", R"("heads": 2, "mask": "keys")", {4, 8}, out_of_range, "7 values is not 2 equal heads");
  refuse("attention", R"("heads": 2, "out_epsilon": 0.1)", {8}, unknown_name, ".out_epsilon");
}

TEST(Layers, RefuseRowsThatCannotBe) {
  using enum Errc;
  refuse("embedding", R"("out": 4, "vocabulary": 5, "padding_index": 5)", {1}, out_of_range, ".padding_index");
  refuse("embedding", R"("out": 4, "vocabulary": 5)", {2, 3}, shape_mismatch, "[2, 3]");
  refuse("kmeans", R"("clusters": 2, "out": 3)", {3, 4}, shape_mismatch, "layers[3].out");
  refuse("kmeans", R"("clusters": 2, "output": "both", "out": 2)", {3, 4}, shape_mismatch, "6 values, not 2");
  refuse("kmeans", R"("output": "features", "out": 4)", {3, 4}, parse_failed, "layers[3].clusters");
  refuse("kmeans", R"("clusters": 2, "centres": [1, 2])", {3, 4}, shape_mismatch, "2 centres of 4");
  refuse("standardize", R"("mean": [1, 2], "deviation": [1, 2])", {3}, shape_mismatch, ".mean|2|3");
  refuse("soft_cap", R"("cap": 0)", {3}, out_of_range, ".cap");
  refuse("crelu", R"("out": 4)", {4}, shape_mismatch, "layers[3].out: crelu makes 8|not 4");
  refuse("crelu", R"("axis": "second")", {4}, unknown_name, ".axis");
  refuse("magnitude", R"("out": 1)", {3, 4}, shape_mismatch, "even|[3, 4]");
  refuse("magnitude", R"("out": 2)", {4, 2}, shape_mismatch, ".out|leave 'out' away");
  refuse("select", R"("first": 0)", {4}, parse_failed, ".count");
  refuse("select", R"("first": [0, 1], "count": 2)", {4}, shape_mismatch, "first has 2 numbers, count 1");
  refuse("select", R"("first": 0, "count": 2, "step": [1, 1])", {4}, shape_mismatch, "step 2");
  refuse("select", R"("first": 0, "count": 6)", {4}, out_of_range, "run 0 reads place 5 of 4");
  refuse("select", R"("first": 5, "count": 1)", {4}, out_of_range, "run 0 reads place 5 of 4");
  refuse("select", R"("first": 1, "count": 3, "step": [-1])", {4}, out_of_range, "run 0 reads place -1 of 4");
  refuse("select", R"("first": 1, "count": 3, "step": [0.5])", {4}, out_of_range, ".step: 0.5");
  refuse("select", R"("first": 0, "count": 70000, "step": [0])", {4}, too_large, ".count: 70000");
  refuse("select", R"("first": [0, 0], "count": [40000, 40000], "step": [0, 0])", {4}, too_large, "65536 copies");
  refuse("select", R"("first": 0, "count": 2, "out": 3)", {4}, shape_mismatch, ".out|2 values, not 3");
  refuse("position_embedding", R"("positions": 3)", {4, 2}, shape_mismatch, ".positions: 3|4 tokens");
  refuse("position_embedding", R"("positions": 3)", {2, 2, 2}, shape_mismatch, "[2, 2, 2]");
  refuse("swiglu", R"("epsilon": 0.1)", {4}, unknown_name, ".epsilon");
  refuse("embedding", R"("out": 4, "vocabulary": 3, "weight": [0, 0, 0, 0])", {2}, unsupported, ".weight|no grid");
  refuse("embedding", R"("out": 4, "vocabulary": 3, "weight": [0, 0, 0])", {2}, shape_mismatch, ".weight");
  refuse("standardize", R"("mean": [1, 2], "deviation": [1])", {2}, shape_mismatch, ".deviation|1");
  refuse("standardize", R"("mean": [1, 2])", {2}, parse_failed, ".deviation: needed");
  refuse("standardize", R"("mean": [1, 2], "deviation": [1, 0])", {2}, out_of_range, ".deviation|above 0");
  refuse("standardize", R"("mean": [1, 2], "deviation": [1, -1])", {2}, out_of_range, ".deviation|above 0");
  refuse("standardize", R"("mean": [1, 2], "deviation": [1, 1e-50])", {2}, out_of_range, ".deviation|above 0");
  refuse("standardize", R"("mean": [1, 1e39], "deviation": [1, 2])", {2}, out_of_range, ".mean");
}

TEST(Layers, RefuseWindowsThatCannotBe) {
  using enum Errc;
  refuse("conv2d", R"("kernel": 3)", {3, 8, 8}, parse_failed, ".out|needed and not given|channels of the output");
  refuse("conv2d", R"("out": 4, "kernel": 3)", {3, 8}, shape_mismatch, "[channels, height, width]|[3, 8]|view");
  refuse("conv1d", R"("out": 4, "kernel": 3)", {3, 8, 8}, shape_mismatch, "[channels, length]|[3, 8, 8]");
  refuse("conv3d", R"("out": 4, "kernel": 3)", {3, 8, 8}, shape_mismatch, "[channels, depth, height, width]");
  refuse("conv2d", R"("out": 4, "kernel": 5)", {3, 8, 4}, shape_mismatch, ".kernel|spans 5|width|is 4");
  refuse("conv2d", R"("out": 4, "kernel": 3, "dilation": 4, "padding": [1, 0])", {3, 5, 9}, shape_mismatch,
         ".kernel|spans 9|height|is 7");
  refuse("conv2d", R"("out": 6, "kernel": 3, "groups": 4)", {4, 8, 8}, out_of_range, ".groups: 4|4 input|6 out");
  refuse("conv2d", R"("out": 6, "kernel": 3, "groups": 3)", {4, 8, 8}, out_of_range, ".groups: 3|4 input|6 out");
  refuse("conv2d", R"("out": 4, "kernel": [3, 3, 3])", {3, 8, 8}, shape_mismatch, ".kernel|3 numbers|2 are");
  refuse("conv2d", R"("out": 4, "kernel": 3, "strides": 2)", {3, 8, 8}, unknown_name, ".strides|'stride'");
  refuse("conv2d", R"("out": 4, "kernel": 3, "output_padding": 1)", {3, 8, 8}, unknown_name, ".output_padding");
  refuse("conv2d", R"("out": 4, "kernel": 3, "padding": 65536)", {1, 8, 8}, too_large, "2^31");
  refuse("conv_transposed2d", R"("out": 4, "kernel": 3, "stride": [2, 1], "output_padding": 1)", {3, 4, 4},
         out_of_range, ".output_padding: 1|width|below 1");
  refuse("conv_transposed2d", R"("out": 4, "kernel": 3, "padding": 2)", {3, 1, 4}, shape_mismatch,
         ".padding: 2 x 2|height|3");
  refuse("conv_transposed1d", R"("out": 4, "kernel": 3, "groups": 2)", {3, 4}, out_of_range, ".groups: 2");
  refuse("max_pool", R"("out": 5, "kernel": 2)", {3, 8, 8}, shape_mismatch, ".out|3 channels|5");
  refuse("max_pool", R"("kernel": 2)", {8}, shape_mismatch, "max_pool|[8]");
  refuse("max_pool", R"("kernel": 2)", {1, 2, 3, 4, 5}, shape_mismatch, "max_pool|[1, 2, 3, 4, 5]");
  refuse("max_pool", R"("kernel": 3, "padding": 2)", {3, 8, 8}, out_of_range, ".padding: 2|kernel, 3");
  refuse("max_pool", R"("kernel": 3)", {3, 2, 8}, shape_mismatch, ".kernel|spans 3|height|is 2");
  refuse("max_pool", R"("kernel": 2, "dilation": 3, "padding": 1)", {3, 2}, shape_mismatch,
         ".dilation|window 0|2 elements|3 apart");
  refuse("max_pool", R"("kernel": 2)", {1, 4097, 4097}, too_large, "16785409|16777216");
  refuse("adaptive_max_pool", R"("size": [1])", {3, 8, 8}, shape_mismatch, ".size|1 numbers");
}

TEST(Layers, RefuseContainersThatCannotBe) {
  using enum Errc;
  refuse("sequential", R"("out": 4, "layers": [{"type": "identity"}])", {6}, shape_mismatch, "layers[3].out");
  refuse("dense", R"("out": 4, "layers": [{"type": "identity"}])", {6}, unknown_name, "layers[3].layers");
  refuse("sequential", R"("layers": [{"type": "identity", "from": ["b"]}, {"type": "identity", "name": "b"}])", {6},
         unknown_name, ".layers[0].from[0]|'b'|before");
  refuse("sequential", R"("layers": [{"type": "identity", "name": "b", "from": ["b"]}])", {6}, unknown_name,
         ".layers[0].from[0]|'b'");
  refuse("sequential", R"("layers": [{"type": "identity", "from": [[0,0,0,0]]}])", {6}, unsupported,
         ".layers[0].from[0]|[0,0,0,0]");
  refuse("sequential", R"("layers": [{"type": "identity", "name": "a"}, {"type": "identity", "name": "a"}])", {6},
         duplicate_name, ".layers[1].name|'a'");
  refuse("sequential", R"("layers": [{"type": "identity", "name": "input"}])", {6}, duplicate_name, ".layers[0].name");
  refuse("sequential", R"("layers": [{"type": "dense", "out": 2}, {"type": "identity", "from": ["input"]}])", {6},
         shape_mismatch, ".layers[0]|no layer after it reads it");
  refuse("sequential", R"("layers": [{"type": "dense", "out": 2}, {"type": "residual"}])", {6}, shape_mismatch,
         ".layers[1].from|at least two");
  refuse("sequential",
         R"("layers": [{"type": "dense", "out": 2, "name": "a"}, {"type": "residual", "from": ["a", "input"]}])", {6},
         shape_mismatch, ".layers[1].combine|2|6");
  refuse("sequential", R"("layers": [{"type": "identity", "view": [4, 2]}])", {6}, shape_mismatch,
         ".layers[0].view|8|6");
  refuse("sequential", R"("layers": [{"type": "dense", "out": 2, "policy": "isolate"}])", {6}, unsupported,
         ".layers[0].policy|container");
  refuse("sequential", R"("layers": [{"type": "dense", "out": 2, "activaton": "tanh"}])", {6}, unknown_name,
         ".layers[0].activaton|activation");
  refuse("sequential", R"("layers": [{"type": "shared", "at": [0,0,0,0]}])", {6}, unsupported, ".layers[0]|grid");
  refuse("sequential", R"("layers": [{"type": "metacognition", "above": 1.0}])", {6}, unsupported,
         ".layers[0]|watches");
  refuse("metacognition", R"("above": 1, "action": "swap")", {5}, shape_mismatch, "two vectors");
  refuse("parallel", R"("merge": "add", "layers": [{"type": "identity"}, {"type": "dense", "out": 2}])", {6},
         shape_mismatch, "merge|6|2");
  refuse("parallel", R"("merge": "filter", "top_k": 3, "layers": [{"type": "identity"}, {"type": "identity"}])", {6},
         out_of_range, ".top_k|3|2");
  refuse("parallel", R"("merge": "grid_scatter", "layers": [{"type": "identity"}])", {6}, parse_failed,
         "layers[3].grid");
  refuse("parallel", R"("merge": "grid_scatter", "grid": [1,2,2], "layers": [{"type": "identity"}])", {6}, parse_failed,
         "layers[3].places");
  refuse("parallel", R"("merge": "grid_scatter", "grid": [1,2,2], "places": [0,2,0], "layers": [{"type": "identity"}])",
         {6}, out_of_range, ".places|[0, 2, 0]|[1, 2, 2]");
  refuse(
      "parallel",
      R"("merge": "grid_scatter", "grid": [1,2,2], "places": [0,1,0,0,1,0], "layers": [{"type": "identity"}, {"type": "identity"}])",
      {6}, duplicate_name, ".places|[0, 1, 0]");
  refuse("parallel", R"("top_k": 1, "layers": [{"type": "identity"}, {"type": "identity"}])", {6}, unknown_name,
         "layers[3].top_k");
}

}  // namespace
}  // namespace weft::mesh::layer_tables_test
