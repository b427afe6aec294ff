// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/layer.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::mesh {

/// What rnn, lstm and gru share: one step a tick over a hidden state h of `hidden` values a session, that starts at 0.
///   a = W_ih x + b_ih,  b = W_hh h + b_hh     `gates` blocks of `hidden` values each, in PyTorch's order
/// A type says how the blocks become the output and the next state, and how an error comes back to the blocks. The
/// first `hidden` values of the state are h, which is also y. Parameters, named and laid out as PyTorch's: weight_ih
/// [gates hidden, in], weight_hh [gates hidden, hidden], bias_ih, bias_hh [gates hidden]. PyTorch's second bias is
/// redundant in all but gru's n; it is kept, so that weights carry over and so that a bias moves as fast as it does
/// there.
/// @thread const calls from any thread
class Recurrent : public Layer {
 public:
  std::size_t state_size() const noexcept override { return states_ * hidden(); }
  std::size_t cache_size() const noexcept override { return 2 * gates_ * hidden(); }
  std::size_t scratch_size() const noexcept override { return (gates_ + 1) * hidden(); }
  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  double multiply_adds() const noexcept override;

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const final;
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const final;

 protected:
  struct Sizes {
    std::size_t in = 0, hidden = 0;
    std::size_t gates = 1;   // blocks of the pre-activation
    std::size_t states = 1;  // blocks of the hidden state
  };
  struct Filling {
    bool has_bias = true;
    std::string init;
  };
  /// @error unknown_name: no such initializer
  static Result<std::vector<ParameterSpec>> make_parameters(const Sizes& sizes, const Filling& filling,
                                                            std::string_view object);
  Recurrent(const Sizes& sizes, std::vector<ParameterSpec> parameters)
      : Layer(sizes.in, sizes.hidden), gates_(sizes.gates), states_(sizes.states), parameters_(std::move(parameters)) {}

  /// From the blocks to y and next_state. `a` and `b` lie in the cache: what is written there is what backward finds.
  virtual void step(kernels::OpStream& stream, const ForwardArgs& args, const kernels::Rows& a,
                    const kernels::Rows& b) const = 0;
  /// From dLoss/dh in args.dy to dLoss/da, and to dLoss/dstate what does not pass through W_hh: the part for h to
  /// `carry`, when the type has one, those for the other blocks to args.dstate.
  virtual void step_back(kernels::OpStream& stream, const BackwardArgs& args, const kernels::ConstRows& a,
                         const kernels::ConstRows& b, const kernels::Rows& da, const kernels::Rows& carry) const = 0;
  /// Turns dLoss/da into dLoss/db, where they differ.
  virtual void to_recurrent(kernels::OpStream&, const kernels::ConstRows&, const kernels::Rows&) const {}
  /// Whether step_back writes `carry`.
  virtual bool has_carry() const noexcept { return false; }

  /// d = d activation'(z) in place, from y = activation(z) of tanh, sigmoid or relu.
  static void backward_of(kernels::OpStream& stream, kernels::Activation activation, const kernels::ConstRows& y,
                          const kernels::Rows& d) {
    stream.unary_backward(activation, {}, y, d, d);
  }
  std::size_t hidden() const noexcept { return out(); }
  /// Blocks [first, first + count) of `hidden` columns.
  kernels::Rows blocks(const kernels::Rows& rows, std::size_t first, std::size_t count = 1) const noexcept {
    return {rows.data + first * hidden(), rows.rows, count * hidden(), rows.stride};
  }
  kernels::ConstRows blocks(const kernels::ConstRows& rows, std::size_t first, std::size_t count = 1) const noexcept {
    return {rows.data + first * hidden(), rows.rows, count * hidden(), rows.stride};
  }

 private:
  bool has_bias() const noexcept { return parameters_.size() > 2; }

  std::size_t gates_, states_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace weft::mesh
