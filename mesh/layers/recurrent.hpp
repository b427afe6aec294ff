// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/layers/recurrent_traces.hpp"
#include "mesh/network/layer.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::mesh {

/// Base of rnn, lstm and gru: steps over a hidden state h of `hidden` values a session.
///   a = W_ih x + b_ih,  b = W_hh h + b_hh     `gates` blocks of `hidden` values each, in PyTorch's order
/// A type says how the blocks become the output and the next state, and how an error comes back to the blocks. The
/// first `hidden` values of the state are h, which is also y. Parameters, named and laid out as PyTorch's: weight_ih
/// [gates hidden, in], weight_hh [gates hidden, hidden], bias_ih, bias_hh [gates hidden]. PyTorch's second bias is
/// redundant in all but gru's n; it is kept, so that weights carry over and so that a bias moves as fast as it does
/// there.
/// An input [in] is one step a tick, over a state that persists and starts at 0. An input [tokens, in] is a step a
/// token, all in one tick; the state starts each tick at 0, or, `stateful`, where the last tick left it. Token by token
/// and all in one tick give the same bits. Gradients of the weights add tokens ascending, session after session.
/// With `through_time` other than backward the state has the derivatives of RecurrentTraces behind its own blocks: an
/// error meets them in its own tick, and none travels back through the state.
/// @thread const calls from any thread
class Recurrent : public Layer {
 public:
  struct Sizes {
    Shape in;  // [in] or [tokens, in]
    std::size_t hidden = 0;
    std::size_t gates = 1;   // blocks of the pre-activation
    std::size_t states = 1;  // blocks of the hidden state
    bool is_stateful = true, is_last_only = false;
    ThroughTime through_time = ThroughTime::backward;
    std::vector<ParameterSpec> parameters;
  };
  /// Reads what the three have in common: bias, init, stateful, output.
  /// @error shape_mismatch: neither a vector nor a sequence of vectors; unknown_name: no such initializer
  static Result<Sizes> read_sizes(std::string_view type, const Shape& in, std::size_t out, std::size_t gates,
                                  std::size_t states, OptionReader& options);

  std::size_t state_size() const noexcept override { return is_stateful_ ? state_width() + traces_.size() : 0; }
  bool learns_forward() const noexcept override { return traces_.is_on(); }
  std::size_t cache_size() const noexcept override;
  std::size_t scratch_size() const noexcept override;
  std::size_t workspace_size() const noexcept override { return traces_.workspace_size(); }
  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  double multiply_adds() const noexcept override;

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const final;
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const final;

 protected:
  explicit Recurrent(Sizes sizes);

  /// From the blocks to y and next_state. `a` and `b` lie in the cache: what is written there is what backward finds.
  virtual void step(kernels::OpStream& stream, const ForwardArgs& args, const kernels::MatrixView& a,
                    const kernels::MatrixView& b) const = 0;
  /// From dLoss/dh in args.dy to dLoss/da, and to dLoss/dstate what does not pass through W_hh: the part for h to
  /// `carry`, when the type has one, those for the other blocks to args.dstate.
  virtual void step_back(kernels::OpStream& stream, const BackwardArgs& args, const kernels::ConstMatrixView& a,
                         const kernels::ConstMatrixView& b, const kernels::MatrixView& da,
                         const kernels::MatrixView& carry) const = 0;
  /// Turns dLoss/da into dLoss/db, where they differ.
  virtual void to_recurrent(kernels::OpStream&, const kernels::ConstMatrixView&, const kernels::MatrixView&) const {}
  /// Of a type that has `through_time`: what a session's step does to its derivatives, from the blocks that step left
  /// and the state before it.
  virtual void find_factors(kernels::OpStream&, const kernels::ConstMatrixView& /*state*/,
                            const kernels::ConstMatrixView& /*a*/, const kernels::ConstMatrixView& /*b*/,
                            const RecurrentTraces::Factors&) const {}
  /// True when step_back writes `carry`.
  virtual bool has_carry() const noexcept { return false; }

