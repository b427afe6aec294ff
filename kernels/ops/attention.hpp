// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/attention.hpp"
#include "kernels/ops/operands.hpp"
#include "kernels/rope.hpp"

#include <algorithm>

namespace weft::kernels {
class CpuStream;
}

/// Attention: R1 over features, sums over keys by absolute position (kernels/attention.hpp).
namespace weft::kernels::ops {

/// Scores and sums over as many keys as a call has tokens, or as its context holds, in multiply-adds.
inline double attention_cost(const AttentionShape& shape, std::size_t rows) noexcept {
  return 2 * product(shape.heads * shape.head_dim, shape.tokens, rows) *
         static_cast<double>(std::max(shape.tokens, shape.context));
}

/// Extents of what both directions take, `rows` sessions.
struct AttentionExtents {
  AttentionExtents(const AttentionShape& shape, std::size_t rows) noexcept
      : queries(matrix(rows, shape.tokens * shape.heads * shape.head_dim)),
        keys(matrix(rows, shape.tokens * shape.kv_heads * shape.head_dim)),
        states(matrix(rows, attention_state_size(shape))),
        statistics(matrix(rows, attention_statistics_size(shape))),
        masks(matrix(rows, attention_mask_size(shape))) {}
  Extent queries, keys, states, statistics, masks;
};

/// y = softmax(scale q k^T) v of every head, over the keys that each token sees; next_state has learned the call's.
/// It may be from.state: then nothing of it is copied.
struct Attention {
  AttentionShape shape;
  AttentionOperands from;
  MatrixView y, statistics, next_state;
  float* workspace;

  static void operands(auto& op, auto&& visit) {
    const AttentionExtents e(op.shape, op.y.rows);
    visit.read(op.from.q, e.queries);
    visit.read(op.from.k, e.keys);
    visit.read(op.from.v, e.keys);
    visit.read_if(op.shape.context, op.from.state, e.states);
    visit.read_if(op.shape.has_mask(), op.from.mask, e.masks);
    visit.write(op.y, e.queries);
    visit.write(op.statistics, e.statistics);
    if (op.shape.context)
      visit.write(op.next_state, e.states);
    else
      visit.unused(op.next_state, e.states);
    visit.workspace(op.workspace);
  }
  void compute(CpuStream& cpu) const;
};

/// The reverse of `Attention`, from what it read and left.
struct AttentionBackward {
  AttentionShape shape;
  AttentionOperands from;
  ConstMatrixView y, statistics;
  AttentionGradients gradients;
  float* workspace;

  static void operands(auto& op, auto&& visit) {
    const AttentionExtents e(op.shape, op.y.rows);
    visit.read(op.from.q, e.queries);
    visit.read(op.from.k, e.keys);
    visit.read(op.from.v, e.keys);
    visit.read_if(op.shape.context, op.from.state, e.states);
    visit.read_if(op.shape.has_mask(), op.from.mask, e.masks);
    visit.read(op.y, e.queries);
    visit.read(op.statistics, e.statistics);
    visit.read(op.gradients.dy, e.queries);
    visit.read_if(op.shape.context, op.gradients.dnext_state, e.states);
    visit.write(op.gradients.dq, e.queries);
    visit.write(op.gradients.dk, e.keys);
    visit.write(op.gradients.dv, e.keys);
    if (op.shape.context)
      visit.write(op.gradients.dstate, e.states);
    else
      visit.unused(op.gradients.dstate, e.states);
    if (op.shape.has_mask())
      visit.update(op.gradients.dmask, e.masks);
    else
      visit.unused(op.gradients.dmask, e.masks);
    visit.workspace(op.workspace);
  }
  Work work() const noexcept { return by_rows(y.rows, 3 * attention_cost(shape, y.rows)); }
  void compute() const noexcept { kernels::attention_backward(shape, from, y, statistics, gradients, workspace); }
};

/// Turns pairs of features by angles that grow with the position; transposed: back again. May run in place.
struct Rope {
  kernels::Rope rope;
  std::size_t tokens;
  ConstMatrixView x, state;
  bool transposed;
  MatrixView y;
  float* workspace;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.y.rows, op.y.cols);
    visit.constant(op.rope.turns, whole(op.rope.dims() / 2));
    visit.constant(op.rope.table, whole(op.rope.table_positions * 2 * op.rope.dims()));
    visit.read(op.x, all);
    visit.read(op.state, matrix(all.rows, op.state.cols));
    visit.write(op.y, all);
    visit.workspace(op.workspace);
  }
  void compute() const noexcept { kernels::rope(rope, tokens, x, state, transposed, y, workspace); }
};

}  // namespace weft::kernels::ops
