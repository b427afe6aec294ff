// SPDX-License-Identifier: Apache-2.0

// Sums, products and functions that a few of them make.

#include "models/onnx/internal/onnx_operators.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::models::onnx {

using Kind = Pattern::Kind;

namespace {

bool is_about(double value, double wanted) { return std::fabs(value - wanted) <= 1e-6 * std::fabs(wanted); }

}  // namespace

Result<Operators::Values> Operators::sum_of_squares_root(const Node& n) {
  const auto* const pattern = n.has(0) ? std::get_if<Pattern>(&n.inputs[0]) : nullptr;
  if (!pattern || pattern->kind != Kind::sum_of_squares)
    return fail(Errc::unsupported, "no layer does it, but of a sum of two squares");
  // One behind the other they are a layer's halves, or are put so.
  const std::size_t count = elements_of(pattern->x.shape);
  Stream both{{2 * count}, pattern->x.chunks};
  for (const Chunk& chunk : pattern->other.chunks) {
    Chunk& last = both.chunks.back();
    if (last.base == chunk.base && last.offset + last.count == chunk.offset)
      last.count += chunk.count;
    else
      both.chunks.push_back(chunk);
  }
  Shape seen{2, count}, made{1, count};
  if (both.chunks.size() == 1 && both.chunks[0].base >= 0) {
    const Shape& of = layers_.shape_of(both.chunks[0].base);
    if (elements_of(of) == 2 * count && of.front() % 2 == 0) {
      seen = made = of;
      made.front() /= 2;
    }
  }
  return add(n, "magnitude", {}, std::move(both), seen, made, pattern->x.shape);
}

Result<Operators::Values> Operators::combined(const Node& n, const char* type, mesh::Combine combine) {
  FoundLayer layer;
  std::vector<Stream> sources;
  for (std::size_t i = 0; i < n.inputs.size(); ++i) {
    WEFT_TRY(sources.emplace_back(), stream(n, i));
    if (sources.back().shape != sources[0].shape)
      return fail(Errc::unsupported,
                  to_string(sources.back().shape) + " with " + to_string(sources[0].shape) + "; shapes must be equal");
  }
  if (sources.size() == 1) return Values{sources[0]};
  // As the layers make them, where that is one shape; else as vectors.
  std::vector<std::int32_t> bases;
  for (const Stream& source : sources) {
    WEFT_TRY(bases.emplace_back(), layers_.whole(source, n.label));
  }
  const Shape common = layers_.shape_of(bases[0]);
  const bool has_one =
      std::all_of(bases.begin(), bases.end(), [&](std::int32_t base) { return layers_.shape_of(base) == common; });
  const std::size_t count = elements_of(sources[0].shape);
  if (!has_one)
    for (std::int32_t& base : bases) {
      if (layers_.shape_of(base).size() == 1) continue;
      FoundLayer flat;
      flat.spec.type = "identity";
      flat.in = flat.out = {count};
      flat.node = n.label;
      WEFT_TRY(const Stream made, layers_.add(std::move(flat), {layers_.all_of(base, {count})}, {count}));
      base = made.chunks[0].base;
    }
  layer.spec.type = type;
  layer.spec.combine = combine;
  layer.in = layer.out = has_one ? common : Shape{count};
  layer.node = n.label;
  std::vector<Stream> streams;
  for (const std::int32_t base : bases) streams.push_back(layers_.all_of(base, {count}));
  return one_value(layers_.add(std::move(layer), std::move(streams), sources[0].shape));
}

