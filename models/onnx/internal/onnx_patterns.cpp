// SPDX-License-Identifier: Apache-2.0

// Functions that several nodes compute together: gelu by tanh, root mean square norms, gated units.

#include "models/onnx/internal/onnx_operators.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace weft::models::onnx {

using Kind = Pattern::Kind;

namespace {

constexpr double kGeluRoot = 0.7978845608028654, kGeluCube = 0.044715;  // sqrt(2 / pi)

// Exporters write these numbers as float32, or with six digits.
bool is_near(double value, double wanted) { return std::fabs(value - wanted) <= 1e-5 * std::fabs(wanted); }

struct Scaled {
  const Stream* x = nullptr;
  double factor = 1;
};
/// A value, and a factor before it.
std::optional<Scaled> scaled_of(const Value& value) {
  if (const auto* const x = std::get_if<Stream>(&value)) return Scaled{x, 1};
  if (const Pattern* const part = part_of(value, Kind::scaled)) return Scaled{&part->x, part->factor};
  return std::nullopt;
}
Pattern as(const Pattern& part, Kind kind) {
  Pattern made = part;
  made.kind = kind;
  return made;
}

std::optional<Pattern> scaled_part(const Pattern& part, double by) {
  constexpr std::array kScalable{Kind::square, Kind::cube, Kind::x_plus_cube, Kind::x_one_plus_tanh};
  if (std::find(kScalable.begin(), kScalable.end(), part.kind) != kScalable.end()) {
    Pattern made = part;
    made.factor *= by;
    return made;
  }
  if (part.kind == Kind::scores) {
    auto parts = *part.attention;
    if (parts.is_bent && parts.cap != 0) return std::nullopt;
    if (parts.is_bent)
      parts.cap = by;
    else
      parts.scale *= parts.last, parts.last = by;
    Pattern made = part;
    made.attention = std::make_shared<const AttentionParts>(std::move(parts));
    return made;
  }
  return std::nullopt;
}

std::optional<std::vector<Value>> sum_part(const Value& a, const Value& b) {
  if (const auto number = number_of(a)) {
    if (const Pattern* const tanh = part_of(b, Kind::tanh); tanh && *number == 1)
      return std::vector<Value>{as(*tanh, Kind::one_plus_tanh)};
    if (const Pattern* const square = part_of(b, Kind::square); square && *number == 1)
      return std::vector<Value>{as(*square, Kind::one_plus_square)};
    if (const Pattern* const mean = part_of(b, Kind::mean_square); mean && *number >= 0 && mean->epsilon == 0) {
      Pattern made = *mean;
      made.epsilon = *number;
      return std::vector<Value>{made};
    }
    return std::nullopt;
  }
  const auto scaled = scaled_of(a);
  const Pattern* const cube = part_of(b, Kind::cube);
  if (!scaled || !cube || scaled->factor == 0 || !is_same(*scaled->x, cube->x)) return std::nullopt;
  Pattern made = as(*cube, Kind::x_plus_cube);
  made.inner = cube->factor / scaled->factor, made.factor = scaled->factor;
  return std::vector<Value>{made};
}

}  // namespace

std::optional<Projection> Operators::projection_of(std::int32_t base) const {
  Projection found;
  std::int32_t at = base;
  for (int steps = 0; steps < 4 && at >= 0; ++steps) {
    const FoundLayer& layer = layers_.at(at);
    if (layer.sources.size() != 1) return std::nullopt;
    if (layer.spec.type == "rms_norm" && !found.gain && !found.bias && found.scale == 1) {
      found.gain = layer.weights.at("gain").values;
      found.epsilon = std::get<double>(layer.spec.options.at("epsilon"));
      at = layer.sources[0];
      continue;
    }
    if (layer.spec.type == "dense") {
      found.from = layer.sources[0];
      found.weight = layer.weights.at("weight");
      found.in = layer.in.back(), found.out = layer.out.back();
      if (const auto own = layer.weights.find("bias"); own != layer.weights.end()) {
        if (found.bias) return std::nullopt;
        found.bias = own->second.values;
      }
      return found;
    }
    if (layer.spec.type != "standardize") return std::nullopt;
    if (layer.part == FoundLayer::Part::last_axis) {
      if (found.bias || layer.weights.contains("factor")) return std::nullopt;
      found.bias = layer.weights.at("bias").values;
    } else {
      // A scale behind the bias is one of both.
      const auto& mean = std::get<std::vector<double>>(layer.spec.options.at("mean"));
      const auto& deviation = std::get<std::vector<double>>(layer.spec.options.at("deviation"));
      const bool is_one = std::all_of(mean.begin(), mean.end(), [](double m) { return m == 0; }) &&
                          std::all_of(deviation.begin(), deviation.end(), [&](double d) { return d == deviation[0]; });
      if (!is_one || found.bias || found.gain) return std::nullopt;
      found.scale /= deviation[0];
    }
    at = layer.sources[0];
  }
  return std::nullopt;
}

