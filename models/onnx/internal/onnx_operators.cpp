// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/internal/onnx_operators.hpp"

#include <algorithm>
#include <utility>

namespace weft::models::onnx {

using formats::OnnxNode;
using Kind = Pattern::Kind;

Shape tokens_of(const Shape& shape) {
  const std::size_t width = shape.empty() ? 1 : shape.back(), tokens = width == 0 ? 0 : elements_of(shape) / width;
  return tokens == 1 ? Shape{width} : Shape{tokens, width};
}
std::optional<double> scalar_of(const Constant& constant) {
  if (constant.count() != 1) return std::nullopt;
  const auto values = reals_of(constant);
  return values ? std::optional(values->front()) : std::nullopt;
}
const Pattern* part_of(const Value& value, Kind kind) {
  const auto* const part = std::get_if<Pattern>(&value);
  return part && part->kind == kind ? part : nullptr;
}
Shape shape_of_part(const Pattern& part) {
  constexpr Kind kReduced[] = {Kind::mean_square, Kind::root,   Kind::inverse_root,
                               Kind::largest,     Kind::coding, Kind::step};
  Shape shape = part.x.shape;
  if (!shape.empty() && std::find(std::begin(kReduced), std::end(kReduced), part.kind) != std::end(kReduced))
    shape.back() = 1;
  return shape;
}
std::optional<double> number_of(const Value& value) {
  const auto* const known = std::get_if<Constant>(&value);
  return known && is_real_type(known->type) ? scalar_of(*known) : std::nullopt;
}
bool is_same(const Stream& a, const Stream& b) {
  return std::equal(
      a.chunks.begin(), a.chunks.end(), b.chunks.begin(), b.chunks.end(),
      [](const Chunk& x, const Chunk& y) { return x.base == y.base && x.offset == y.offset && x.count == y.count; });
}

bool Operators::is_hidden(std::int32_t base) const noexcept {
  return std::find(hidden_.begin(), hidden_.end(), base) != hidden_.end();
}

Result<std::vector<Value>> Operators::make(const OnnxNode& node, const std::string& label,
                                           const std::vector<Value>& inputs) {
  return dispatch({node, label, inputs});
}

struct Operators::Row {
  std::string_view type;
  std::size_t most;  // inputs; attention looks at its own
  Result<Values> (*make)(Operators&, const Node&);
  static const Row* find(std::string_view type) noexcept;
};

const Operators::Row* Operators::Row::find(std::string_view type) noexcept {
  using O = Operators;
  constexpr std::size_t kAny = SIZE_MAX;
  static const Row kRows[] = {
      {"MatMul", 2, [](O& o, const Node& of) { return o.matmul(of); }},
      {"Gemm", 3, [](O& o, const Node& of) { return o.gemm(of); }},
      {"Conv", 3, [](O& o, const Node& of) { return o.conv(of, false); }},
      {"ConvTranspose", 3, [](O& o, const Node& of) { return o.conv(of, true); }},
      {"MaxPool", 1, [](O& o, const Node& of) { return o.pool(of, true); }},
      {"AveragePool", 1, [](O& o, const Node& of) { return o.pool(of, false); }},
      {"GlobalAveragePool", 1, [](O& o, const Node& of) { return o.global_pool(of, false); }},
      {"GlobalMaxPool", 1, [](O& o, const Node& of) { return o.global_pool(of, true); }},
      {"ReduceMean", 2, [](O& o, const Node& of) { return o.reduce(of, false); }},
      {"ReduceMax", 2, [](O& o, const Node& of) { return o.reduce(of, true); }},
      {"LayerNormalization", 3, [](O& o, const Node& of) { return o.layer_norm(of, true); }},
      {"RMSNormalization", 2, [](O& o, const Node& of) { return o.layer_norm(of, false); }},
      {"BatchNormalization", 5, [](O& o, const Node& of) { return o.batch_norm(of); }},
      {"GroupNormalization", 3, [](O& o, const Node& of) { return o.group_norm(of); }},
      {"InstanceNormalization", 3, [](O& o, const Node& of) { return o.group_norm(of); }},
      {"Softmax", 1, [](O& o, const Node& of) { return o.softmax(of); }},
      {"LSTM", 8, [](O& o, const Node& of) { return o.recurrent(of, "lstm", 4); }},
      {"GRU", 6, [](O& o, const Node& of) { return o.recurrent(of, "gru", 3); }},
      {"RNN", 6, [](O& o, const Node& of) { return o.recurrent(of, "rnn", 1); }},
      {"RotaryEmbedding", 4, [](O& o, const Node& of) { return o.rotary_embedding(of); }},
      {"Attention", kAny, [](O& o, const Node& of) { return fused_attention(o, of); }},
      {"MultiHeadAttention", kAny, [](O& o, const Node& of) { return fused_attention(o, of); }},
      {"GroupQueryAttention", kAny, [](O& o, const Node& of) { return fused_attention(o, of); }},
      {"Relu", 1, [](O& o, const Node& of) { return o.activation(of, "relu"); }},
      {"Sigmoid", 1, [](O& o, const Node& of) { return o.activation(of, "sigmoid"); }},
      {"Tanh", 1, [](O& o, const Node& of) { return o.activation(of, "tanh"); }},
      {"Softplus", 1, [](O& o, const Node& of) { return o.activation(of, "softplus"); }},
      {"Mish", 1, [](O& o, const Node& of) { return o.activation(of, "mish"); }},
      {"Swish", 1, [](O& o, const Node& of) { return o.activation(of, "silu"); }},
      {"LeakyRelu", 1, [](O& o, const Node& of) { return o.activation(of, "leaky_relu"); }},
      {"Elu", 1, [](O& o, const Node& of) { return o.activation(of, "elu"); }},
      {"Gelu", 1, [](O& o, const Node& of) { return o.activation(of, "gelu"); }},
      {"Sqrt", 1, [](O& o, const Node& of) { return o.sum_of_squares_root(of); }},
      {"Add", 2, [](O& o, const Node& of) { return o.arithmetic(of); }},
      {"Sub", 2, [](O& o, const Node& of) { return o.arithmetic(of); }},
      {"Mul", 2, [](O& o, const Node& of) { return o.arithmetic(of); }},
      {"Div", 2, [](O& o, const Node& of) { return o.arithmetic(of); }},
      {"Pow", 2, [](O& o, const Node& of) { return o.arithmetic(of); }},
      {"Erf", 1, [](O& o, const Node& of) { return o.arithmetic(of); }},
      {"Round", 1,
       [](O&, const Node&)
           -> Result<Values> { return fail(Errc::unsupported, "no layer does it, but of inputs as int8"); }},
      {"Sum", kAny, [](O& o, const Node& of) { return o.combined(of, "residual", mesh::Combine::add); }},
      {"Mean", kAny, [](O& o, const Node& of) { return o.combined(of, "identity", mesh::Combine::avg); }},
      {"Max", kAny, [](O& o, const Node& of) { return o.combined(of, "identity", mesh::Combine::max); }}};
  const auto* const found =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return row.type == type; });
  return found == std::end(kRows) ? nullptr : found;
}