Result<Operators::Values> Operators::arithmetic(const Node& n) {
  const std::string_view type = n.node.type;
  if (type == "Erf") {
    if (!n.has(0)) return fail(Errc::corrupt, "input 0 is not given");
    if (const auto* pattern = std::get_if<Pattern>(&n.inputs[0]);
        pattern && pattern->kind == Kind::scaled && is_about(pattern->factor, std::sqrt(0.5)))
      return Values{Pattern{Kind::erf, pattern->x}};
    return fail(Errc::unsupported, "no layer does it, but within gelu");
  }
  if (!n.has(0) || !n.has(1)) return fail(Errc::corrupt, "two inputs are needed");
  const Value &a = n.inputs[0], &b = n.inputs[1];
  if (const auto* known = std::get_if<Constant>(&b)) return with_constant(n, a, *known, true);
  if (const auto* known = std::get_if<Constant>(&a)) return with_constant(n, b, *known, false);
  if (type == "Mul") return product(n, a, b);
  if (type != "Add") return fail(Errc::unsupported, "no layer does it of two values that change");
  const auto *p = std::get_if<Pattern>(&a), *q = std::get_if<Pattern>(&b);
  if (p && q && p->kind == Kind::square && q->kind == Kind::square && p->factor == 1 && q->factor == 1 &&
      p->x.shape == q->x.shape)
    return Values{Pattern{Kind::sum_of_squares, p->x, q->x}};
  return combined(n, "residual", mesh::Combine::add);
}

Result<Operators::Values> Operators::with_constant(const Node& n, const Value& value, const Constant& known,
                                                   bool is_second) {
  const std::string_view type = n.node.type;
  const std::optional<double> scalar = scalar_of(known);
  const auto* const pattern = std::get_if<Pattern>(&value);
  if (pattern && pattern->kind == Kind::erf && type == "Add" && scalar == 1.0)
    return Values{Pattern{Kind::one_plus_erf, pattern->x}};
  if (pattern && pattern->kind == Kind::x_one_plus_erf &&
      ((type == "Mul" && scalar == 0.5) || (type == "Div" && is_second && scalar == 2.0))) {
    const Shape shape = tokens_of(pattern->x.shape);
    return add(n, "activation", {{"activation", std::string("gelu")}}, pattern->x, shape, shape, pattern->x.shape);
  }
  WEFT_TRY(Stream x, stream_of(n, value));
  if (type == "Pow") {
    if (!is_second || scalar != 2.0) return fail(Errc::unsupported, "no layer does it, but a square");
    return Values{Pattern{Kind::square, std::move(x)}};
  }
  if (is_second || type == "Mul") {
    if (type == "Mul" && scalar) {
      Pattern scaled{Kind::scaled, std::move(x), {}, *scalar};
      if (*scalar > 0 && maker(scaled.x, "embedding")) return one_value(stream_of(n, scaled));
      return Values{std::move(scaled)};
    }
    if (type == "Div" && scalar && *scalar != 0) return Values{Pattern{Kind::scaled, std::move(x), {}, 1.0 / *scalar}};
  }
  if (type == "Div" || (type == "Sub" && !is_second))
    return fail(Errc::unsupported, "no layer does it with this constant");
  if (type == "Add" && is_real_type(known.type) && x.shape.size() > 1 && known.count() == elements_of(x.shape) &&
      tokens_of(x.shape).size() == 2 && !places_within(known.shape, x.shape).empty())
    return added_positions(n, std::move(x), known);
  // A number for each value of the last axis.
  const Shape seen = tokens_of(x.shape);
  if (!is_real_type(known.type) ||
      (known.count() != 1 && (known.count() != seen.back() || known.shape.back() != seen.back())))
    return fail(Errc::unsupported, "a constant " + to_string(known.shape) + " with " + to_string(x.shape) +
                                       "; only one number, or one for each value of the last axis");
  WEFT_TRY(std::vector<double> numbers, reals_of(known));
  if (numbers.size() == 1) numbers.assign(seen.back(), numbers[0]);
  const Shape after = x.shape;
  if (type == "Mul") {
    for (double& number : numbers) {
      if (!(number > 0)) return fail(Errc::unsupported, "factors that are not above 0");
      number = 1.0 / number;
    }
    return add(n, "standardize", {{"mean", std::vector<double>(numbers.size(), 0.0)}, {"deviation", numbers}},
               std::move(x), seen, seen, after);
  }
  FoundLayer layer;
  layer.part = FoundLayer::Part::last_axis;
  layer.in = layer.out = seen;
  layer.node = n.label;
  Constant summand = known;
  summand.shape = {seen.back()};
  std::vector<double> mean = numbers;
  if (type == "Add") {
    for (double& number : mean) number = 0.0 - number;
    if (known.count() != seen.back()) summand = reals("float32", {seen.back()}, numbers);
  } else {
    for (double& number : numbers) number = 0.0 - number;
    summand = reals("float32", {seen.back()}, numbers);
  }
  layer.weights["bias"] = {std::move(summand)};
  layer.spec.type = "standardize";
  layer.spec.options = {{"mean", mean}, {"deviation", std::vector<double>(mean.size(), 1.0)}};
  return one_value(layers_.add(std::move(layer), {std::move(x)}, after));
}

