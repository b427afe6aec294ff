// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/norm.hpp"
#include "kernels/ops/operands.hpp"

/// Normalisations, R2 along each row.
namespace weft::kernels::ops {

/// y = x / sqrt(mean(x^2) + epsilon) * gain; gain [cols] or null. inverse_rms [rows] is kept for backward.
struct RmsNorm {
  ConstMatrixView x;
  const float* gain;
  float epsilon;
  MatrixView y;
  float* inverse_rms;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.x.rows, op.x.cols);
    visit.read(op.x, all);
    visit.read(op.gain, per_column(all.cols));
    visit.write(op.y, all);
    visit.write(op.inverse_rms, per_row(all.rows));
  }
  Work work() const noexcept { return by_rows(x.rows, 2 * kMoved * product(x.rows, x.cols)); }
  void compute() const noexcept { kernels::rms_norm(x, gain, epsilon, y, inverse_rms); }
};

/// dx, and dgain[j] accumulated over rows ascending (null: not wanted). May run in place on dy.
struct RmsNormBackward {
  ConstMatrixView x;
  const float* gain;
  const float* inverse_rms;
  ConstMatrixView dy;
  MatrixView dx;
  float* dgain;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.x.rows, op.x.cols);
    visit.read(op.x, all);
    visit.read(op.gain, per_column(all.cols));
    visit.read(op.inverse_rms, per_row(all.rows));
    visit.read(op.dy, all);
    visit.write(op.dx, all);
    visit.update(op.dgain, per_column(all.cols));
  }
  void compute() const noexcept { kernels::rms_norm_backward(x, gain, inverse_rms, dy, dx, dgain); }
};

/// y = (x - mean) / sqrt(variance + epsilon) * gain + bias, biased variance; gain, bias [cols] or null.
struct LayerNorm {
  ConstMatrixView x;
  const float* gain;
  const float* bias;
  float epsilon;
  MatrixView y;
  float* mean;
  float* inverse_deviation;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.x.rows, op.x.cols);
    visit.read(op.x, all);
    visit.read(op.gain, per_column(all.cols));
    visit.read(op.bias, per_column(all.cols));
    visit.write(op.y, all);
    visit.write(op.mean, per_row(all.rows));
    visit.write(op.inverse_deviation, per_row(all.rows));
  }
  Work work() const noexcept { return by_rows(x.rows, 2 * kMoved * product(x.rows, x.cols)); }
  void compute() const noexcept { kernels::layer_norm(x, gain, bias, epsilon, y, mean, inverse_deviation); }
};

/// dx, and dgain, dbias accumulated over rows ascending (null: not wanted). May run in place on dy.
struct LayerNormBackward {
  ConstMatrixView x;
  const float* gain;
  const float* mean;
  const float* inverse_deviation;
  ConstMatrixView dy;
  MatrixView dx;
  float* dgain;
  float* dbias;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.x.rows, op.x.cols);
    visit.read(op.x, all);
    visit.read(op.gain, per_column(all.cols));
    visit.read(op.mean, per_row(all.rows));
    visit.read(op.inverse_deviation, per_row(all.rows));
    visit.read(op.dy, all);
    visit.write(op.dx, all);
    visit.update(op.dgain, per_column(all.cols));
    visit.update(op.dbias, per_column(all.cols));
  }
  void compute() const noexcept {
    kernels::layer_norm_backward(x, gain, mean, inverse_deviation, dy, dx, dgain, dbias);
  }
};

}  // namespace weft::kernels::ops
