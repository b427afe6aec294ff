// SPDX-License-Identifier: Apache-2.0
// Layers over features and sequences, as payloads lay out their weights.

#include "bridge/internal/layer_kinds.hpp"

#include "core/printable.hpp"

#include <array>
#include <iterator>

namespace weft::bridge::internal {
namespace {

using Values = std::vector<float>;

Result<std::string> activation_of(const Fields& layer) {
  WEFT_TRY(std::string text, layer.text("activation"));
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (text.empty()) return std::string("linear");
  for (const std::string_view known : {"relu", "tanh", "sigmoid", "linear"})
    if (text == known) return text;
  return layer.failure(Errc::unknown_name,
                       "activation is '" + printable(text) + "', expected relu, tanh, sigmoid or linear");
}

/// A layer may say how many tokens it reads; then it is as many as there are.
Status check_tokens(const Fields& layer, std::size_t tokens) {
  WEFT_TRY(const std::size_t stated, layer.whole("seq_len", 0));
  if (stated == 0 || stated == tokens) return {};
  return layer.failure(Errc::shape_mismatch,
                       "seq_len is " + std::to_string(stated) + ", but it reads " + std::to_string(tokens) + " tokens");
}

Values part_of(const Values& all, std::size_t first, std::size_t count) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

void append_part(Values& to, const Values& all, std::size_t first, std::size_t count) {
  const Values values = part_of(all, first, count);
  to.insert(to.end(), values.begin(), values.end());
}

/// `gates` lists of W_ih [h, i], W_hh [h, h] and b [h] become the rows of one matrix each.
Status place_recurrent(PlanWriter& writer, const Fields& layer, std::size_t tokens, const std::string& type,
                       std::initializer_list<std::string_view> gates) {
  WEFT_TRY(const std::size_t in, layer.extent("input_size"));
  WEFT_TRY(const std::size_t hidden, layer.extent("hidden_size"));
  WEFT_CHECK(check_tokens(layer, tokens));
  const std::size_t count = hidden * in + hidden * hidden + hidden;
  Values inputs, states, biases;
  for (const std::string_view gate : gates) {
    WEFT_TRY(const Values pack, layer.numbers(gate, {count}));
    append_part(inputs, pack, 0, hidden * in);
    append_part(states, pack, hidden * in, hidden * hidden);
    append_part(biases, pack, hidden * in + hidden * hidden, hidden);
  }
  const std::size_t rows = biases.size();
  WEFT_CHECK(writer.place(layer, {type, {tokens, in}, {tokens, hidden}, hidden, {{"stateful", false}}}));
  writer.add_parameter("weight_ih", std::move(inputs));
  writer.add_parameter("weight_hh", std::move(states));
  writer.add_parameter("bias_ih", std::move(biases));
  writer.add_parameter("bias_hh", Values(rows, 0.0f), false);
  return {};
}

struct KindRow {
  PlaceKind place;
  std::string_view token_width;
};
constexpr std::array<KindRow, kBedrocks> kKinds{{{place_dense, ""},
                                                 {place_cnn1, ""},
                                                 {place_cnn2, ""},
                                                 {place_cnn3, ""},
                                                 {place_mha, "d_model"},
                                                 {place_lstm, "input_size"},
                                                 {place_rnn, "input_size"},
                                                 {place_layernorm, "dim"},
                                                 {place_embedding, ""},
                                                 {place_rmsnorm, "dim"},
                                                 {place_swiglu, "input_dim"},
                                                 {nullptr, "dim"},
                                                 {nullptr, ""}}};

struct Heads {
  std::size_t width, heads, kv_heads, size;
};

Result<Heads> read_heads(const Fields& layer) {
  Heads of{};
  WEFT_TRY(of.width, layer.extent("d_model"));
  WEFT_TRY(of.heads, layer.extent("num_heads", 65536));
  WEFT_TRY(of.kv_heads, layer.whole("num_kv_heads", 0, 65536));
  WEFT_TRY(of.size, layer.extent("head_dim", 65536));
  if (of.kv_heads == 0) of.kv_heads = of.heads;
  if (of.heads % of.kv_heads != 0)
    return layer.failure(Errc::out_of_range, "num_heads is " + std::to_string(of.heads) + ", which num_kv_heads " +
                                                 std::to_string(of.kv_heads) + " does not divide");
  if (of.size % 2 != 0)
    return layer.failure(Errc::out_of_range, "head_dim is " + std::to_string(of.size) +
                                                 ", expected an even number: positions turn pairs of values");
  return of;
}

/// Three biases exist together: those that the payload leaves out are zeros.
struct HeadBias {
  const char* parameter;
  Values values;
  std::size_t size;
};

}  // namespace

std::string_view token_width_field(Bedrock kind) noexcept { return kKinds[static_cast<std::size_t>(kind)].token_width; }
PlaceKind place_of(Bedrock kind) noexcept { return kKinds[static_cast<std::size_t>(kind)].place; }

Status check_index_and_kind(const Fields& layer, std::size_t index, Bedrock kind) {
  WEFT_TRY(const std::size_t stated, layer.whole("index", 0));
  if (stated != index)
    return layer.failure(Errc::out_of_range,
                         "index is " + std::to_string(stated) + ", expected " + std::to_string(index));
  WEFT_TRY(const std::string text, layer.text("kind"));
  if (text.empty() || text == name(kind)) return {};
  return layer.failure(Errc::unknown_name,
                       "kind is '" + printable(text) + "', expected '" + std::string(name(kind)) + "'");
}

Status place_dense(PlanWriter& writer, const Fields& layer, std::size_t) {
  WEFT_TRY(const std::size_t in, layer.extent("input_dim"));
  WEFT_TRY(const std::size_t out, layer.extent("output_dim"));
  WEFT_TRY(std::string activation, activation_of(layer));
  WEFT_TRY(Values weights, layer.numbers("weights", {out, in}));
  WEFT_TRY(Values bias, layer.numbers_or_none("bias", {out}));
  const bool has_bias = !bias.empty();
  WEFT_CHECK(
      writer.place(layer, {"dense", {in}, {out}, out, {{"activation", std::move(activation)}, {"bias", has_bias}}}));
  writer.add_parameter("weight", std::move(weights));
  if (has_bias) writer.add_parameter("bias", std::move(bias), false);
  return {};
}

namespace {

struct ConvolutionKind {
  const char* type;
  std::vector<std::string_view> extents;  // their fields, the outermost axis first
};

/// Number of windows of one axis. @error shape_mismatch: the kernel does not fit
Result<std::size_t> windows_of(const Fields& layer, std::size_t length, std::size_t kernel, std::size_t stride,
                               std::size_t padding) {
  const std::size_t padded = length + 2 * padding;
  if (kernel <= padded) return (padded - kernel) / stride + 1;
  return layer.failure(Errc::shape_mismatch, "kernel_size is " + std::to_string(kernel) + ", but the input has " +
                                                 std::to_string(length) + " and padding " + std::to_string(padding) +
                                                 " on both sides");
}

Status place_convolution(PlanWriter& writer, const Fields& layer, const ConvolutionKind& kind) {
  WEFT_TRY(const std::size_t channels, layer.extent("in_channels"));
  WEFT_TRY(const std::size_t filters, layer.extent("filters"));
  WEFT_TRY(const std::size_t kernel, layer.extent("kernel_size"));
  WEFT_TRY(std::size_t stride, layer.whole("stride", 1));
  WEFT_TRY(const std::size_t padding, layer.whole("padding", 0));
  if (stride == 0) stride = 1;
  Shape reads{channels}, gives{filters}, weights_shape{filters, channels};
  for (const std::string_view field : kind.extents) {
    WEFT_TRY(const std::size_t length, layer.extent(field));
    WEFT_TRY(const std::size_t windows, windows_of(layer, length, kernel, stride, padding));
    reads.push_back(length);
    gives.push_back(windows);
    weights_shape.push_back(kernel);
  }
  WEFT_TRY(std::string activation, activation_of(layer));
  WEFT_TRY(Values weights, layer.numbers("weights", weights_shape));
  WEFT_TRY(Values bias, layer.numbers_or_none("bias", {filters}));
  const bool has_bias = !bias.empty();
  WEFT_CHECK(writer.place(layer, {kind.type,
                                  reads,
                                  gives,
                                  filters,
                                  {{"kernel", static_cast<double>(kernel)},
                                   {"stride", static_cast<double>(stride)},
                                   {"padding", static_cast<double>(padding)},
                                   {"activation", std::move(activation)},
                                   {"bias", has_bias}}}));
  writer.add_parameter("weight", std::move(weights));
  if (has_bias) writer.add_parameter("bias", std::move(bias), false);
  return {};
}

}  // namespace

Status place_cnn1(PlanWriter& writer, const Fields& layer, std::size_t) {
  return place_convolution(writer, layer, {"conv1d", {"input_length"}});
}
Status place_cnn2(PlanWriter& writer, const Fields& layer, std::size_t) {
  return place_convolution(writer, layer, {"conv2d", {"input_height", "input_width"}});
}
Status place_cnn3(PlanWriter& writer, const Fields& layer, std::size_t) {
  return place_convolution(writer, layer, {"conv3d", {"input_depth", "input_height", "input_width"}});
}

Status place_mha(PlanWriter& writer, const Fields& layer, std::size_t tokens) {
  WEFT_TRY(const Heads of, read_heads(layer));
  WEFT_CHECK(check_tokens(layer, tokens));
  const std::size_t query = of.heads * of.size, key = of.kv_heads * of.size;
  WEFT_TRY(Values q, layer.numbers("q_weights", {query, of.width}));
  WEFT_TRY(Values k, layer.numbers("k_weights", {key, of.width}));
  WEFT_TRY(Values v, layer.numbers("v_weights", {key, of.width}));
  WEFT_TRY(Values o, layer.numbers("o_weights", {of.width, query}));
  std::array<HeadBias, 3> biases{{{"query_bias", {}, query}, {"key_bias", {}, key}, {"value_bias", {}, key}}};
  WEFT_TRY(biases[0].values, layer.numbers_or_none("q_bias", {query}));
  WEFT_TRY(biases[1].values, layer.numbers_or_none("k_bias", {key}));
  WEFT_TRY(biases[2].values, layer.numbers_or_none("v_bias", {key}));
  WEFT_TRY(Values out_bias, layer.numbers_or_none("o_bias", {of.width}));
  bool has_bias = false;
  for (const HeadBias& each : biases) has_bias |= !each.values.empty();
  WEFT_CHECK(writer.place(layer, {"attention",
                                  {tokens, of.width},
                                  {tokens, of.width},
                                  of.width,
                                  {{"heads", static_cast<double>(of.heads)},
                                   {"kv_heads", static_cast<double>(of.kv_heads)},
                                   {"head_dim", static_cast<double>(of.size)},
                                   {"causal", true},
                                   {"rope", std::string("half")},
                                   {"rope_theta", 10000.0},
                                   {"bias", has_bias},
                                   {"out_bias", !out_bias.empty()}}}));
  writer.add_parameter("query", std::move(q));
  writer.add_parameter("key", std::move(k));
  writer.add_parameter("value", std::move(v));
  writer.add_parameter("output", std::move(o));
  for (HeadBias& each : biases) {
    if (!has_bias) break;
    const bool is_given = !each.values.empty();
    each.values.resize(each.size, 0.0f);
    writer.add_parameter(each.parameter, std::move(each.values), is_given);
  }
  if (!out_bias.empty()) writer.add_parameter("output_bias", std::move(out_bias));
  return {};
}

/// Gates stand as i, f, g, o there and here.
Status place_lstm(PlanWriter& writer, const Fields& layer, std::size_t tokens) {
  return place_recurrent(writer, layer, tokens, "lstm", {"i_weights", "f_weights", "g_weights", "o_weights"});
}
Status place_rnn(PlanWriter& writer, const Fields& layer, std::size_t tokens) {
  return place_recurrent(writer, layer, tokens, "rnn", {"weights"});
}

Status place_layernorm(PlanWriter& writer, const Fields& layer, std::size_t tokens) {
  WEFT_TRY(const std::size_t dim, layer.extent("dim"));
  WEFT_CHECK(check_tokens(layer, tokens));
  WEFT_TRY(const Values weights, layer.numbers("weights", {2, dim}));
  WEFT_CHECK(writer.place(layer, {"layer_norm", {tokens, dim}, {tokens, dim}, 0, {{"epsilon", 1e-5}}}));
  writer.add_parameter("gain", part_of(weights, 0, dim));
  writer.add_parameter("bias", part_of(weights, dim, dim));
  return {};
}

/// There [entries, width], here [width, entries] and one entry of zeros more.
Status place_embedding(PlanWriter& writer, const Fields& layer, std::size_t tokens) {
  if (writer.placed() != 0 && !writer.reshapes())
    return layer.failure(Errc::shape_mismatch, "an embedding reads token ids, and another layer stands before it");
  WEFT_TRY(const std::size_t entries, layer.extent("vocab_size", Fields::kMostExtent - 1));
  WEFT_TRY(const std::size_t width, layer.extent("embedding_dim"));
  WEFT_TRY(const Values rows, layer.numbers("weights", {entries, width}));
  Values table(width * (entries + 1), 0.0f);
  for (std::size_t entry = 0; entry < entries; ++entry)
    for (std::size_t i = 0; i < width; ++i) table[i * (entries + 1) + entry] = rows[entry * width + i];
  WEFT_CHECK(writer.place(
      layer, {"embedding", {tokens}, {tokens, width}, width, {{"vocabulary", static_cast<double>(entries + 1)}}}));
  writer.plan.weight_bytes += rows.size() * sizeof(float);
  writer.add_parameter("table", std::move(table), false);
  writer.plan.tokens = NetworkPlan::Tokens{0, entries};
  return {};
}

Status place_rmsnorm(PlanWriter& writer, const Fields& layer, std::size_t tokens) {
  WEFT_TRY(const std::size_t dim, layer.extent("dim"));
  WEFT_CHECK(check_tokens(layer, tokens));
  WEFT_TRY(Values gain, layer.numbers("weights", {dim}));
  WEFT_CHECK(writer.place(layer, {"rms_norm", {tokens, dim}, {tokens, dim}, 0, {{"epsilon", 1e-6}}}));
  writer.add_parameter("gain", std::move(gain));
  return {};
}

Status place_swiglu(PlanWriter& writer, const Fields& layer, std::size_t tokens) {
  WEFT_TRY(const std::size_t in, layer.extent("input_dim"));
  WEFT_TRY(const std::size_t hidden, layer.extent("intermediate_dim"));
  WEFT_CHECK(check_tokens(layer, tokens));
  WEFT_TRY(const Values all, layer.numbers("weights", {3 * hidden * in + 2 * hidden + in}));
  WEFT_CHECK(
      writer.place(layer, {"swiglu",
                           {tokens, in},
                           {tokens, in},
                           in,
                           {{"hidden", static_cast<double>(hidden)}, {"gate", std::string("silu")}, {"bias", true}}}));
  std::size_t at = 0;
  const std::pair<const char*, std::size_t> parts[] = {{"gate", hidden * in}, {"up", hidden * in},
                                                       {"down", in * hidden}, {"gate_bias", hidden},
                                                       {"up_bias", hidden},   {"down_bias", in}};
  for (const auto& [parameter, count] : parts) {
    writer.add_parameter(parameter, part_of(all, at, count));
    at += count;
  }
  return {};
}

}  // namespace weft::bridge::internal