std::optional<Stream> Operators::gated_part(const Stream& bent, const Stream& up, const std::string& label) {
  const FoundLayer* const gate = maker(bent, "activation");
  if (!gate || bent.shape != up.shape || up.chunks.size() != 1 || up.chunks[0].base < 0 || up.chunks[0].offset != 0 ||
      up.chunks[0].count != layers_.size_of(up.chunks[0].base))
    return std::nullopt;
  const std::string& name = std::get<std::string>(gate->spec.options.at("activation"));
  if (name != "silu" && name != "gelu" && name != "gelu_tanh" && name != "relu2") return std::nullopt;
  auto of_gate = projection_of(gate->sources[0]), of_up = projection_of(up.chunks[0].base);
  const auto is_plain = [](const Projection& one) { return one.scale == 1 && !one.gain; };
  if (!of_gate || !of_up || of_gate->from != of_up->from || of_gate->in != of_up->in || of_gate->out != of_up->out ||
      !is_plain(*of_gate) || !is_plain(*of_up))
    return std::nullopt;
  FoundLayer layer;
  layer.spec.type = "gated";
  layer.sources = {of_gate->from};
  layer.in = layer.out = tokens_of(up.shape);
  layer.node = label;
  layer.gated = std::make_shared<const GatedParts>(GatedParts{*std::move(of_gate), *std::move(of_up), name});
  auto made = layers_.add(std::move(layer), {}, up.shape);
  return made ? std::optional(*std::move(made)) : std::nullopt;
}

std::optional<Operators::Values> Operators::product_part(const Value& a, const Value& b, const std::string& label) {
  const auto scaled = scaled_of(a);
  const auto* const part = std::get_if<Pattern>(&b);
  if (const auto by = number_of(a); by && part) {
    auto made = scaled_part(*part, *by);
    return made ? std::optional(Values{*std::move(made)}) : std::nullopt;
  }
  if (!scaled) return std::nullopt;
  if (!part) {
    const auto *const x = std::get_if<Stream>(&a), *const y = std::get_if<Stream>(&b);
    if (!x || !y) return std::nullopt;
    auto made = gated_part(*x, *y, label);
    return made ? std::optional(Values{*std::move(made)}) : std::nullopt;
  }
  if (!is_same(*scaled->x, part->x) || part->x.chunks.empty()) return std::nullopt;
  Pattern made = *part;
  switch (part->kind) {
    case Kind::square:
      made.kind = Kind::cube;
      made.factor *= scaled->factor;
      return Values{made};
    case Kind::one_plus_square:
      made.kind = Kind::x_plus_cube;
      made.inner = part->factor, made.factor = scaled->factor;
      return Values{made};
    case Kind::one_plus_tanh:
      made.kind = Kind::x_one_plus_tanh;
      made.factor = scaled->factor;
      return Values{made};
    case Kind::inverse_root:
      if (scaled->factor != 1) return std::nullopt;
      return Values{as(*part, Kind::normed)};
    default:
      return std::nullopt;
  }
}

/// Layers of parts that are whole now.
Result<std::optional<Operators::Values>> Operators::finished_part(const Node& n, const Values& values) {
  const auto* const part = std::get_if<Pattern>(&values[0]);
  if (part && part->kind == Kind::x_one_plus_tanh && is_near(part->factor, 0.5)) {
    const Shape shape = tokens_of(part->x.shape), after = part->x.shape;
    WEFT_TRY(Values made,
             add(n, "activation", {{"activation", std::string("gelu_tanh")}}, part->x, shape, shape, after));
    return std::optional(std::move(made));
  }
  return std::optional(values);
}

