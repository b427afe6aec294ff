// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/activation.hpp"
#include "kernels/gated_linear.hpp"
#include "kernels/ops/operands.hpp"

namespace weft::kernels {
class CpuStream;
}

/// Products with weight matrices, by R1 or R2: kernels/linear.hpp; weights in any type: kernels/linear_dequantized.hpp,
/// kernels/linear_integer.hpp.
namespace weft::kernels::ops {

/// z = x w^T + bias, y = activation(z).  x [B, in], w [out, in], bias [out] or null, y [B, out];
/// z [B, out] or data == null when the pre-activation is not wanted. z may be y only when activation is linear.
struct Linear {
  ConstWeight w;
  const float* bias;
  ConstMatrixView x;
  Activation activation;
  MatrixView z, y;

  static void operands(auto& op, auto&& visit) {
    const std::size_t rows = op.x.rows;
    visit.read(op.w);
    visit.read(op.bias, per_column(op.w.out));
    visit.read(op.x, matrix(rows, op.w.in));
    visit.write(op.z, matrix(rows, op.w.out));
    visit.write(op.y, matrix(rows, op.w.out));
  }
  void compute(CpuStream& cpu) const;
};

/// dx = dy w.  dx[b][k] = sum over o of w[o][k] dy[b][o], rule R2 over o. dy [B, out], dx [B, in].
struct LinearTransposed {
  ConstWeight w;
  ConstMatrixView dy;
  MatrixView dx;

  static void operands(auto& op, auto&& visit) {
    const std::size_t rows = op.dy.rows;
    visit.read(op.w);
    visit.read(op.dy, matrix(rows, op.w.out));
    visit.write(op.dx, matrix(rows, op.w.in));
  }
  void compute(CpuStream& cpu) const;
};

/// dw[o][k] = fma(dy[b][o], x[b][k], dw[o][k]) for b ascending. dy [B, out], x [B, in].
struct OuterAccumulate {
  ConstMatrixView dy, x;
  Panels dw;

  static void operands(auto& op, auto&& visit) {
    const std::size_t rows = op.dy.rows;
    visit.read(op.dy, matrix(rows, op.dw.out));
    visit.read(op.x, matrix(rows, op.dw.in));
    visit.update(op.dw);
  }
  void compute(CpuStream& cpu) const;
};

/// s[k] = sum over o of |w[o][k]|, rule R2 over o. s [in].
struct ColumnL1Norms {
  ConstWeight w;
  float* s;

  static void operands(auto& op, auto&& visit) {
    visit.read(op.w);
    visit.write(op.s, per_column(op.w.in));
  }
  void compute() const;
};

/// z = x gate^T + bias, g = activation(z), u = x up^T + up bias and g u, into y's four blocks
/// (kernels/gated_linear.hpp). x [B, in], y [B, kGatedBlocks * out].
struct GatedLinear {
  GatedWeights w;
  ConstMatrixView x;
  Activation activation;
  MatrixView y;

  static void operands(auto& op, auto&& visit) {
    const std::size_t rows = op.x.rows, out = op.w.gate.out;
    visit.read(op.w.gate);
    visit.read(op.w.up);
    visit.read(op.w.gate_bias, per_column(out));
    visit.read(op.w.up_bias, per_column(out));
    visit.read(op.x, matrix(rows, op.w.gate.in));
    visit.write(op.y, matrix(rows, kGatedBlocks * out));
  }
  void compute(CpuStream& cpu) const;
};

/// dup = dy g; dgate = (dy u) activation'(z). values [B, kGatedBlocks * out] as gated_linear left them, the rest
/// [B, out]. dgate may run in place on dy.
struct GatedBackward {
  Activation activation;
  ConstMatrixView values, dy;
  MatrixView dgate, dup;

  static void operands(auto& op, auto&& visit) {
    const std::size_t rows = op.dy.rows, out = op.dy.cols;
    visit.read(op.values, matrix(rows, kGatedBlocks * out));
    visit.read(op.dy, matrix(rows, out));
    visit.write(op.dgate, matrix(rows, out));
    visit.write(op.dup, matrix(rows, out));
  }
  void compute(CpuStream& cpu) const;
};

}  // namespace weft::kernels::ops
