// SPDX-License-Identifier: Apache-2.0

// Attention as one operator: Attention of ONNX 23, MultiHeadAttention and GroupQueryAttention of com.microsoft.

#include "models/onnx/internal/onnx_operators.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace weft::models::onnx {
namespace {

constexpr std::size_t kNoInput = SIZE_MAX;

/// An input or output for something that no layer does.
struct RefusedPort {
  std::size_t number;
  std::string_view name;
};
struct FusedOperator {
  std::string_view type, heads, kv_heads, causal;  // names of attributes
  std::size_t mask, bias, first_table;             // inputs; tables of rotary positions: cosines, then sines
  std::size_t past;                                // the first of two inputs, keys and values of earlier runs
  std::span<const RefusedPort> inputs, outputs;    // the last of each is the operator's last
};
constexpr RefusedPort kAttentionInputs[] = {{6, "nonpad_kv_seqlen"}};
constexpr RefusedPort kAttentionOutputs[] = {{3, "qk_matmul_output"}};
constexpr RefusedPort kMultiHeadInputs[] = {
    {4, "key_padding_mask"}, {8, "past_sequence_length"}, {9, "cache_indirection"}};
constexpr RefusedPort kGroupedInputs[] = {{9, "position_ids"}, {11, "head_sink"}};
constexpr RefusedPort kForeignOutputs[] = {{3, "output_qk"}};
constexpr FusedOperator kFusedOperators[] = {
    {"Attention", "q_num_heads", "kv_num_heads", "is_causal", 3, kNoInput, kNoInput, 4, kAttentionInputs,
     kAttentionOutputs},
    {"MultiHeadAttention", "num_heads", "num_heads", "unidirectional", 5, 3, kNoInput, 6, kMultiHeadInputs,
     kForeignOutputs},
    {"GroupQueryAttention", "num_heads", "kv_num_heads", "", 10, kNoInput, 7, 3, kGroupedInputs, kForeignOutputs}};

const FusedOperator& fused_operator(std::string_view type) {
  return *std::find_if(std::begin(kFusedOperators), std::end(kFusedOperators),
                       [&](const FusedOperator& each) { return each.type == type; });
}

/// All of an operator's ports that no layer has, and what is not known of it.
Status check_ports(const OperatorNode& n, const FusedOperator& known) {
  std::string names;
  const auto add = [&](std::string_view name) { names += (names.empty() ? "" : ", ") + std::string(name); };
  for (const RefusedPort& input : known.inputs)
    if (n.has(input.number)) add(input.name);
  for (const RefusedPort& output : known.outputs)
    if (n.makes(output.number)) add(output.name);
  for (std::size_t i = known.inputs.back().number + 1; i < n.node.inputs.size(); ++i)
    if (n.has(i)) add("input " + std::to_string(i));
  for (std::size_t i = known.outputs.back().number + 1; i < n.node.outputs.size(); ++i)
    if (n.makes(i)) add("output " + std::to_string(i));
  if (names.empty()) return {};
  return fail(Errc::unsupported, std::string(known.type) + " with " + names +
                                     "; attention is imported of one value, and without what is not known");
}

/// Columns [first, first + heads dim) of [1, tokens, width] as [1, tokens, heads, dim].
Stream columns_of(const Stream& x, std::size_t first, std::size_t heads, std::size_t dim) {
  const std::size_t tokens = x.shape[1], width = x.shape[2];
  Moved move{{1, tokens, heads, dim}};
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t i = 0; i < heads * dim; ++i)
      move.places.push_back(static_cast<std::int64_t>(t * width + first + i));
  return moved_stream(move, {&x});
}
/// [1, tokens, heads, dim] as [heads, tokens, dim].
Stream heads_first(const Stream& x) {
  const std::size_t tokens = x.shape[1], heads = x.shape[2], dim = x.shape[3];
  Moved move{{heads, tokens, dim}};
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t d = 0; d < dim; ++d) move.places.push_back(static_cast<std::int64_t>((t * heads + h) * dim + d));
  return moved_stream(move, {&x});
}

Status add_to_bias(Projection& to, std::span<const double> values) {
  std::vector<double> sum(values.begin(), values.end());
  if (to.bias) {
    WEFT_TRY(const auto own, reals_of(*to.bias));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
  }
  to.bias = reals("float32", {sum.size()}, sum);
  return {};
}

}  // namespace