Result<Operators::Values> Operators::swiglu(const Node& n, const GatedParts& parts, const FoundLayer* norm) {
  WEFT_TRY(const Constant* const down, constant(n, 1));
  const bool is_gemm = n.node.type == "Gemm";
  WEFT_TRY(const std::int64_t transposes, integer_of(n.node, "transB", 0));
  WEFT_TRY(const std::int64_t transposes_a, integer_of(n.node, "transA", 0));
  WEFT_TRY(const double alpha, real_of(n.node, "alpha", 1));
  WEFT_TRY(const double beta, real_of(n.node, "beta", 1));
  const bool is_transposed = transposes == 0;  // the matrix is [in, out]
  const std::size_t in = parts.gate.in, hidden = parts.gate.out;
  if (down->shape.size() != 2 || down->shape[is_transposed ? 0 : 1] != hidden || !is_real_type(down->type) ||
      transposes_a != 0 || alpha != 1 || beta != 1)
    return fail(Errc::unsupported, "a gated product of " + std::to_string(hidden) + " values times " +
                                       to_string(down->shape) + "; expected a matrix, without factors");
  const std::size_t out = down->shape[is_transposed ? 1 : 0], tokens = layers_.size_of(parts.gate.from) / in;
  const Constant* bias = nullptr;
  if (is_gemm && n.has(2)) {
    WEFT_TRY(bias, constant(n, 2));
    if (bias->count() != out) return fail(Errc::unsupported, "C is " + to_string(bias->shape));
  }
  FoundLayer layer;
  layer.spec.type = "swiglu";
  layer.spec.out = out;
  const bool has_bias = parts.gate.bias || parts.up.bias || bias;
  layer.spec.options = {{"hidden", static_cast<double>(hidden)}, {"gate", parts.activation}, {"bias", has_bias}};
  layer.in = tokens == 1 ? Shape{in} : Shape{tokens, in};
  layer.out = tokens == 1 ? Shape{out} : Shape{tokens, out};
  layer.node = n.label;
  layer.weights = {{"gate", parts.gate.weight}, {"up", parts.up.weight}, {"down", {*down, is_transposed}}};
  if (norm) {
    layer.spec.options["inner_norm"] = std::string("rms");
    layer.spec.options["epsilon"] = norm->spec.options.at("epsilon");
    layer.weights["inner_gain"] = norm->weights.at("gain");
  }
  const auto zeros = [](std::size_t count) { return reals("float32", {count}, std::vector<double>(count, 0)); };
  if (has_bias) {
    layer.weights["gate_bias"] = {parts.gate.bias ? *parts.gate.bias : zeros(hidden)};
    layer.weights["up_bias"] = {parts.up.bias ? *parts.up.bias : zeros(hidden)};
    layer.weights["down_bias"] = {bias ? *bias : zeros(out)};
  }
  Shape after = std::get<Stream>(n.inputs[0]).shape;
  after.back() = out;
  return one_value(layers_.add(std::move(layer), {layers_.all_of(parts.gate.from, {})}, after));
}

Result<bool> reduces_last_axis(const OperatorNode& n, std::size_t rank) {
  WEFT_TRY(auto axes, integers_of(n.node, "axes"));
  const auto* const given = !axes && n.has(1) ? std::get_if<Constant>(&n.inputs[1]) : nullptr;
  if (given) {
    WEFT_TRY(axes, integers_of(*given));
  }
  WEFT_TRY(const std::int64_t keeps, integer_of(n.node, "keepdims", 1));
  return axes && axes->size() == 1 && keeps != 0 &&
         ((*axes)[0] == -1 || (*axes)[0] == static_cast<std::int64_t>(rank) - 1);
}

