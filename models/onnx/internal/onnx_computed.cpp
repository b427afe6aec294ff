// SPDX-License-Identifier: Apache-2.0

// Operators whose operands are known before the network runs: sizes, places and conditions, and weights in parts.

#include "models/onnx/internal/onnx_constant.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace weft::models::onnx {
namespace {

using formats::OnnxNode;
using Integers = std::vector<std::int64_t>;
using Reals = std::vector<double>;
constexpr std::int64_t kFarthest = std::int64_t{1} << 40;  // a diagonal that is past all

Failure cannot(const OnnxNode& node) {
  return fail(Errc::unsupported, "operator " + node.type + " of values that are known before the network runs");
}

/// The shape that two spread to. @error corrupt: they do not
Result<Shape> spread(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  const auto at = [&](const Shape& of, std::size_t i) {
    return i + of.size() < shape.size() ? 1 : of[i + of.size() - shape.size()];
  };
  std::size_t count = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t own = at(a, i), other = at(b, i);
    if (own != other && own != 1 && other != 1) return fail(Errc::corrupt, to_string(a) + " with " + to_string(b));
    shape[i] = own == 1 ? other : own;
    if (shape[i] != 0 && count > kMostFolded / shape[i])
      return fail(Errc::too_large, "a value of " + to_string(a) + " and " + to_string(b));
    count *= shape[i];
  }
  return shape;
}

/// Places of a value spread to a shape.
std::vector<std::size_t> spread_places(const Shape& from, const Shape& to) {
  std::vector<std::size_t> places{0};
  std::size_t stride = 1;
  for (const std::size_t extent : from) stride *= extent;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t own = i + from.size() < to.size() ? 1 : from[i + from.size() - to.size()];
    if (i + from.size() >= to.size()) stride = own == 0 ? 0 : stride / own;
    std::vector<std::size_t> next;
    next.reserve(places.size() * to[i]);
    for (const std::size_t before : places)
      for (std::size_t k = 0; k < to[i]; ++k) next.push_back(before + (own == 1 ? 0 : k * stride));
    places = std::move(next);
  }
  return places;
}