/// The operator of a node.
class FusedAttention {
 public:
  FusedAttention(Operators& operators, const OperatorNode& node)
      : operators_(operators), n_(node), known_(fused_operator(node.node.type)) {}
  Result<std::vector<Value>> make();

 private:
  using Heads = Operators::Heads;
  /// Heads among the columns of [1, tokens, width], from `first` on, or all of [1, heads, tokens, dim].
  struct HeadColumns {
    std::size_t first = 0, heads = 0, dim = 0;
    const HeadTables* turning = nullptr;
  };
  Result<Heads> heads_in(const Stream& x, const HeadColumns& at);
  Result<AttentionParts> scores(Heads query, Heads key) const;
  Result<std::optional<HeadTables>> tables(std::size_t tokens) const;
  /// Finds the inputs with keys and values of earlier runs.
  Status find_past(std::size_t kv_heads, std::size_t dim);
  /// Adds what the layer leaves for the next run to the values of the node.
  void add_present(std::size_t tokens, std::vector<Value>& made);

  Operators& operators_;
  const OperatorNode& n_;
  const FusedOperator& known_;
  std::optional<Shape> past_;  // of keys, and of values
  std::int32_t past_ports_[2] = {};
};

Result<FusedAttention::Heads> FusedAttention::heads_in(const Stream& x, const HeadColumns& at) {
  Stream heads = x;
  if (x.shape.size() == 4) {
    heads.shape = {at.heads, x.shape[2], at.dim};
  } else {
    heads = columns_of(x, at.first, at.heads, at.dim);
    if (at.turning) {
      WEFT_TRY(heads, operators_.tables_.turned_by(n_, heads, 1, *at.turning));
    }
    heads = heads_first(heads);
  }
  auto found = operators_.heads_of(heads, false, {at.heads});
  if (found && found->kv_heads == found->heads) return *std::move(found);
  return fail(Errc::unsupported, n_.node.type + " of values that are no heads of a projection");
}

/// Parts of scores as an operator's attributes and mask say them.
Result<AttentionParts> FusedAttention::scores(Heads query, Heads key) const {
  if (query.rows.from != key.rows.from || query.rows.in != key.rows.in || query.turns != key.turns ||
      query.rows.gain.has_value() != key.rows.gain.has_value() || query.rows.epsilon != key.rows.epsilon)
    return fail(Errc::unsupported, n_.node.type + " across two values: keys are of another one than queries");
  AttentionParts parts;
  WEFT_TRY(double scale, real_of(n_.node, "scale", 0));
  if (scale < 0)
    return fail(Errc::unsupported, "attribute 'scale' is " + std::to_string(scale) + ", expected a number above 0");
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(query.head_dim));
  parts.scale = scale * query.rows.scale * key.rows.scale;
  parts.heads = query.heads, parts.kv_heads = key.heads;
  parts.head_dim = query.head_dim, parts.tokens = query.tokens;
  parts.turns = query.turns;
  if (past_) parts.past = (*past_)[2];
  parts.query = std::move(query.rows), parts.key = std::move(key.rows);
  WEFT_TRY(const std::int64_t causal, integer_of(n_.node, known_.causal, known_.causal.empty() ? 1 : 0));
  parts.is_causal = causal != 0;
  if (n_.has(known_.mask)) {
    WEFT_TRY(const Constant* const mask, operators_.constant(n_, known_.mask));
    WEFT_TRY(parts, seen_through(std::move(parts), *mask, mask->type == "BOOL"));
  }
  WEFT_TRY(const double cap, real_of(n_.node, "softcap", 0));
  if (cap < 0) return fail(Errc::corrupt, "attribute 'softcap' is " + std::to_string(cap) + "; a cap is positive");
  // Before the mask, as ONNX 1.22 corrects the operator's first text (onnx/onnx#7867): else hidden keys would be seen.
  if (cap != 0) parts.is_bent = true, parts.cap = cap, parts.last = 1 / cap;
  return parts;
}

