// SPDX-License-Identifier: Apache-2.0

// Attention that is one operator of an ONNX graph.

#include "models/onnx/onnx_import.hpp"

#include <gtest/gtest.h>

#include "tests/models/onnx_graph.hpp"
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace weft::models::onnx_attention_import_test {
namespace {

using formats::OnnxValue;
using Graph = OnnxTestGraph;

/// Attention of 5 tokens of 6 values with 4 heads of 4 elements, in binary64 and by the words of the operators.
struct AttentionCase {
  std::size_t kv_heads = 2;
  double scale = 0.5, cap = 0;  // 0: none
  bool is_causal = true, has_bias = false;
  int turning = 0;         // 1: halves, 2: neighbours
  std::size_t window = 5;  // how far a token sees
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
        const std::size_t first = is_causal && t + 1 > window ? t + 1 - window : 0;
        std::vector<double> share(last + 1);
        double sum = 0;
        for (std::size_t j = first; j <= last; ++j) {
          double score = 0;
          for (std::size_t d = 0; d < kDim; ++d) score += q[t * width(0) + h * kDim + d] * k[j * width(1) + kv + d];
          score *= scale;
          if (cap != 0) score = cap * std::tanh(score / cap);
          sum += share[j] = std::exp(score);
        }
        for (std::size_t j = first; j <= last; ++j)
          for (std::size_t d = 0; d < kDim; ++d)
            y[t * width(0) + h * kDim + d] += share[j] / sum * v[j * width(2) + kv + d];
      }
    return y;
  }
  /// Matrices and the products "q", "k", "v".
  Graph graph(std::int64_t opset = 23, std::int64_t tokens = kTokens) const {
    Graph made({1, tokens, kIn}, opset);
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

TEST(OnnxAttentionImport, TakesAttentionThatIsOneOperator) {
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

TEST(OnnxAttentionImport, CapsScoresBeforeTheMask) {
  const std::int64_t four = 4, two = 2, one = 1;
  const AttentionCase capped{.cap = 0.7};
  const Attributes heads{{"q_num_heads", four}, {"kv_num_heads", two}, {"softcap", 0.7f}};
  Attributes causal = heads;
  causal.emplace_back("is_causal", one);
  capped.expect(capped.graph().node("Attention", {"q", "k", "v"}, {"y"}, causal), "is_causal");
  Graph masked = capped.graph();
  Floats mask;
  for (std::size_t i = 0; i < 25; ++i) mask.push_back(i % 5 <= i / 5 ? 0 : -INFINITY);
  masked.floats("mask", {5, 5}, mask);
  capped.expect(masked.node("Attention", {"q", "k", "v", "mask"}, {"y"}, heads), "a mask");
}

/// A graph that takes keys and values of `past` earlier tokens and gives those of the next run.
Graph& with_past(Graph& graph, std::int64_t kv_heads, std::int64_t past) {
  for (const char* const name : {"past_key", "past_value"})
    graph.model.graph.inputs.push_back(
        {name, "float32",
         std::vector<formats::OnnxAxis>{{std::nullopt, "batch"}, {kv_heads, ""}, {past, ""}, {4, ""}}});
  for (const char* const name : {"next_key", "next_value"}) graph.model.graph.outputs.push_back({name, "float32", {}});
  return graph;
}
/// Holds ticks of `tokens` tokens against attention to all of them at once.
void expect_in_ticks(const AttentionCase& wanted, const Graph& graph, std::size_t tokens, const char* what) {
  SCOPED_TRACE(what);
  const storage::TemporaryDirectory folder;
  auto mesh = imported_onnx(graph.written(folder.path()));
  ASSERT_TRUE(mesh) << mesh.error().text();
  ASSERT_EQ(mesh->graph().spec().inputs.size(), 1u) << "keys, values and lengths are the network's own state";
  ASSERT_EQ(mesh->graph().spec().outputs.size(), 1u);
  const Floats x = AttentionCase::input();
  const std::vector<double> expected = wanted.expected();
  Floats y(expected.size());
  const mesh::RunInput input{"x", x};
  const mesh::RunOutput output{"y", y};
  const Status ran = mesh->run({&input, 1}, AttentionCase::kTokens / tokens, {&output, 1});
  ASSERT_TRUE(ran) << ran.error().text();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(double{y[i]}, expected[i], 2e-6) << i;
}

TEST(OnnxAttentionImport, KeepsKeysAndValuesOfEarlierRunsAsState) {
  const std::int64_t four = 4, two = 2, one = 1, zero = 0;
  const std::vector<std::string> all{"y", "next_key", "next_value"};
  const AttentionCase grouped;
  const Attributes heads{{"q_num_heads", four}, {"kv_num_heads", two}};
  Graph token = grouped.graph(23, 1);
  with_past(token, 2, 4).node("Attention", {"q", "k", "v", "", "past_key", "past_value"}, all, heads);
  expect_in_ticks(grouped, token, 1, "a token a tick");
  Graph block = grouped.graph();
  std::vector<std::uint8_t> seen;
  for (std::size_t i = 0; i < 40; ++i) seen.push_back(i % 8 <= 3 + i / 8);
  with_past(block, 2, 3)
      .codes("mask", "BOOL", {5, 8}, seen)
      .node("Attention", {"q", "k", "v", "mask", "past_key", "past_value"}, all, heads);
  expect_in_ticks(grouped, block, 5, "a mask over the keys of earlier runs too");
  const AttentionCase near{.window = 2};
  Graph window = near.graph(23, 1);
  with_past(window, 2, 4).codes("mask", "BOOL", {1, 5}, {0, 0, 0, 1, 1});
  window.node("Attention", {"q", "k", "v", "mask", "past_key", "past_value"}, all, heads);
  expect_in_ticks(near, window, 1, "a window");
  const AttentionCase biased{.kv_heads = 4, .has_bias = true};
  Graph multi = biased.graph(17, 1);
  with_past(multi, 4, 4).floats("bias", {48}, biased.bias());
  foreign_node(multi, "MultiHeadAttention", {"q", "k", "v", "bias", "", "", "past_key", "past_value"},
               {{"num_heads", four}, {"unidirectional", one}}, all);
  expect_in_ticks(biased, multi, 1, "MultiHeadAttention");
  // Lengths are inputs, or computed of a mask that hides nothing.
  for (const bool is_open : {true, false}) {
    const AttentionCase turned{.cap = 1.5, .turning = 1};
    Graph query = turned.graph(17, 1);
    with_past(query, 2, 6);
    query.floats("cos", {7, 2}, AttentionCase::table(false)).floats("sin", {7, 2}, AttentionCase::table(true));
    if (is_open) {
      for (const char* const name : {"before", "all"})
        query.model.graph.inputs.push_back({name, "int32", std::vector<formats::OnnxAxis>{{one, ""}}});
    } else {
      query.integers("shape", {1, 7}).integers("axis", {1}).integers("one", {1});
      query.node("Expand", {"one", "shape"}, {"mask"});
      query.node("ReduceSum", {"mask", "axis"}, {"all"}, {{"keepdims", zero}}).node("Sub", {"all", "one"}, {"before"});
    }
    foreign_node(query, "GroupQueryAttention", {"q", "k", "v", "past_key", "past_value", "before", "all", "cos", "sin"},
                 {{"num_heads", four}, {"kv_num_heads", two}, {"softcap", 1.5f}, {"do_rotary", one}}, all);
    expect_in_ticks(turned, query, 1, is_open ? "GroupQueryAttention" : "GroupQueryAttention with known lengths");
  }
  // Positions as an input, or where those of earlier runs end.
  for (const bool is_open : {true, false}) {
    const AttentionCase turned{.turning = 2};
    Graph graph = turned.graph(23, 1);
    with_past(graph, 2, 4);
    if (is_open)
      graph.model.graph.inputs.push_back({"at", "int64", std::vector<formats::OnnxAxis>{{one, ""}, {one, ""}}});
    else
      graph.integers("at", {4});
    graph.floats("cos", {7, 2}, AttentionCase::table(false)).floats("sin", {7, 2}, AttentionCase::table(true));
    for (const std::string name : {"q", "k"})
      graph.node("RotaryEmbedding", {name, "cos", "sin", "at"}, {name + "t"},
                 {{"interleaved", one}, {"num_heads", name == "q" ? four : two}});
    graph.node("Attention", {"qt", "kt", "v", "", "past_key", "past_value"}, all, heads);
    expect_in_ticks(turned, graph, 1, is_open ? "positions as an input" : "known positions");
  }
}

TEST(OnnxAttentionImport, RefusesKeysOfEarlierRunsThatAreNoState) {
  const std::int64_t four = 4, two = 2;
  const AttentionCase grouped;
  const Attributes heads{{"q_num_heads", four}, {"kv_num_heads", two}};
  const auto expect = [](const Graph& graph, const std::string& part) {
    const std::string text = graph.refusal();
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  };
  const auto with = [&](std::int64_t tokens, std::int64_t past) {
    Graph made = grouped.graph(23, tokens);
    with_past(made, two, past);
    return made;
  };
  const std::vector<std::string> inputs{"q", "k", "v", "", "past_key", "past_value"},
      all{"y", "next_key", "next_value"};
  Graph lost = with(1, 4);
  lost.model.graph.outputs.resize(1);
  expect(lost.node("Attention", inputs, {"y"}, heads), "input 'past_key' is the first state of layers, and no output");
  expect(with(5, 4).node("Attention", inputs, all, heads), "in which tokens see later ones");
  expect(with(1, 4).node("Attention", {"q", "k", "v", "", "past_key"}, all, heads), "past_value is no input");
  expect(with(1, 4).node("Attention", {"q", "k", "v", "", "past_key", "past_key"}, all, heads), "the same input");
  Graph other = with(1, 4);
  other.model.graph.inputs[1].axes->at(1).extent = 4;
  expect(other.node("Attention", inputs, all, heads), "past_key [1, 4, 4, 4], expected [1, 2, tokens, 4]");
  expect(with(1, 4).node("Attention", inputs, all, heads).node("Relu", {"next_key"}, {"z"}), "a state that a layer");
  Graph none = grouped.graph();
  none.node("Attention", {"q", "k", "v"}, all, heads);
  expect(none, "with present_key or present_value, and without past_key");
  Graph again = with(1, 4);
  again.integers("at", {0}).floats("cos", {7, 2}, AttentionCase::table(false));
  again.floats("sin", {7, 2}, AttentionCase::table(true));
  for (const std::string name : {"q", "k"})
    again.node("RotaryEmbedding", {name, "cos", "sin", "at"}, {name + "t"}, {{"num_heads", name == "q" ? four : two}});
  expect(again.node("Attention", {"qt", "kt", "v", "", "past_key", "past_value"}, all, heads),
         "rotary positions from 0 on, behind 4 keys of earlier runs");
}

// Axes that the file names have their numbers by that name, whichever inputs have them.
TEST(OnnxAttentionImport, TakesAxesByTheirNames) {
  const std::int64_t four = 4, two = 2;
  const AttentionCase grouped;
  Graph graph = grouped.graph(23, 1);
  with_past(graph, two, 4)
      .node("Attention", {"q", "k", "v", "", "past_key", "past_value"}, {"y", "next_key", "next_value"},
            {{"q_num_heads", four}, {"kv_num_heads", two}});
  for (const std::size_t i : {1u, 2u}) graph.model.graph.inputs[i].axes->at(2) = {std::nullopt, "past"};
  EXPECT_NE(graph.refusal().find("axis 2 is not said; say it with --shape, or --pin past"), std::string::npos);
  const storage::TemporaryDirectory folder;
  const auto mesh = imported_onnx(graph.written(folder.path()), {{}, {{"past", 9}}});
  ASSERT_TRUE(mesh) << mesh.error().text();
  EXPECT_EQ(mesh->graph().spec().layers[0].layers[0].options.at("context"), mesh::OptionValue(10.0));
  const auto wrong = imported_onnx(graph.written(folder.path()), {{}, {{"past", 9}, {"pasta", 1}}});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().text().find("--pin: no input and no axis of one is named 'pasta'"), std::string::npos);
}

TEST(OnnxAttentionImport, RefusesAttentionOfTwoValuesByName) {
  const std::int64_t four = 4, two = 2;
  const AttentionCase grouped;
  const auto expect = [](const Graph& graph, const std::vector<std::string>& parts) {
    const std::string text = graph.refusal();
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  };
  const Attributes heads{{"q_num_heads", four}, {"kv_num_heads", two}};
  expect(grouped.graph().node("Attention", {"q", "k", "v", "", "k", "v"}, {"y", "pk"}, heads).node("Foo", {"x"}, {"z"}),
         {"(Attention): Attention whose past_key is no input of the graph", "(Foo): no layer does it"});
  Graph cross = grouped.graph();
  cross.node("Relu", {"x"}, {"other"}).node("MatMul", {"other", "wk"}, {"ok"});
  expect(cross.node("Attention", {"q", "ok", "v"}, {"y"}, heads), {"across two values"});
  expect(grouped.graph().node("Attention", {"x", "x", "x"}, {"y"}, {{"q_num_heads", two}, {"kv_num_heads", two}}),
         {"no heads of a projection"});
  Graph query = grouped.graph(17);
  query.integers("before", {3}).integers("all", {5});
  expect(foreign_node(query, "GroupQueryAttention", {"q", "k", "v", "", "", "before", "all"},
                      {{"num_heads", four}, {"kv_num_heads", two}}),
         {"input 5 (a length) is not that of one sample, 4"});
  expect(grouped.graph(17).node("GroupQueryAttention", {"q", "k", "v"}, {"y"}), {"com.microsoft has one of this name"});
}

TEST(OnnxAttentionImport, RefusesAttributesAndMasksThatNoAttentionHas) {
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
  expect(with("frobnicate", std::int64_t{3}), "(Attention): attribute 'frobnicate' is 3 and not known");
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
      "GroupQueryAttention with input 12;");
}
}  // namespace
}  // namespace weft::models::onnx_attention_import_test
