// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/ops/operands.hpp"
#include "kernels/reduce.hpp"
#include "kernels/statistics.hpp"
#include "kernels/target_rules.hpp"

#include <cstdint>

namespace weft::kernels {
class CpuStream;
}

/// Values of rows and columns: sums along a row by R2, down a column in ascending order (kernels/reduce.hpp).
namespace weft::kernels::ops {

/// s[b] = sum over j of a[b][j] (R2).
struct RowSums {
  ConstMatrixView a;
  float* s;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.a.rows, op.a.cols);
    visit.read(op.a, all);
    visit.write(op.s, per_row(all.rows));
  }
  Work work() const noexcept { return by_rows(a.rows, kMoved * product(a.rows, a.cols)); }
  void compute() const noexcept { kernels::row_sums(a, s); }
};

/// s[b] = sum over j of a[b][j] b[b][j], one fma an element (R2).
struct RowDots {
  ConstMatrixView a, b;
  float* s;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.a.rows, op.a.cols);
    visit.read(op.a, all);
    visit.read(op.b, all);
    visit.write(op.s, per_row(all.rows));
  }
  void compute() const noexcept { kernels::row_dots(a, b, s); }
};

/// s[j] = s[j] + a[b][j] for b ascending.
struct ColumnAccumulate {
  ConstMatrixView a;
  float* s;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.a.rows, op.a.cols);
    visit.read(op.a, all);
    visit.update(op.s, per_column(all.cols));
  }
  void compute(CpuStream& cpu) const;
};

/// index[b] = the first j with the largest a[b][j].
struct RowArgmax {
  ConstMatrixView a;
  std::uint32_t* index;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.a.rows, op.a.cols);
    visit.read(op.a, all);
    visit.write(op.index, per_row(all.rows));
  }
  Work work() const noexcept { return by_rows(a.rows, kMoved * product(a.rows, a.cols)); }
  void compute() const noexcept { kernels::row_argmax(a, index); }
};

/// y[b] = mean, deviation, share of |x| above the threshold, rms of row b (R2; kernels/statistics.hpp).
/// y [rows, kStatistics].
struct RowStatistics {
  ConstMatrixView x;
  float threshold;
  MatrixView y;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.x.rows, op.x.cols);
    visit.read(op.x, all);
    visit.write(op.y, matrix(all.rows, kStatistics));
  }
  void compute() const noexcept { kernels::row_statistics(x, threshold, y); }
};

/// factor[b] of the target rules (kernels/target_rules.hpp).
struct LinkBudget {
  ConstMatrixView a, t;
  float* factor;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.a.rows, op.a.cols);
    visit.read(op.a, all);
    visit.read(op.t, all);
    visit.write(op.factor, per_row(all.rows));
  }
  void compute() const noexcept { kernels::link_budget(a, t, factor); }
};

/// True when no element is infinite or NaN. On a GPU stream this waits for the device.
struct IsFinite {
  using Answer = bool;
  ConstMatrixView x;

  static void operands(auto& op, auto&& visit) { visit.read(op.x, matrix(op.x.rows, op.x.cols)); }
  bool compute(CpuStream& cpu) const;
};

}  // namespace weft::kernels::ops