Result<std::vector<Value>> FusedAttention::make() {
  WEFT_CHECK(check_ports(n_, known_));
  WEFT_TRY(const Stream query, operators_.stream(n_, 0));
  const bool is_packed = !n_.has(1) && !n_.has(2), is_split = query.shape.size() == 4;
  if (is_packed && known_.first_table == kNoInput)
    return fail(Errc::unsupported, n_.node.type + " of queries, keys and values in one input");
  Stream key = query, value = query;
  if (!is_packed) {
    WEFT_TRY(key, operators_.stream(n_, 1));
    WEFT_TRY(value, operators_.stream(n_, 2));
  }
  const auto told = [&](std::string_view name, const Stream& x, std::size_t otherwise) -> Result<std::size_t> {
    if (x.shape.size() == 4) return x.shape[1];
    WEFT_TRY(const std::int64_t found, integer_of(n_.node, name, static_cast<std::int64_t>(otherwise)));
    return static_cast<std::size_t>(std::clamp<std::int64_t>(found, 0, 65536));
  };
  WEFT_TRY(const std::size_t heads, told(known_.heads, query, 0));
  WEFT_TRY(const std::size_t kv_heads, told(known_.kv_heads, key, heads));
  const std::size_t all = is_packed ? heads + 2 * kv_heads : heads;
  if ((query.shape.size() != 3 && !(is_split && n_.node.domain.empty())) || query.shape[0] != 1 || heads == 0 ||
      kv_heads == 0 || heads % kv_heads != 0 || query.shape.back() % (is_split ? 1 : all) != 0)
    return fail(Errc::unsupported, n_.node.type + " of " + to_string(query.shape) + " with " + std::to_string(heads) +
                                       " and " + std::to_string(kv_heads) +
                                       " heads; expected one sample, [1, tokens, width] or [1, heads, tokens, dim]");
  const std::size_t dim = is_split ? query.shape[3] : query.shape[2] / all, tokens = query.shape[is_split ? 2 : 1];
  const Shape expected = is_split ? Shape{1, kv_heads, tokens, dim} : Shape{1, tokens, kv_heads * dim};
  for (const Stream* const each : {&key, &value})
    if (!is_packed && each->shape != expected)
      return fail(Errc::unsupported, n_.node.type + " of keys or values " + to_string(each->shape) + ", expected " +
                                         to_string(expected) + "; attention across two values is not imported");
  WEFT_CHECK(find_past(kv_heads, dim));
  WEFT_TRY(const std::optional<HeadTables> by, tables(tokens));
  const HeadTables* const turning = by ? &*by : nullptr;
  const std::size_t from = is_packed ? heads * dim : 0;
  WEFT_TRY(Heads queries, heads_in(query, {0, heads, dim, turning}));
  WEFT_TRY(Heads keys, heads_in(key, {from, kv_heads, dim, turning}));
  WEFT_TRY(Heads values, heads_in(value, {is_packed ? from + kv_heads * dim : 0, kv_heads, dim, nullptr}));
  if (n_.has(known_.bias)) {
    WEFT_TRY(const Constant* const bias, operators_.constant(n_, known_.bias));
    WEFT_TRY(const auto numbers, reals_of(*bias));
    const std::size_t width = heads * dim;
    if (numbers.size() != 3 * width || queries.rows.gain || queries.turns)
      return fail(Errc::unsupported, "a bias " + to_string(bias->shape) + " of heads that are no plain projections");
    WEFT_CHECK(add_to_bias(queries.rows, std::span(numbers).first(width)));
    WEFT_CHECK(add_to_bias(keys.rows, std::span(numbers).subspan(width, width)));
    WEFT_CHECK(add_to_bias(values.rows, std::span(numbers).last(width)));
  }
  WEFT_TRY(const AttentionParts parts, scores(std::move(queries), std::move(keys)));
  WEFT_TRY(std::vector<Value> made, operators_.attention(n_, parts, values.rows, kv_heads, {1, heads, tokens, dim}));
  Stream& y = std::get<Stream>(made[0]);
  if (!is_split) y = operators_.layers_.all_of(y.chunks[0].base, {1, tokens, heads * dim});
  if (past_) add_present(tokens, made);
  return made;
}