template <class Value, class Out, class Function>
std::vector<Out> paired(const std::vector<Value>& a, const Shape& a_shape, const std::vector<Value>& b,
                        const Shape& b_shape, const Shape& shape, const Function& function) {
  const auto of_a = spread_places(a_shape, shape), of_b = spread_places(b_shape, shape);
  std::vector<Out> values(of_a.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = function(a[of_a[i]], b[of_b[i]]);
  return values;
}

std::int64_t wrapped(std::uint64_t value) { return static_cast<std::int64_t>(value); }

/// A function of two whole numbers, or null. Division by 0 was looked for before.
std::int64_t (*integer_function(std::string_view type))(std::int64_t, std::int64_t) {
  using I = std::int64_t;
  using U = std::uint64_t;
  if (type == "Add") return [](I a, I b) { return wrapped(static_cast<U>(a) + static_cast<U>(b)); };
  if (type == "Sub") return [](I a, I b) { return wrapped(static_cast<U>(a) - static_cast<U>(b)); };
  if (type == "Mul") return [](I a, I b) { return wrapped(static_cast<U>(a) * static_cast<U>(b)); };
  if (type == "Div") return [](I a, I b) { return b == -1 ? wrapped(-static_cast<U>(a)) : a / b; };
  if (type == "Mod")
    return [](I a, I b) {
      const I rest = b == -1 ? 0 : a % b;
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    };
  if (type == "Min") return [](I a, I b) { return std::min(a, b); };
  if (type == "Max") return [](I a, I b) { return std::max(a, b); };
  return nullptr;
}
double (*real_function(std::string_view type))(double, double) {
  if (type == "Add") return [](double a, double b) { return a + b; };
  if (type == "Sub") return [](double a, double b) { return a - b; };
  if (type == "Mul") return [](double a, double b) { return a * b; };
  if (type == "Div") return [](double a, double b) { return a / b; };
  if (type == "Pow") return [](double a, double b) { return std::pow(a, b); };
  if (type == "Min") return [](double a, double b) { return std::min(a, b); };
  if (type == "Max") return [](double a, double b) { return std::max(a, b); };
  return nullptr;
}
template <class Value>
bool (*comparison(std::string_view type))(Value, Value) {
  if (type == "Equal") return [](Value a, Value b) { return a == b; };
  if (type == "Greater") return [](Value a, Value b) { return a > b; };
  if (type == "Less") return [](Value a, Value b) { return a < b; };
  if (type == "GreaterOrEqual") return [](Value a, Value b) { return a >= b; };
  if (type == "LessOrEqual") return [](Value a, Value b) { return a <= b; };
  if (type == "And") return [](Value a, Value b) { return a != 0 && b != 0; };
  if (type == "Or") return [](Value a, Value b) { return a != 0 || b != 0; };
  return nullptr;
}

Result<Constant> of_integers(const OnnxNode& node, const Constant& a, const Constant& b, const Shape& shape) {
  WEFT_TRY(const Integers x, integers_of(a));
  WEFT_TRY(const Integers y, integers_of(b));
  if (const auto compare = comparison<std::int64_t>(node.type))
    return integers("BOOL", shape, paired<std::int64_t, std::int64_t>(x, a.shape, y, b.shape, shape, compare));
  const auto function = integer_function(node.type);
  if (!function) return cannot(node);
  if ((node.type == "Div" || node.type == "Mod") && std::find(y.begin(), y.end(), 0) != y.end())
    return fail(Errc::corrupt, "a division by 0");
  return integers(a.type, shape, paired<std::int64_t, std::int64_t>(x, a.shape, y, b.shape, shape, function));
}
Result<Constant> of_reals(const OnnxNode& node, const Constant& a, const Constant& b, const Shape& shape) {
  WEFT_TRY(const Reals x, reals_of(a));
  WEFT_TRY(const Reals y, reals_of(b));
  if (const auto compare = comparison<double>(node.type))
    return integers("BOOL", shape, paired<double, std::int64_t>(x, a.shape, y, b.shape, shape, compare));
  const auto function = real_function(node.type);
  if (!function) return cannot(node);
  return reals(a.type, shape, paired<double, double>(x, a.shape, y, b.shape, shape, function));
}

Result<Constant> of_two(const OnnxNode& node, const Constant& a, const Constant& b) {
  if (a.type != b.type && is_integer_type(a.type) != is_integer_type(b.type))
    return fail(Errc::corrupt, a.type + " with " + b.type);
  WEFT_TRY(const Shape shape, spread(a.shape, b.shape));
  return is_integer_type(a.type) ? of_integers(node, a, b, shape) : of_reals(node, a, b, shape);
}

Result<Constant> of_one(const OnnxNode& node, const Constant& a) {
  if (node.type == "Not") {
    WEFT_TRY(Integers values, integers_of(a));
    for (std::int64_t& value : values) value = value == 0;
    return integers("BOOL", a.shape, values);
  }
  if (is_integer_type(a.type)) {
    WEFT_TRY(Integers values, integers_of(a));
    for (std::int64_t& value : values) {
      if (node.type == "Neg")
        value = wrapped(-static_cast<std::uint64_t>(value));
      else if (node.type == "Abs" && value < 0)
        value = wrapped(-static_cast<std::uint64_t>(value));
      else if (node.type != "Abs")
        return cannot(node);
    }
    return integers(a.type, a.shape, values);
  }
  double (*function)(double) = nullptr;
  if (node.type == "Neg") function = [](double v) { return -v; };
  if (node.type == "Abs") function = [](double v) { return std::fabs(v); };
  if (node.type == "Sqrt") function = [](double v) { return std::sqrt(v); };
  if (node.type == "Cos") function = [](double v) { return std::cos(v); };
  if (node.type == "Sin") function = [](double v) { return std::sin(v); };
  if (node.type == "Reciprocal") function = [](double v) { return 1 / v; };
  if (node.type == "Exp") function = [](double v) { return std::exp(v); };
  if (node.type == "Log") function = [](double v) { return std::log(v); };
  if (node.type == "Floor") function = [](double v) { return std::floor(v); };
  if (node.type == "Ceil") function = [](double v) { return std::ceil(v); };
  if (!function) return cannot(node);
  WEFT_TRY(Reals values, reals_of(a));
  std::transform(values.begin(), values.end(), values.begin(), function);
  return reals(a.type, a.shape, values);
}

Result<Constant> cast(const OnnxNode& node, const Constant& a) {
  WEFT_TRY(const std::int64_t number, integer_of(node, "to", 0));
  const formats::OnnxType* const to = formats::find_onnx_type(number);
  if (!to || (!is_integer_type(to->name) && !is_real_type(to->name))) return cannot(node);
  const std::string type(to->name);
  if (is_integer_type(a.type)) {
    WEFT_TRY(Integers values, integers_of(a));
    if (is_integer_type(type)) {
      if (type == "BOOL")
        for (std::int64_t& value : values) value = value != 0;
      return integers(type, a.shape, values);
    }
    return reals(type, a.shape, Reals(values.begin(), values.end()));
  }
  WEFT_TRY(const Reals values, reals_of(a));
  if (is_real_type(type)) return reals(type, a.shape, values);
  Integers whole;
  for (const double value : values) {
    if (!(std::fabs(value) < 9.2e18)) return fail(Errc::corrupt, std::to_string(value) + " as a whole number");
    whole.push_back(type == "BOOL" ? value != 0 : static_cast<std::int64_t>(value));
  }
  return integers(type, a.shape, whole);
}

Result<Constant> constant_node(const OnnxNode& node) {
  for (const auto& [key, value] : node.attributes) {
    if (const auto* tensor = std::get_if<formats::Tensor>(&value))
      return Constant{tensor->type, tensor->shape, tensor->bytes};
    if (const auto* number = std::get_if<float>(&value))
      return reals("float32", {}, Reals{static_cast<double>(*number)});
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return integers("int64", {}, Integers{*whole});
    if (const auto* wholes = std::get_if<Integers>(&value)) return integers("int64", {wholes->size()}, *wholes);
    if (const auto* numbers = std::get_if<std::vector<float>>(&value))
      return reals("float32", {numbers->size()}, Reals(numbers->begin(), numbers->end()));
  }
  return fail(Errc::unsupported, "a constant without numbers");
}

Result<Constant> filled(const OnnxNode& node, const Constant& wanted) {
  WEFT_TRY(const Integers extents, integers_of(wanted));
  Shape shape;
  std::size_t count = 1;
  for (const std::int64_t extent : extents) {
    if (extent < 0 || static_cast<std::uint64_t>(extent) > kMostFolded || shape.size() == 16)
      return fail(Errc::corrupt, "a shape with " + std::to_string(extent));
    shape.push_back(static_cast<std::size_t>(extent));
    if (extent != 0 && count > kMostFolded / shape.back()) return fail(Errc::too_large, "a value " + to_string(shape));
    count *= shape.back();
  }
  const formats::OnnxValue* const given = node.find("value");
  const auto* const tensor = given ? std::get_if<formats::Tensor>(given) : nullptr;
  if (given && !tensor) return fail(Errc::corrupt, "attribute 'value' is no tensor");
  if (!tensor) return reals("float32", shape, Reals(count, 0));
  const Constant value{tensor->type, tensor->shape, tensor->bytes};
  if (value.count() != 1) return fail(Errc::corrupt, "a value of " + std::to_string(value.count()) + " numbers");
  if (is_integer_type(value.type)) {
    WEFT_TRY(const Integers one, integers_of(value));
    return integers(value.type, shape, Integers(count, one[0]));
  }
  WEFT_TRY(const Reals one, reals_of(value));
  return reals(value.type, shape, Reals(count, one[0]));
}

Result<Constant> range(const Constant& start, const Constant& limit, const Constant& delta) {
  WEFT_TRY(const Integers begin, integers_of(start));
  WEFT_TRY(const Integers end, integers_of(limit));
  WEFT_TRY(const Integers step, integers_of(delta));
  if (begin.size() != 1 || end.size() != 1 || step.size() != 1 || step[0] == 0) return fail(Errc::corrupt, "no range");
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  if (std::abs(begin[0] / 2) > kFar || std::abs(end[0] / 2) > kFar || std::abs(step[0] / 2) > kFar)
    return fail(Errc::too_large, "a range over " + std::to_string(end[0]));
  Integers values;
  for (std::int64_t v = begin[0]; step[0] > 0 ? v < end[0] : v > end[0]; v += step[0]) {
    if (values.size() == kMostFolded)
      return fail(Errc::too_large, "a range of more than " + std::to_string(kMostFolded));
    values.push_back(v);
  }
  return integers(start.type, {values.size()}, values);
}

/// A product of matrices, with axes in front that spread.
Result<Constant> product(const Constant& a, const Constant& b) {
  if (a.shape.size() < 2 || b.shape.size() < 2 || a.shape.back() != b.shape[b.shape.size() - 2])
    return fail(Errc::unsupported, to_string(a.shape) + " times " + to_string(b.shape));
  const std::size_t rows = a.shape[a.shape.size() - 2], inner = a.shape.back(), columns = b.shape.back();
  const Shape of_a(a.shape.begin(), a.shape.end() - 2), of_b(b.shape.begin(), b.shape.end() - 2);
  WEFT_TRY(Shape shape, spread(of_a, of_b));
  const auto place_a = spread_places(of_a, shape), place_b = spread_places(of_b, shape);
  if (rows * columns != 0 && place_a.size() * std::max<std::size_t>(inner, 1) > kMostFolded / (rows * columns))
    return fail(Errc::too_large, to_string(a.shape) + " times " + to_string(b.shape));
  WEFT_TRY(const Reals x, reals_of(a));
  WEFT_TRY(const Reals y, reals_of(b));
  Reals values;
  for (std::size_t m = 0; m < place_a.size(); ++m)
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < inner; ++k)
          sum += x[(place_a[m] * rows + i) * inner + k] * y[(place_b[m] * inner + k) * columns + j];
        values.push_back(sum);
      }
  shape.push_back(rows), shape.push_back(columns);
  return reals(a.type, shape, values);
}

