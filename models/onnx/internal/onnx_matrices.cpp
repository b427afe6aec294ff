// SPDX-License-Identifier: Apache-2.0

// Products with matrices.

#include "models/onnx/internal/onnx_operators.hpp"

#include <utility>

namespace weft::models::onnx {

namespace {

Shape with_width(Shape shape, std::size_t width) {
  shape.back() = width;
  return shape;
}

}  // namespace

Result<Operators::Values> Operators::dense(const Node& n, Stream x, Weight weight, std::size_t in, std::size_t out) {
  if (x.shape.empty() || x.shape.back() != in)
    return fail(Errc::corrupt, to_string(x.shape) + " times a matrix of " + std::to_string(in) + " rows");
  const Shape seen = tokens_of(x.shape), after = with_width(x.shape, out);
  return add(n, "dense", {{"bias", false}}, std::move(x), seen, with_width(seen, out), after,
             {{"weight", std::move(weight)}}, out);
}

Result<Operators::Values> Operators::matmul(const Node& n) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(const Constant* const w, constant(n, 1));
  if (w->shape.size() != 2 || !is_real_type(w->type))
    return fail(Errc::unsupported, "input 1 is " + w->type + " " + to_string(w->shape) + ", expected a matrix");
  return dense(n, std::move(x), {*w, true}, w->shape[0], w->shape[1]);
}

Result<Operators::Values> Operators::gemm(const Node& n) {
  WEFT_TRY(Stream x, stream(n, 0));
  WEFT_TRY(const Constant* const w, constant(n, 1));
  WEFT_TRY(const std::int64_t transposes_a, integer_of(n.node, "transA", 0));
  WEFT_TRY(const std::int64_t transposes_b, integer_of(n.node, "transB", 0));
  WEFT_TRY(const double alpha, real_of(n.node, "alpha", 1));
  WEFT_TRY(const double beta, real_of(n.node, "beta", 1));
  if (transposes_a != 0) return fail(Errc::unsupported, "transA");
  if (w->shape.size() != 2 || x.shape.size() != 2 || !is_real_type(w->type)) return fail(Errc::corrupt, "no matrices");
  Weight weight{*w, transposes_b == 0};
  const std::size_t in = w->shape[transposes_b == 0 ? 0 : 1], out = w->shape[transposes_b == 0 ? 1 : 0];
  const auto scaled = [](const Constant& values, double factor) -> Result<Constant> {
    if (factor == 1) return values;
    WEFT_TRY(std::vector<double> numbers, reals_of(values));
    for (double& number : numbers) number *= factor;
    return reals("float32", values.shape, numbers);
  };
  WEFT_TRY(weight.values, scaled(*w, alpha));
  WEFT_TRY(Values made, dense(n, std::move(x), std::move(weight), in, out));
  if (!n.has(2)) return made;
  WEFT_TRY(const Constant* const c, constant(n, 2));
  WEFT_TRY(Constant bias, scaled(*c, beta));
  if (c->count() == 1 && out != 1) {
    WEFT_TRY(const std::vector<double> value, reals_of(bias));
    bias = reals("float32", {out}, std::vector<double>(out, value[0]));
  }
  if (bias.count() != out || bias.shape.empty() || bias.shape.back() != out)
    return fail(Errc::unsupported, "C is " + to_string(c->shape) + ", expected [" + std::to_string(out) + "]");
  bias.shape = {out};
  const auto base = std::get<Stream>(made[0]).chunks[0].base;
  layers_.at(base).weights["bias"] = {std::move(bias)};
  layers_.at(base).spec.options.erase("bias");
  return made;
}

}  // namespace weft::models::onnx
