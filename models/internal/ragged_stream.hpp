// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/cpu_stream.hpp"
#include "kernels/ops/list.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace weft::models::internal {

/// Tokens of a sequence among the rows of a pass: rows `row` to `row` + `tokens` are those from `position` on.
struct SequenceRun {
  std::size_t sequence = 0, position = 0, row = 0, tokens = 1;
};

/// Runs layers of one token a row on rows of which several may belong to one sequence, and whose sequences stand
/// anywhere (ragged rows). Layers see the states of all sequences as if row b's were row b of them; operations that
/// touch states get those of the sequence, token after token. All others go on as they are: one product for all rows.
/// For layers whose states are tokenwise: attention, whose operations are `attention` and `rope`, and positions, which
/// count by `binary`.
/// @exact  a row has the bits that it has where its sequence takes one token after the other
/// @thread one at a time
class RaggedStream final : public kernels::OpStream {
 public:
  /// `runs` outlive it.
  RaggedStream(kernels::CpuStream& to, std::span<const SequenceRun> runs);

  /// The states of the layer that comes next; data null: it has none.
  void enter(const kernels::MatrixView& states) noexcept { states_ = states; }

  /// Runs one operation.
  template <class Op>
  kernels::ops::Answer<Op> accept(const Op& op);
  bool computes_at_once() const noexcept override { return to_.computes_at_once(); }
  float* workspace_of(float* workspace) const noexcept override { return to_.workspace_of(workspace); }

 private:
  void split_units(std::size_t units, double work, Body body, void* context) override;
  template <class Op>
  void attend(const Op& op);
  template <class Op>
  void turn(const Op& op);
  template <class Op>
  void count(const Op& op);
  bool is_state(const kernels::ConstMatrixView& operand) const noexcept;
  template <class View>
  View of_sequence(const View& states, std::size_t sequence) const noexcept {
    return {states.data + sequence * states.stride, 1, states.cols, states.stride};
  }

  kernels::CpuStream& to_;
  const std::span<const SequenceRun> runs_;
  std::size_t sequences_ = 0;     // one more than the last of the runs
  std::vector<float> positions_;  // by row
  std::vector<float> headers_;    // by row, of kHeader floats: how a state of attention says its position
  kernels::MatrixView states_{};
};

}  // namespace weft::models::internal