/// The upper or lower triangle of matrices, zeros else.
Result<Constant> triangle(const OnnxNode& node, const Constant& a, std::int64_t diagonal) {
  WEFT_TRY(const std::int64_t is_upper, integer_of(node, "upper", 1));
  if (a.shape.size() < 2) return fail(Errc::corrupt, "a triangle of " + to_string(a.shape));
  const std::size_t columns = a.shape.back(), rows = a.shape[a.shape.size() - 2];
  const auto cut = [&](auto values) {
    for (std::size_t e = 0; e < values.size(); ++e) {
      const auto i = static_cast<std::int64_t>(e / columns % rows), j = static_cast<std::int64_t>(e % columns);
      if (is_upper != 0 ? j - i < diagonal : j - i > diagonal) values[e] = 0;
    }
    return values;
  };
  if (is_integer_type(a.type)) {
    WEFT_TRY(const Integers values, integers_of(a));
    return integers(a.type, a.shape, cut(values));
  }
  WEFT_TRY(const Reals values, reals_of(a));
  return reals(a.type, a.shape, cut(values));
}

Result<Constant> where(const Constant& condition, const Constant& a, const Constant& b) {
  WEFT_TRY(Shape shape, spread(a.shape, b.shape));
  WEFT_TRY(shape, spread(shape, condition.shape));
  WEFT_TRY(const Integers chosen, integers_of(condition));
  const auto of_condition = spread_places(condition.shape, shape), of_a = spread_places(a.shape, shape),
             of_b = spread_places(b.shape, shape);
  const auto pick = [&](const auto& x, const auto& y) {
    auto values = x;
    values.resize(of_a.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = chosen[of_condition[i]] != 0 ? x[of_a[i]] : y[of_b[i]];
    return values;
  };
  if (is_integer_type(a.type)) {
    WEFT_TRY(const Integers x, integers_of(a));
    WEFT_TRY(const Integers y, integers_of(b));
    return integers(a.type, shape, pick(x, y));
  }
  WEFT_TRY(const Reals x, reals_of(a));
  WEFT_TRY(const Reals y, reals_of(b));
  return reals(a.type, shape, pick(x, y));
}

/// x = (q - zero) scale: scale for all, for each place of an axis, or for each block of it.
Result<Constant> dequantized(const OnnxNode& node, std::span<const Operand> operands) {
  const Constant &q = *operands[0].constant, &scale = *operands[1].constant;
  if (q.type == "int64" || q.type == "uint64") return cannot(node);
  WEFT_TRY(const Integers codes, integers_of(q));
  WEFT_TRY(const Reals scales, reals_of(scale));
  Integers zeros(scales.size(), 0);
  if (operands.size() > 2 && operands[2].constant) {
    WEFT_TRY(zeros, integers_of(*operands[2].constant));
  }
  if (scales.empty() || zeros.size() != scales.size())
    return fail(Errc::corrupt, "scales and zero points of different numbers");
  WEFT_TRY(const std::int64_t block, integer_of(node, "block_size", 0));
  WEFT_TRY(const std::int64_t named, integer_of(node, "axis", 1));
  if (block < 0) return fail(Errc::corrupt, "blocks of " + std::to_string(block));
  const auto per_block = static_cast<std::size_t>(block);
  std::size_t inner = 1, extent = 1, per_scale = 1;
  if (scales.size() > 1) {
    WEFT_TRY(const std::size_t axis, axis_of(named, q.shape.size()));
    extent = q.shape[axis];
    for (std::size_t i = axis + 1; i < q.shape.size(); ++i) inner *= q.shape[i];
    per_scale = block > 0 ? static_cast<std::size_t>(block) : 1;
    const std::size_t groups = (extent + per_scale - 1) / per_scale;
    const std::size_t wanted = block > 0 ? codes.size() / std::max<std::size_t>(extent, 1) * groups : extent;
    if (scales.size() != wanted)
      return fail(Errc::corrupt, std::to_string(scales.size()) + " scales, expected " + std::to_string(wanted));
  }
  Reals values(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t at = i / inner % extent, outer = i / inner / extent;
    std::size_t s = 0;
    if (scales.size() > 1)
      s = block > 0 ? (outer * ((extent + per_scale - 1) / per_scale) + at / per_scale) * inner + i % inner : at;
    values[i] = static_cast<double>(static_cast<float>(codes[i] - zeros[s]) * static_cast<float>(scales[s]));
  }
  Constant made = reals("float32", q.shape, values);
  const bool is_stored = q.type == "int8" || q.type == "uint8" || q.type == "int4" || q.type == "uint4";
  if (q.shape.size() != 2 || !is_stored || scale.type != "float32") return made;
  QuantizedMatrix matrix{q.type, {codes.begin(), codes.end()}, {zeros.begin(), zeros.end()}, {}, 0, per_block};
  for (const double one : scales) matrix.scales.push_back(static_cast<float>(one));
  if (scales.size() > 1) {
    WEFT_TRY(matrix.axis, axis_of(named, q.shape.size()));
  }
  made.quantized = std::make_shared<const QuantizedMatrix>(std::move(matrix));
  return made;
}

/// A sum or product of whole numbers over axes.
Result<Constant> reduced(const OnnxNode& node, const Constant& a, const Constant* given) {
  WEFT_TRY(auto axes, integers_of(node, "axes"));
  WEFT_TRY(const std::int64_t keeps, integer_of(node, "keepdims", 1));
  WEFT_TRY(const std::int64_t stays, integer_of(node, "noop_with_empty_axes", 0));
  if (given) {
    WEFT_TRY(axes, integers_of(*given));
  }
  const bool is_without = !axes || axes->empty();
  if (is_without && stays != 0) return a;
  std::vector<bool> goes(a.shape.size(), is_without);
  for (const std::int64_t named : axes.value_or(Integers())) {
    WEFT_TRY(const std::size_t axis, axis_of(named, a.shape.size()));
    goes[axis] = true;
  }
  Shape left, after;
  for (std::size_t i = 0; i < goes.size(); ++i) {
    left.push_back(goes[i] ? 1 : a.shape[i]);
    if (!goes[i] || keeps != 0) after.push_back(left.back());
  }
  const bool is_sum = node.type == "ReduceSum";
  WEFT_TRY(const Integers values, integers_of(a));
  const auto places = spread_places(left, a.shape);
  Integers made(elements_of(left), is_sum ? 0 : 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto one = static_cast<std::uint64_t>(made[places[i]]), other = static_cast<std::uint64_t>(values[i]);
    made[places[i]] = wrapped(is_sum ? one + other : one * other);
  }
  return integers(a.type, after, made);
}

}  // namespace