bool is_known_operator(std::string_view type) noexcept {
  return Operators::Row::find(type) || is_move(type) || is_computed(type);
}

Result<Operators::Values> Operators::dispatch(const Node& n) {
  const std::string_view type = n.node.type;
  const Row* const row = Row::find(type);
  if (row && n.inputs.size() > row->most)
    return fail(Errc::unsupported,
                std::to_string(n.inputs.size()) + " inputs, at most " + std::to_string(row->most) + " are known");
  WEFT_TRY(std::optional<Values> coded, coded_part(*this, n));
  if (coded) return *std::move(coded);
  if (std::any_of(n.inputs.begin(), n.inputs.end(), [](const Value& v) { return part_of(v, Kind::coded_product); })) {
    std::vector<Value> inputs = n.inputs;
    for (Value& input : inputs)
      if (const Pattern* const product = part_of(input, Kind::coded_product)) {
        WEFT_TRY(input, finished_product(*this, *product));
      }
    return dispatch({n.node, n.label, inputs});
  }
  WEFT_TRY(std::optional<Values> part, known_part(n));
  if (part) return *std::move(part);
  if (type == "Gather" && n.has(0) && std::holds_alternative<Constant>(n.inputs[0])) return embedding(n);
  if (type == "Dropout" && n.makes(1)) return fail(Errc::unsupported, "output 1, the mask");
  if (is_move(type) || type == "Cast") return move(n);
  if (row) return row->make(*this, n);
  return fail(Errc::unsupported, "no layer does it");
}