Status FusedAttention::find_past(std::size_t kv_heads, std::size_t dim) {
  const auto is_empty = [&](std::size_t input) {
    const auto* const known = n_.has(input) ? std::get_if<Constant>(&n_.inputs[input]) : nullptr;
    return !n_.has(input) || (known && known->count() == 0);
  };
  if (is_empty(known_.past) && is_empty(known_.past + 1)) {
    if (!n_.makes(1) && !n_.makes(2)) return {};
    return fail(Errc::unsupported, n_.node.type + " with present_key or present_value, and without past_key");
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "past_key" : "past_value";
    const auto port =
        n_.has(known_.past + i) ? whole_port(operators_.layers_, n_.inputs[known_.past + i]) : std::nullopt;
    if (!port) return fail(Errc::unsupported, n_.node.type + " whose " + name + " is no input of the graph");
    const Shape& shape = std::get<Stream>(n_.inputs[known_.past + i]).shape;
    if (shape.size() != 4 || shape != Shape{1, kv_heads, shape[2], dim} || (past_ && *past_ != shape))
      return fail(Errc::unsupported, n_.node.type + " with " + name + " " + to_string(shape) + ", expected [1, " +
                                         std::to_string(kv_heads) + ", tokens, " + std::to_string(dim) + "]");
    past_ = shape;
    past_ports_[i] = *port;
  }
  if (past_ports_[0] == past_ports_[1]) return fail(Errc::corrupt, "the same input as past_key and past_value");
  return {};
}

void FusedAttention::add_present(std::size_t tokens, std::vector<Value>& made) {
  Shape shape = *past_;
  shape[2] += tokens;
  for (const std::int32_t port : past_ports_) {
    const std::size_t before = elements_of(*past_), count = elements_of(shape);
    const std::int32_t base = operators_.layers_.add_port("", {count});
    operators_.hidden_.push_back(base);
    operators_.states_.push_back({port, 0, before, {base, 0, count}});
    made.emplace_back(Stream{shape, {{base, 0, count}}});
  }
}

/// Tables of an operator that turns its heads itself, at the positions behind those of earlier runs.
Result<std::optional<HeadTables>> FusedAttention::tables(std::size_t tokens) const {
  if (known_.first_table == kNoInput) return std::optional<HeadTables>();
  const std::size_t keys = tokens + (past_ ? (*past_)[2] : 0);
  for (const auto& [input, wanted] : {std::pair(std::size_t{5}, keys - 1), std::pair(std::size_t{6}, keys)}) {
    // Of a state these are its own.
    if (past_ && n_.has(input) && whole_port(operators_.layers_, n_.inputs[input])) continue;
    WEFT_TRY(const Constant* const length, operators_.constant(n_, input));
    WEFT_TRY(const auto numbers, integers_of(*length));
    if (numbers.size() != 1 || numbers[0] != static_cast<std::int64_t>(wanted))
      return fail(Errc::unsupported, n_.node.type + " whose input " + std::to_string(input) +
                                         " (a length) is not that of one sample, " + std::to_string(wanted));
  }
  for (const auto& [name, usual] :
       {std::pair("local_window_size", -1), std::pair("smooth_softmax", 0), std::pair("qk_output", 0)}) {
    WEFT_TRY(const std::int64_t found, integer_of(n_.node, name, usual));
    if (found != usual && !(found == -1 && usual == 0))
      return fail(Errc::unsupported, n_.node.type + " with " + name + " " + std::to_string(found));
  }
  WEFT_TRY(const std::int64_t turns, integer_of(n_.node, "do_rotary", 0));
  if (turns == 0) return std::optional<HeadTables>();
  HeadTables made;
  WEFT_TRY(made.cosines, operators_.constant(n_, known_.first_table));
  WEFT_TRY(made.sines, operators_.constant(n_, known_.first_table + 1));
  WEFT_TRY(const std::int64_t interleaves, integer_of(n_.node, "rotary_interleaved", 0));
  made.is_half = interleaves == 0;
  for (std::size_t t = 0; t < tokens && !past_; ++t) made.positions.push_back(static_cast<std::int64_t>(t));
  return std::optional(std::move(made));
}

Result<std::vector<Value>> fused_attention(Operators& operators, const OperatorNode& node) {
  return FusedAttention(operators, node).make();
}

}  // namespace weft::models::onnx
