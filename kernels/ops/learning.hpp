// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/loss.hpp"
#include "kernels/ops/operands.hpp"
#include "kernels/quantize.hpp"

/// Losses of regression, and weights stored anew.
namespace weft::kernels::ops {

/// loss[b] = mean over j of l(x, target); dx = l'(x, target) / cols, where l is that of a value (kernels/loss.hpp).
struct ValueLoss {
  Loss kind;
  float setting;
  ConstMatrixView x, target;
  float* loss;
  MatrixView dx;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.x.rows, op.x.cols);
    visit.read(op.x, all);
    visit.read(op.target, all);
    visit.write(op.loss, per_row(all.rows));
    visit.write(op.dx, all);
  }
  Work work() const noexcept { return by_rows(x.rows, kMoved * product(x.rows, x.cols)); }
  void compute() const noexcept { kernels::value_loss(kind, setting, x, target, loss, dx); }
};

/// Scales, zero points and codes of a float32 matrix in the encoding that `to` names, over all of its arrays.
struct Quantize {
  ConstPanels master;
  Weight to;

  static void operands(auto& op, auto&& visit) {
    visit.read(op.master, matrix(op.to.out, op.to.in));
    visit.write(op.to);
  }
  void compute() const { kernels::quantize(master, to); }
};

}  // namespace weft::kernels::ops