  /// d = d activation'(z) in place, from y = activation(z) of tanh, sigmoid or relu.
  static void backward_of(kernels::OpStream& stream, kernels::Activation activation, const kernels::ConstMatrixView& y,
                          const kernels::MatrixView& d) {
    stream.unary_backward({activation, {}, y, d, d});
  }
  std::size_t hidden() const noexcept { return hidden_; }
  /// Blocks [first, first + count) of `hidden` columns.
  kernels::MatrixView blocks(const kernels::MatrixView& rows, std::size_t first, std::size_t count = 1) const noexcept {
    return {rows.data + first * hidden(), rows.rows, count * hidden(), rows.stride};
  }
  kernels::ConstMatrixView blocks(const kernels::ConstMatrixView& rows, std::size_t first,
                                  std::size_t count = 1) const noexcept {
    return {rows.data + first * hidden(), rows.rows, count * hidden(), rows.stride};
  }

 private:
  bool has_bias() const noexcept { return parameters_.size() > 2; }
  std::size_t state_width() const noexcept { return states_ * hidden_; }
  std::size_t features() const noexcept { return in_shape().back(); }
  void forward_tick(kernels::OpStream& stream, const ForwardArgs& args) const;
  void backward_tick(kernels::OpStream& stream, const BackwardArgs& args) const;
  void advance_traces(kernels::OpStream& stream, const ForwardArgs& args) const;
  void backward_by_traces(kernels::OpStream& stream, const BackwardArgs& args) const;
  /// Calls visit(b, x, h, derivatives before) for each session, with the factors of its step in the workspace.
  template <class Args, class Visit>
  void each_step(kernels::OpStream& stream, const Args& args, const Visit& visit) const;
  void forward_sequence(kernels::OpStream& stream, const ForwardArgs& args) const;
  void backward_sequence(kernels::OpStream& stream, const BackwardArgs& args) const;
  void backward_steps(kernels::OpStream& stream, const BackwardArgs& args) const;
  void sequence_gradients(kernels::OpStream& stream, const BackwardArgs& args) const;

  /// `width` columns at `offset` of every row.
  template <class View>
  static View columns_at(const View& rows, std::size_t offset, std::size_t width) noexcept {
    return {rows.data + offset, rows.rows, width, rows.stride};
  }
  // Of a sequence the cache holds a, then b, of every token, then the states before the first and after every token,
  // then, when only the last output is published, every output.
  template <class View>
  View gates_of(const View& cache, std::size_t token) const noexcept {
    return columns_at(cache, token * gates_ * hidden_, gates_ * hidden_);
  }
  template <class View>
  View state_before(const View& cache, std::size_t token) const noexcept {
    return columns_at(cache, 2 * tokens_ * gates_ * hidden_ + token * state_width(), state_width());
  }
  template <class View>
  View output_of(const View& cache, const View& y, std::size_t token) const noexcept {
    if (!is_last_only_) return columns_at(y, token * hidden_, hidden_);
    return columns_at(cache, 2 * tokens_ * gates_ * hidden_ + (tokens_ + 1) * state_width() + token * hidden_, hidden_);
  }

  std::size_t tokens_, hidden_, gates_, states_;
  bool is_stateful_, is_last_only_;
  bool is_sequence_;  // several tokens a tick, or a state that does not persist
  RecurrentTraces traces_;
  std::vector<ParameterSpec> parameters_;
};

/// The options that all recurrent layers have; `own` come after `out`, whose meaning is `out_meaning`.
std::vector<OptionRow> recurrent_options(std::string_view out_meaning, std::vector<OptionRow> own = {});

/// The option `through_time` of gru and lstm.
OptionRow through_time_option();
/// @error unsupported: other than backward, of a layer whose state does not go from tick to tick
Result<ThroughTime> read_through_time(const Recurrent::Sizes& sizes, OptionReader& options);

}  // namespace weft::mesh