Result<const Constant*> Operators::constant(const Node& n, std::size_t input) const {
  if (!n.has(input)) return fail(Errc::corrupt, "input " + std::to_string(input) + " is not given");
  if (const auto* found = std::get_if<Constant>(&n.inputs[input])) return found;
  return fail(Errc::unsupported, "input " + std::to_string(input) + " is not known before the network runs");
}

Result<Stream> Operators::stream_of(const Node& n, const Value& value) {
  if (const auto* found = std::get_if<Stream>(&value)) {
    for (const Chunk& chunk : found->chunks)
      if (is_hidden(chunk.base)) return fail(Errc::unsupported, "a state that a layer keeps");
    if (elements_of(found->shape) == 0) return fail(Errc::unsupported, "a value without elements");
    return *found;
  }
  if (std::holds_alternative<Constant>(value))
    return fail(Errc::unsupported, "a constant where a layer's output is expected");
  const auto* const pattern = std::get_if<Pattern>(&value);
  if (pattern && pattern->kind == Kind::normed) {
    const Shape shape = tokens_of(pattern->x.shape);
    FoundLayer layer;
    layer.spec.type = "rms_norm";
    layer.spec.options = {{"epsilon", pattern->epsilon}};
    layer.in = layer.out = shape;
    layer.node = n.label;
    layer.weights["gain"] = {reals("float32", {shape.back()}, std::vector<double>(shape.back(), 1.0))};
    return layers_.add(std::move(layer), {pattern->x}, pattern->x.shape);
  }
  if (pattern && pattern->kind == Kind::scaled && pattern->factor > 0) {
    if (const FoundLayer* const table = maker(pattern->x, "embedding");
        table && !table->spec.options.contains("scale")) {
      FoundLayer layer = *table;  // others may read the values without the factor
      layer.spec.options["scale"] = pattern->factor;
      return layers_.add(std::move(layer), {}, pattern->x.shape);
    }
    const Shape shape = tokens_of(pattern->x.shape);
    FoundLayer layer;
    layer.spec.type = "standardize";
    layer.spec.options = {{"mean", std::vector<double>(shape.back(), 0.0)},
                          {"deviation", std::vector<double>(shape.back(), 1.0 / pattern->factor)}};
    layer.in = layer.out = shape;
    layer.node = n.label;
    return layers_.add(std::move(layer), {pattern->x}, pattern->x.shape);
  }
  if (pattern && pattern->kind == Kind::bent) {
    Pattern inner = *pattern;
    inner.kind = Kind::scaled;
    WEFT_TRY(Stream x, stream_of(n, inner));
    const Shape seen = tokens_of(x.shape), after = x.shape;
    WEFT_TRY(Values made, add(n, "activation", {{"activation", std::string("tanh")}}, std::move(x), seen, seen, after));
    return std::get<Stream>(std::move(made[0]));
  }
  return fail(Errc::unsupported, "a part of a function that is not known");
}
Result<Stream> Operators::stream(const Node& n, std::size_t input) {
  if (!n.has(input)) return fail(Errc::corrupt, "input " + std::to_string(input) + " is not given");
  return stream_of(n, n.inputs[input]);
}

