// SPDX-License-Identifier: Apache-2.0

// Inputs of matrices as int8: q = Round(x (127 / m)) with m = Max(ReduceMax(Abs(x)), least) over a row or a block of
// it, then q times a matrix times m / 127, or q m / 127 times it (docs/numerics.md, section 10).

#include "models/onnx/internal/onnx_operators.hpp"

#include "kernels/quantize_rows.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::models::onnx {

using Kind = Pattern::Kind;
using Values = std::vector<Value>;

namespace {

constexpr float kLeastOfBlock = 0x1p-100f;

/// True for the step of values that are divided by no less than a number.
bool is_step_of(const Pattern& step, const Stream& x, double least) {
  return step.epsilon == least && step.x.shape == x.shape && is_same(step.x, x);
}

/// True where rows are their blocks one after the other, the last one with zeros behind.
bool is_in_blocks(const Stream& rows, const Stream& blocks) {
  const std::size_t in = rows.shape.back(), block = blocks.shape.back(), of_row = (in + block - 1) / block * block;
  if (in % block == 0) return elements_of(rows.shape) == elements_of(blocks.shape) && is_same(rows, blocks);
  Moved padded{{elements_of(rows.shape) / in * of_row}}, own{{elements_of(blocks.shape)}};
  if (padded.shape != own.shape || own.shape[0] > kMostFolded) return false;
  for (std::size_t i = 0; i < own.shape[0]; ++i) {
    own.places.push_back(static_cast<std::int64_t>(i));
    padded.places.push_back(i % of_row < in ? static_cast<std::int64_t>(i / of_row * in + i % of_row) : -1);
  }
  return is_same(moved_stream(padded, {&rows}), moved_stream(own, {&blocks}));
}

/// @error unsupported: no type of Weft's has such inputs
Result<Activations> inputs_of(const Pattern& part) {
  const std::size_t in = part.x.shape.back(), block = part.other.shape.back();
  const auto least = static_cast<float>(part.epsilon);
  if (block == in && least == kernels::kLeastOfRow) return Activations::int8_row;
  if ((block == kScaleBlock || (block == in && in < kScaleBlock)) && least == kLeastOfBlock &&
      is_in_blocks(part.x, part.other))
    return Activations::int8;
  return fail(Errc::unsupported, "inputs of int8 with a scale for " + std::to_string(block) + " of " +
                                     std::to_string(in) + " values, divided by " + std::to_string(part.epsilon) +
                                     " at least; only all of a row with 1e-5, or 32 with 2^-100");
}

/// The narrowest type that has these numbers.
std::string_view type_of(const std::vector<double>& numbers) {
  double largest = 0;
  bool has_zeros = false;
  for (const double number : numbers) {
    if (number != std::rint(number)) return "";
    largest = std::max(largest, std::fabs(number));
    has_zeros |= number == 0;
  }
  if (largest <= 1) return has_zeros ? "ternary" : "binary";
  return largest <= 7 ? "int4" : largest <= 127 ? "int8" : "";
}

/// Codes of a matrix [in, out] of whole numbers whose products `by` multiplies; nothing: they are no codes.
std::optional<Constant> with_scales(const Constant& matrix, const Constant& by) {
  const auto numbers = reals_of(matrix), scales = reals_of(by);
  const std::size_t out = matrix.shape[1];
  if (!numbers || !scales || (scales->size() != 1 && (scales->size() != out || by.shape.back() != out)))
    return std::nullopt;
  QuantizedMatrix made;
  made.type = type_of(*numbers);
  made.axis = 1;
  made.zero_points.assign(scales->size(), 0);
  for (const double scale : *scales) made.scales.push_back(static_cast<float>(scale));
  if (made.type.empty()) return std::nullopt;
  std::vector<double> values(numbers->size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    made.codes.push_back(static_cast<std::int16_t>((*numbers)[i]));
    values[i] = (*numbers)[i] * (*scales)[scales->size() == 1 ? 0 : i % out];
  }
  Constant weight = reals("float32", matrix.shape, values);
  weight.quantized = std::make_shared<const QuantizedMatrix>(std::move(made));
  return weight;
}

/// A product of two parts, as a part of a larger one.
Result<std::optional<Values>> coded_factor(const Value& a, const Value& b) {
  const auto* const part = std::get_if<Pattern>(&b);
  if (!part) return std::optional<Values>();
  Pattern made = *part;
  if (const auto* const x = std::get_if<Stream>(&a); x && part->kind == Kind::coding) {
    if (x->shape != part->x.shape || !is_same(*x, part->x)) return std::optional<Values>();
    made.kind = Kind::stretched;
    return std::optional(Values{made});
  }
  if (const Pattern* const codes = part_of(a, Kind::codes);
      codes && part->kind == Kind::step && is_step_of(*part, codes->x, codes->epsilon)) {
    made.kind = Kind::coded;
    made.other = part->x;
    return std::optional(Values{made});
  }
  if (part->kind != Kind::coded_product) return std::optional<Values>();
  CodedProduct product = *part->product;
  if (const Pattern* const step = part_of(a, Kind::step);
      step && product.is_open && is_step_of(*step, product.x, part->epsilon)) {
    product.is_open = false;
  } else {
    const auto* const by = std::get_if<Constant>(&a);
    if (!by || product.weight.quantized || product.has_rows) return std::optional<Values>();
    const auto weight = with_scales(product.weight, *by);
    if (!weight) return std::optional<Values>();
    product.weight = *weight;
  }
  made.product = std::make_shared<CodedProduct>(std::move(product));
  return std::optional(Values{made});
}

/// True for a product with the rows of a matrix, and no more.
Result<bool> multiplies_rows(const OperatorNode& n) {
  if (n.node.type != "Gemm" || n.has(2)) return false;
  WEFT_TRY(const std::int64_t transposes_a, integer_of(n.node, "transA", 0));
  WEFT_TRY(const std::int64_t transposes_b, integer_of(n.node, "transB", 0));
  WEFT_TRY(const double alpha, real_of(n.node, "alpha", 1));
  return transposes_a == 0 && transposes_b != 0 && alpha == 1;
}

}  // namespace