bool is_computed(std::string_view type) noexcept {
  constexpr std::string_view kTypes[] = {"Abs",
                                         "And",
                                         "Cast",
                                         "Ceil",
                                         "Constant",
                                         "ConstantOfShape",
                                         "Cos",
                                         "DequantizeLinear",
                                         "Equal",
                                         "Exp",
                                         "Floor",
                                         "Greater",
                                         "If",
                                         "Less",
                                         "GreaterOrEqual",
                                         "LessOrEqual",
                                         "Log",
                                         "Min",
                                         "Mod",
                                         "Neg",
                                         "Not",
                                         "Or",
                                         "Range",
                                         "Reciprocal",
                                         "ReduceProd",
                                         "ReduceSum",
                                         "Shape",
                                         "Sin",
                                         "Size",
                                         "Trilu",
                                         "Where"};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

Result<Constant> computed(const OnnxNode& node, std::span<const Operand> operands, std::int64_t opset) {
  if (node.type == "Constant") return constant_node(node);
  std::vector<const Constant*> given;
  for (const Operand& operand : operands)
    if (operand.shape) given.push_back(operand.constant);
  const std::size_t count = given.size();
  if (count == 0) return cannot(node);
  if (is_move(node.type) && node.type != "Split") {
    WEFT_TRY(const std::vector<Moved> moves, moves_of(node, operands, opset));
    return moved(moves[0], operands, moved_operands(node));
  }
  if (node.type == "Cast") return cast(node, *given[0]);
  if (node.type == "ConstantOfShape") return filled(node, *given[0]);
  if (node.type == "ReduceProd" || node.type == "ReduceSum")
    return reduced(node, *given[0], count > 1 ? given[1] : nullptr);
  if (node.type == "DequantizeLinear" && count >= 2) return dequantized(node, operands);
  if (count == 2 && node.type == "MatMul") return product(*given[0], *given[1]);
  if (node.type == "Trilu") {
    Integers diagonal{0};
    if (count == 2) {
      WEFT_TRY(diagonal, integers_of(*given[1]));
    }
    if (diagonal.size() != 1) return fail(Errc::corrupt, "a diagonal of several numbers");
    return triangle(node, *given[0], std::clamp<std::int64_t>(diagonal[0], -kFarthest, kFarthest));
  }
  if (count == 3 && node.type == "Range") return range(*given[0], *given[1], *given[2]);
  if (count == 3 && node.type == "Where") return where(*given[0], *given[1], *given[2]);
  if (count == 2) return of_two(node, *given[0], *given[1]);
  if (count == 1) return of_one(node, *given[0]);
  return cannot(node);
}

}  // namespace weft::models::onnx