Result<std::vector<Value>> one_value(Result<Stream> made) {
  if (!made) return fail(std::move(made).error());
  return std::vector<Value>{*std::move(made)};
}

Result<Operators::Values> Operators::add(const Node& n, const char* type, mesh::Options options, Stream x, Shape in,
                                         Shape out, Shape after, std::map<std::string, Weight> weights,
                                         std::size_t width) {
  FoundLayer layer;
  layer.spec.type = type;
  layer.spec.out = width;
  layer.spec.options = std::move(options);
  layer.in = std::move(in);
  layer.out = std::move(out);
  layer.weights = std::move(weights);
  layer.node = n.label;
  return one_value(layers_.add(std::move(layer), {std::move(x)}, std::move(after)));
}

std::optional<std::int32_t> whole_port(const LayerList& layers, const Value& value) {
  const auto* const stream = std::get_if<Stream>(&value);
  if (!stream || stream->chunks.size() != 1) return std::nullopt;
  const Chunk& chunk = stream->chunks[0];
  if (chunk.base >= 0 || chunk.base == Chunk::kZeros || chunk.offset != 0 || chunk.count != layers.size_of(chunk.base))
    return std::nullopt;
  // A state that a layer keeps has no name.
  if (layers.ports()[static_cast<std::size_t>(~chunk.base)].name.empty()) return std::nullopt;
  return chunk.base;
}

const FoundLayer* Operators::maker(const Stream& stream, std::string_view type) const {
  if (stream.chunks.size() != 1) return nullptr;
  const Chunk& chunk = stream.chunks[0];
  if (chunk.base < 0 || chunk.offset != 0 || chunk.count != layers_.size_of(chunk.base)) return nullptr;
  const FoundLayer& layer = layers_.at(chunk.base);
  return layer.spec.type == type ? &layer : nullptr;
}

Result<Operators::Values> Operators::move(const Node& n) {
  if (n.node.type == "Cast") {
    WEFT_TRY(const std::int64_t to, integer_of(n.node, "to", 0));
    if (to != 1 && to != 7) return fail(Errc::unsupported, "to type " + std::to_string(to) + "; layers have float32");
    WEFT_TRY(Stream same, stream(n, 0));
    return Values{std::move(same)};
  }
  std::vector<Operand> operands;
  std::vector<const Stream*> streams;
  std::vector<Stream> made;  // of patterns
  made.reserve(n.inputs.size());
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    if (!n.has(i)) {
      operands.emplace_back();
    } else if (const auto* known = std::get_if<Constant>(&n.inputs[i])) {
      if (i < moved_operands(n.node))
        return fail(Errc::unsupported, "input " + std::to_string(i) + " is a constant, beside others that are not");
      operands.push_back({&known->shape, known});
    } else if (const auto* found = std::get_if<Stream>(&n.inputs[i])) {
      streams.push_back(found);
      operands.push_back({&found->shape, nullptr});
    } else {
      WEFT_TRY(made.emplace_back(), stream(n, i));
      streams.push_back(&made.back());
      operands.push_back({&made.back().shape, nullptr});
    }
  }
  WEFT_TRY(const std::vector<Moved> moves, moves_of(n.node, operands, opset_));
  for (const Moved& one_move : moves) moved_ += one_move.places.size();
  if (moved_ > kMostMoved)
    return fail(Errc::too_large,
                "values in other orders, " + std::to_string(moved_) + " in all, at most " + std::to_string(kMostMoved));
  Values values;
  for (const Moved& one_move : moves) values.emplace_back(moved_stream(one_move, streams));
  return values;
}

}  // namespace weft::models::onnx
