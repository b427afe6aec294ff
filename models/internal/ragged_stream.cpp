// SPDX-License-Identifier: Apache-2.0

#include "models/internal/ragged_stream.hpp"

#include "kernels/attention_state.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <functional>
#include <type_traits>

namespace weft::models::internal {

namespace ops = kernels::ops;
using kernels::ConstMatrixView;

namespace {

constexpr std::size_t kHeader = 16;

ops::Part one_row(std::size_t row, std::size_t cols = 0) { return {0, row, 1, 0, cols}; }

}  // namespace

RaggedStream::RaggedStream(kernels::CpuStream& to, std::span<const SequenceRun> runs)
    : OpStream(kernels::op_table<RaggedStream>()), to_(to), runs_(runs) {
  for (const SequenceRun& run : runs) {
    sequences_ = std::max(sequences_, run.sequence + 1);
    for (std::size_t t = 0; t < run.tokens; ++t) {
      WEFT_DCHECK(run.row + t == positions_.size(), "rows of runs follow each other");
      positions_.push_back(static_cast<float>(run.position + t));
    }
  }
  headers_.resize(positions_.size() * kHeader);
  for (const SequenceRun& run : runs)
    for (std::size_t t = 0; t < run.tokens; ++t)
      kernels::attention_cut(to_, run.position + t, headers_.data() + (run.row + t) * kHeader);
}

bool RaggedStream::is_state(const ConstMatrixView& operand) const noexcept {
  if (!states_.data || !operand.data) return false;
  const std::less<const float*> before;
  return !before(operand.data, states_.data) && before(operand.data, states_.data + sequences_ * states_.stride);
}

// Operations are told by what they have: attention a state before and after it, rope one that it reads, and what counts
// tokens two operands.
template <class Op>
ops::Answer<Op> RaggedStream::accept(const Op& op) {
  if constexpr (requires { op.from.state, op.next_state; }) {
    if (is_state(op.from.state)) return attend(op);
  } else if constexpr (requires { op.rope, op.state; }) {
    if (is_state(op.state)) return turn(op);
  } else if constexpr (requires { op.a, op.b, op.y; }) {
    if (is_state(op.a) || is_state(op.b) || is_state(op.y)) return count(op);
  }
  return to_.run(op);
}

void RaggedStream::split_units(std::size_t units, double work, Body body, void* context) {
  to_.split(units, work,
            [&](OpStream& stream, std::size_t first, std::size_t count) { body(context, stream, first, count); });
}

/// Sequences side by side, the tokens of each in order.
template <class Op>
void RaggedStream::attend(const Op& op) {
  to_.split(runs_.size(), ops::attention_cost(op.shape, op.y.rows),
            [&](OpStream& stream, std::size_t first, std::size_t count) {
              for (const SequenceRun& run : runs_.subspan(first, count))
                for (std::size_t t = 0; t < run.tokens; ++t) {
                  Op own = op;
                  const ops::Part part = one_row(run.row + t);
                  ops::for_each_operand(own, ops::Cut{part, false, 0});
                  own.from.state = of_sequence(op.from.state, run.sequence);
                  own.next_state = of_sequence(op.next_state, run.sequence);
                  own.workspace = stream.workspace_of(op.workspace);
                  stream.run(own);
                }
            });
}

/// Positions alone are read of a state.
template <class Op>
void RaggedStream::turn(const Op& op) {
  Op own = op;
  own.state = {headers_.data(), op.state.rows, kHeader, kHeader};
  to_.run(own);
}

/// States that are a count of tokens: it is known of each row.
template <class Op>
void RaggedStream::count(const Op& op) {
  WEFT_ASSERT(op.y.cols == 1, "a state that is read is a count of tokens");
  for (const SequenceRun& run : runs_)
    for (std::size_t t = 0; t < run.tokens; ++t) {
      const std::size_t row = run.row + t;
      Op own = ops::part_of(op, one_row(row, 1), 0);
      for (ConstMatrixView* const each : {&own.a, &own.b})
        if (is_state(each == &own.a ? op.a : op.b)) each->data = &positions_[row];
      if (is_state(op.y)) own.y = of_sequence(op.y, run.sequence);
      to_.run(own);
    }
}

}  // namespace weft::models::internal