Result<std::optional<Operators::Values>> Operators::known_part(const Node& n) {
  const std::string_view type = n.node.type;
  const auto none = std::optional<Values>();
  if (!n.has(0)) return none;
  const Value& a = n.inputs[0];
  const auto* const part = std::get_if<Pattern>(&a);
  // Nodes that change nothing leave a part as it is.
  if (part && (type == "Identity" || (type == "Dropout" && !n.makes(1)))) return std::optional(Values{*part});
  if (part && type == "Cast") {
    WEFT_TRY(const std::int64_t to, integer_of(n.node, "to", 0));
    if (to == 1) return std::optional(Values{*part});
  }
  WEFT_TRY(auto attended, attention_part(n));
  if (attended) return attended;
  WEFT_TRY(auto by_table, tables_.known_part(n));
  if (by_table) return by_table;
  if (type == "Tanh") {
    const Pattern* const inner = part_of(a, Kind::x_plus_cube);
    if (inner && is_near(inner->factor, kGeluRoot) && is_near(inner->inner, kGeluCube))
      return std::optional(Values{as(*inner, Kind::tanh)});
    if (const Pattern* const scaled = part_of(a, Kind::scaled)) return std::optional(Values{as(*scaled, Kind::bent)});
    return none;
  }
  if (type == "Sqrt" && part && part->kind == Kind::mean_square) return std::optional(Values{as(*part, Kind::root)});
  if (type == "Reciprocal" && part && part->kind == Kind::root)
    return std::optional(Values{as(*part, Kind::inverse_root)});
  if (type == "ReduceMean" && part && part->kind == Kind::square && part->factor == 1) {
    WEFT_TRY(const bool is_last, reduces_last_axis(n, part->x.shape.size()));
    return is_last ? std::optional(Values{as(*part, Kind::mean_square)}) : none;
  }
  if (!n.has(1)) return none;
  const Value& b = n.inputs[1];
  const auto number = number_of(b);
  if (type == "Pow" && number) {
    if (const auto* const x = std::get_if<Stream>(&a); x && *number == 3)
      return std::optional(Values{Pattern{Kind::cube, *x}});
    if (part && part->kind == Kind::mean_square && (*number == 0.5 || *number == -0.5))
      return std::optional(Values{as(*part, *number > 0 ? Kind::root : Kind::inverse_root)});
    return none;
  }
  if (type == "Div") {
    const Pattern* const root = part_of(b, Kind::root);
    if (root && number_of(a) == 1.0) return std::optional(Values{as(*root, Kind::inverse_root)});
    if (const auto* const x = std::get_if<Stream>(&a); x && root && is_same(*x, root->x))
      return std::optional(Values{as(*root, Kind::normed)});
    if (part && number && *number != 0)
      if (auto made = scaled_part(*part, 1 / *number)) return finished_part(n, Values{*std::move(made)});
    return none;
  }
  if (const auto* const x = std::get_if<Stream>(&a); x && (type == "MatMul" || type == "Gemm")) {
    const FoundLayer* const norm = maker(*x, "rms_norm");
    const FoundLayer* const gated = norm && norm->sources[0] >= 0 ? &layers_.at(norm->sources[0]) : maker(*x, "gated");
    if (!gated || !gated->gated || (norm && norm->in != gated->out)) return none;
    const GatedParts parts = *gated->gated;
    const std::optional<FoundLayer> inner = norm ? std::optional(*norm) : std::nullopt;
    WEFT_TRY(Values made, swiglu(n, parts, inner ? &*inner : nullptr));
    return std::optional(std::move(made));
  }
  if (type == "Mul") {
    for (const auto& [one_side, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      // A norm's gains.
      const Pattern* const normed = part_of(*one_side, Kind::normed);
      const auto* const gain = std::get_if<Constant>(other);
      if (normed && gain && is_real_type(gain->type) && !gain->shape.empty() && !normed->x.shape.empty() &&
          gain->count() == normed->x.shape.back() && gain->shape.back() == gain->count()) {
        const Shape shape = tokens_of(normed->x.shape), after = normed->x.shape;
        Constant own = *gain;
        own.shape = {gain->count()};
        WEFT_TRY(Values made, add(n, "rms_norm", {{"epsilon", normed->epsilon}}, normed->x, shape, shape, after,
                                  {{"gain", {std::move(own)}}}));
        return std::optional(std::move(made));
      }
      const Pattern* const bent = part_of(*one_side, Kind::bent);
      const auto cap = number_of(*other);
      if (bent && cap && is_near(*cap * bent->factor, 1)) {
        const Shape seen = tokens_of(bent->x.shape), after = bent->x.shape;
        WEFT_TRY(Values made, add(n, "soft_cap", {{"cap", *cap}}, bent->x, seen, seen, after));
        return std::optional(std::move(made));
      }
      if (auto made = product_part(*one_side, *other, n.label)) return finished_part(n, *made);
    }
    return none;
  }
  if (type == "Add")
    for (const auto& [one_side, other] : {std::pair(&a, &b), std::pair(&b, &a)})
      if (auto made = sum_part(*one_side, *other)) return made;
  return none;
}

}  // namespace weft::models::onnx
