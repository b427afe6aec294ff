// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/embedding.hpp"
#include "kernels/ops/operands.hpp"
#include "kernels/permute.hpp"
#include "kernels/target_rules.hpp"

#include <cstdint>

namespace weft::kernels::ops {

/// Each row's values in another order of their axes.
struct Permute {
  ConstMatrixView x;
  AxisOrder order;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.x); }
  void compute() const noexcept { kernels::permute(x, order, y); }
};

/// y[b][t] = entry x[b][t] of w, dequantized; x holds whole numbers, and others name the nearest entry below.
/// x [B, T], w [out, in], y [B, T * out] (entries that are rows: T * in).
struct Embedding {
  ConstWeight w;
  ConstMatrixView x;
  MatrixView y;
  TableEntries entries = TableEntries::columns;

  static void operands(auto& op, auto&& visit) {
    const Extent indices = matrix(op.x.rows, op.x.cols);
    visit.read(op.w);
    visit.read(op.x, indices);
    visit.write(op.y, matrix(indices.rows, indices.cols * (op.entries == TableEntries::rows ? op.w.in : op.w.out)));
  }
  void compute() const noexcept { kernels::embedding(w, x, y, entries); }
};

/// Entry x[b][t] of dw += dy[b][t] for b, then t ascending; entry `skipped` gets nothing.
struct EmbeddingBackward {
  ConstMatrixView x, dy;
  std::size_t skipped;
  Panels dw;
  TableEntries entries = TableEntries::columns;

  static void operands(auto& op, auto&& visit) {
    const Extent indices = matrix(op.x.rows, op.x.cols);
    visit.read(op.x, indices);
    visit.read(op.dy, matrix(indices.rows, indices.cols * (op.entries == TableEntries::rows ? op.dw.in : op.dw.out)));
    visit.update(op.dw);
  }
  void compute() const noexcept { kernels::embedding_backward(x, dy, skipped, dw, entries); }
};

/// y[b][j] = value where j is labels[b], else 0. Labels below cols.
struct OneHot {
  const std::uint32_t* labels;
  float value;
  MatrixView y;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.y.rows, op.y.cols);
    visit.read(op.labels, per_row(all.rows));
    visit.write(op.y, all);
  }
  void compute() const noexcept { kernels::one_hot(labels, value, y); }
};

}  // namespace weft::kernels::ops