Result<Operators::Values> Operators::product(const Node& n, const Value& a, const Value& b) {
  const auto *p = std::get_if<Pattern>(&a), *q = std::get_if<Pattern>(&b);
  const auto *x = std::get_if<Stream>(&a), *y = std::get_if<Stream>(&b);
  if (q && x && q->kind == Kind::one_plus_erf && is_same(*x, q->x)) return Values{Pattern{Kind::x_one_plus_erf, q->x}};
  if (p && y && p->kind == Kind::one_plus_erf && is_same(*y, p->x)) return Values{Pattern{Kind::x_one_plus_erf, p->x}};
  for (const auto& [half, erf] : {std::pair{p, q}, std::pair{q, p}})
    if (half && erf && half->kind == Kind::scaled && half->factor == 0.5 && erf->kind == Kind::one_plus_erf &&
        is_same(half->x, erf->x)) {
      const Shape shape = tokens_of(erf->x.shape);
      return add(n, "activation", {{"activation", std::string("gelu")}}, erf->x, shape, shape, erf->x.shape);
    }
  if (!x || !y || x->shape != y->shape)
    return fail(Errc::unsupported, "a product of two values that change, of which none is a sigmoid");
  if (is_same(*x, *y)) {
    if (const FoundLayer* const relu = maker(*x, "activation");
        relu && std::get<std::string>(relu->spec.options.at("activation")) == "relu") {
      const Shape seen = relu->in;
      Stream before = layers_.all_of(relu->sources[0], x->shape);
      return add(n, "activation", {{"activation", std::string("relu2")}}, std::move(before), seen, seen, x->shape);
    }
    return Values{Pattern{Kind::square, *x}};
  }
  for (const auto& [value, gate] : {std::pair{x, y}, std::pair{y, x}}) {
    const FoundLayer* const sigmoid = maker(*gate, "activation");
    if (!sigmoid || std::get<std::string>(sigmoid->spec.options.at("activation")) != "sigmoid") continue;
    const std::int32_t base = sigmoid->sources[0];
    if (value->chunks.size() == 1 && value->chunks[0].base == base && value->chunks[0].count == layers_.size_of(base)) {
      const Shape seen = sigmoid->in;
      return add(n, "activation", {{"activation", std::string("silu")}}, *value, seen, seen, value->shape);
    }
    WEFT_TRY(const std::int32_t first, layers_.whole(*value, n.label));
    if (layers_.shape_of(first) != layers_.shape_of(base)) return fail(Errc::unsupported, "a gate of another shape");
    FoundLayer layer;
    layer.spec.type = "identity";
    layer.spec.combine = mesh::Combine::gate;
    layer.in = layer.out = layers_.shape_of(base);
    layer.node = n.label;
    const Stream of_gate = layers_.all_of(base, value->shape), of_value = layers_.all_of(first, value->shape);
    return one_value(layers_.add(std::move(layer), {of_value, of_gate}, value->shape));
  }
  return fail(Errc::unsupported, "a product of two values that change, of which none is a sigmoid");
}

}  // namespace weft::models::onnx
