// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/recurrent.hpp"

#include "mesh/layers/init.hpp"

#include <utility>

namespace weft::mesh {

using kernels::Activation;
using kernels::ConstRows;
using kernels::Rows;

Result<std::vector<ParameterSpec>> Recurrent::make_parameters(const Sizes& sizes, const Filling& filling,
                                                              std::string_view object) {
  const std::size_t rows = sizes.gates * sizes.hidden;
  // "uniform" is PyTorch's: all four within +-1/sqrt(hidden). Of the others each matrix has its own fan-in, biases 0.
  const bool is_pytorch = filling.init == "uniform";
  WEFT_TRY(auto init_ih, make_initializer(filling.init, is_pytorch ? sizes.hidden : sizes.in, sizes.hidden, object));
  WEFT_TRY(auto init_hh, make_initializer(filling.init, sizes.hidden, sizes.hidden, object));
  const Initializer bias = is_pytorch ? init_hh : constant(0.0f);
  std::vector<ParameterSpec> parameters;
  parameters.push_back({"weight_ih", rows, sizes.in, true, std::move(init_ih)});
  parameters.push_back({"weight_hh", rows, sizes.hidden, true, std::move(init_hh)});
  if (filling.has_bias) {
    parameters.push_back({"bias_ih", rows, 0, false, bias});
    parameters.push_back({"bias_hh", rows, 0, false, bias});
  }
  return parameters;
}

double Recurrent::multiply_adds() const noexcept {
  return static_cast<double>(gates_ * hidden()) * static_cast<double>(in() + hidden());
}

void Recurrent::forward(kernels::OpStream& stream, const ForwardArgs& args) const {
  const Rows a = blocks(args.cache, 0, gates_), b = blocks(args.cache, gates_, gates_);
  const auto bias = [&](std::size_t i) { return has_bias() ? args.weights.vector(i) : nullptr; };
  stream.linear(args.weights.matrix(0), bias(2), args.x, Activation::linear, {}, a);
  stream.linear(args.weights.matrix(1), bias(3), blocks(args.state, 0), Activation::linear, {}, b);
  step(stream, args, a, b);
}

void Recurrent::backward(kernels::OpStream& stream, const BackwardArgs& args) const {
  const ConstRows a = blocks(args.cache, 0, gates_), b = blocks(args.cache, gates_, gates_);
  const Rows d = blocks(args.scratch, 0, gates_), carry = blocks(args.scratch, gates_);
  // y and the next state's h are the same value, so their gradients add.
  if (args.dnext_state.data) stream.binary(kernels::BinaryOp::add, args.dy, blocks(args.dnext_state, 0), args.dy);
  step_back(stream, args, a, b, d, carry);

  if (args.gradients.data) {
    stream.outer_accumulate(d, args.x, {args.gradients[0], d.cols, in()});
    if (has_bias()) stream.column_accumulate(d, args.gradients[2]);
  }
  if (args.dx.data) stream.linear_transposed(args.weights.matrix(0), d, args.dx);

  if (!args.gradients.data && !args.dstate.data) return;
  to_recurrent(stream, a, d);
  if (args.gradients.data) {
    stream.outer_accumulate(d, blocks(args.state, 0), {args.gradients[1], d.cols, hidden()});
    if (has_bias()) stream.column_accumulate(d, args.gradients[3]);
  }
  if (args.dstate.data) {
    const Rows dh = blocks(args.dstate, 0);
    stream.linear_transposed(args.weights.matrix(1), d, dh);
    if (has_carry()) stream.binary(kernels::BinaryOp::add, dh, carry, dh);
  }
}

}  // namespace weft::mesh