Result<std::optional<Values>> coded_part(Operators& operators, const OperatorNode& n) {
  const std::string_view type = n.node.type;
  const auto none = std::optional<Values>();
  if (!n.has(0)) return none;
  const Value& a = n.inputs[0];
  const auto as = [](const Pattern& part, Kind kind) {
    Pattern made = part;
    made.kind = kind;
    return std::optional(Values{std::move(made)});
  };
  if (const auto* const x = std::get_if<Stream>(&a); x && type == "Abs")
    return std::optional(Values{Pattern{Kind::magnitude, *x}});
  if (const Pattern* const magnitude = part_of(a, Kind::magnitude); magnitude && type == "ReduceMax") {
    WEFT_TRY(const bool is_last, reduces_last_axis(n, magnitude->x.shape.size()));
    return is_last ? as(*magnitude, Kind::largest) : none;
  }
  if (const Pattern* const stretched = part_of(a, Kind::stretched); stretched && type == "Round")
    return as(*stretched, Kind::codes);
  const Pattern* const coded = part_of(a, Kind::coded);
  if (coded && is_move(type)) {
    std::vector<Value> inputs = n.inputs;
    inputs[0] = coded->x;
    WEFT_TRY(Values moved, operators.make(n.node, n.label, inputs));
    Pattern made = *coded;
    made.x = std::get<Stream>(std::move(moved[0]));
    return std::optional(Values{std::move(made)});
  }
  if (!n.has(1)) return none;
  const Value& b = n.inputs[1];
  if (type == "Max" && n.inputs.size() == 2)
    for (const auto& [one_side, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      const Pattern* const largest = part_of(*one_side, Kind::largest);
      const auto least = number_of(*other);
      if (!largest || largest->epsilon != 0 || !least || !(*least > 0)) continue;
      Pattern made = *largest;
      made.epsilon = *least;
      return std::optional(Values{std::move(made)});
    }
  if (type == "Div") {
    if (const Pattern* const largest = part_of(b, Kind::largest); largest && number_of(a) == 127.0)
      return as(*largest, Kind::coding);
    if (const Pattern* const largest = part_of(a, Kind::largest); largest && number_of(b) == 127.0)
      return as(*largest, Kind::step);
  }
  if (type == "Mul")
    for (const auto& [one_side, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      WEFT_TRY(auto made, coded_factor(*one_side, *other));
      if (made) return made;
    }
  const Pattern* const codes = part_of(a, Kind::codes);
  WEFT_TRY(const bool has_rows, multiplies_rows(n));
  if ((type != "MatMul" && !has_rows) || (!codes && !coded)) return none;
  const auto* const weight = std::get_if<Constant>(&b);
  if (!weight) return fail(Errc::unsupported, "input 1 is not known before the network runs");
  Pattern made = codes ? *codes : *coded;
  if (codes) made.other = made.x;
  const bool is_empty = elements_of(made.x.shape) == 0 || elements_of(weight->shape) == 0;
  if (is_empty || made.x.shape.empty() || weight->shape.size() != 2 ||
      weight->shape[has_rows ? 1 : 0] != made.x.shape.back() || !is_real_type(weight->type))
    return fail(Errc::unsupported,
                "inputs " + to_string(made.x.shape) + " times " + weight->type + " " + to_string(weight->shape));
  WEFT_TRY(const Activations inputs, inputs_of(made));
  made.kind = Kind::coded_product;
  made.product =
      std::make_shared<CodedProduct>(CodedProduct{made.x, *weight, has_rows, inputs, codes != nullptr, n.label, {}});
  made.x.shape.back() = weight->shape[has_rows ? 0 : 1];
  return std::optional(Values{std::move(made)});
}

Result<Stream> finished_product(Operators& operators, const Pattern& part) {
  CodedProduct& product = *part.product;
  if (product.made) return *product.made;
  if (product.is_open) return fail(Errc::unsupported, "inputs as whole numbers times a matrix, without their scale");
  if (!product.weight.quantized)
    return fail(Errc::unsupported, product.label +
                                       " has inputs of int8 and a matrix that is no codes of one scale, or "
                                       "of one for each output; weft export --type stored keeps codes");
  QuantizedMatrix codes = *product.weight.quantized;
  codes.inputs = product.inputs;
  product.weight.quantized = std::make_shared<const QuantizedMatrix>(std::move(codes));
  formats::OnnxNode node;
  node.type = product.has_rows ? "Gemm" : "MatMul";
  if (product.has_rows) node.attributes.emplace_back("transB", std::int64_t{1});
  node.inputs = {"x", "w"};
  node.outputs = {"y"};
  const std::vector<Value> inputs{product.x, product.weight};
  WEFT_TRY(const Values made, operators.make(node, product.label, inputs));
  product.made = std::get<Stream>(made[0]);
  return *product.made;
}

}  // namespace weft::models::onnx
