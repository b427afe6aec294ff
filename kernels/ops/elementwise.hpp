// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/binary.hpp"
#include "kernels/log_softmax.hpp"
#include "kernels/math_rows.hpp"
#include "kernels/max_backward.hpp"
#include "kernels/ops/operands.hpp"
#include "kernels/squared_distance.hpp"
#include "kernels/target_rules.hpp"
#include "kernels/unary.hpp"

namespace weft::kernels::ops {

/// y = activation(x). May run in place.
struct Unary {
  Activation activation;
  ConstMatrixView x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.x); }
  Work work() const noexcept { return by_elements(y.rows, y.cols, kComputed); }
  void compute() const noexcept { kernels::unary(activation, x, y); }
};

/// dx = dy * activation'(z), with y = activation(z) given. May run in place on dy.
struct UnaryBackward {
  Activation activation;
  ConstMatrixView z, y, dy;
  MatrixView dx;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.dx.rows, op.dx.cols);
    visit.read_if(needs_preactivation(op.activation), op.z, all);
    visit.read_if(!needs_preactivation(op.activation), op.y, all);
    visit.read(op.dy, all);
    visit.write(op.dx, all);
  }
  Work work() const noexcept { return by_elements(dx.rows, dx.cols, kMoved); }
  void compute() const noexcept { kernels::unary_backward(activation, z, y, dy, dx); }
};

/// y = a op b, element by element. May run in place.
struct Binary {
  BinaryOp op;
  ConstMatrixView a, b;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.a, op.b); }
  Work work() const noexcept { return by_elements(y.rows, y.cols, kMoved); }
  void compute() const noexcept { kernels::binary(op, a, b, y); }
};

/// y = alpha x. May run in place.
struct Scale {
  float alpha;
  ConstMatrixView x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.x); }
  Work work() const noexcept { return by_elements(y.rows, y.cols, kMoved); }
  void compute() const noexcept { kernels::scale(alpha, x, y); }
};

/// y = fma(alpha, x, y).
struct Axpy {
  float alpha;
  ConstMatrixView x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.y.rows, op.y.cols);
    visit.read(op.x, all);
    visit.update(op.y, all);
  }
  Work work() const noexcept { return by_elements(y.rows, y.cols, kMoved); }
  void compute() const noexcept { kernels::axpy(alpha, x, y); }
};

struct Copy {
  ConstMatrixView x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.x); }
  Work work() const noexcept { return by_elements(y.rows, y.cols, kMoved); }
  void compute() const noexcept { kernels::copy(x, y); }
};

struct Fill {
  float value;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { visit.write(op.y, matrix(op.y.rows, op.y.cols)); }
  Work work() const noexcept { return by_elements(y.rows, y.cols, kMoved); }
  void compute() const noexcept { kernels::fill(value, y); }
};

/// The backward of an elementwise maximum, source by source (kernels/max_backward.hpp).
struct MaxBackward {
  ConstMatrixView source, x;
  MatrixView left, d;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.x.rows, op.x.cols);
    visit.read(op.source, all);
    visit.read(op.x, all);
    visit.update(op.left, all);
    visit.write(op.d, all);
  }
  void compute() const noexcept { kernels::max_backward(source, x, left, d); }
};

/// y = sqrt(x). May run in place.
struct SquareRoot {
  ConstMatrixView x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.x); }
  void compute() const noexcept { kernels::square_root(x, y); }
};

/// dx = dy / (2 y), 0 where y is 0. May run in place on dy.
struct SquareRootBackward {
  ConstMatrixView y, dy;
  MatrixView dx;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.dx, op.y, op.dy); }
  void compute() const noexcept { kernels::square_root_backward(y, dy, dx); }
};

/// y = function(x), of kernels/math.hpp. May run in place.
struct MathFunction {
  Function function;
  ConstMatrixView x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.x); }
  void compute() const noexcept { kernels::apply(function, x, y); }
};

/// y = log(max(x, 2^-126)). May run in place.
struct ClampedLog {
  ConstMatrixView x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.x); }
  void compute() const noexcept { kernels::clamped_log(x, y); }
};

/// dx = dy / max(x, 2^-126). May run in place on dy.
struct ClampedLogBackward {
  ConstMatrixView x, dy;
  MatrixView dx;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.dx, op.x, op.dy); }
  void compute() const noexcept { kernels::clamped_log_backward(x, dy, dx); }
};

/// y[b][j] = s[b] x[b][j] (kernels/target_rules.hpp).
struct ScaleRows {
  const float* s;
  ConstMatrixView x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.y.rows, op.y.cols);
    visit.read(op.s, per_row(all.rows));
    visit.read(op.x, all);
    visit.write(op.y, all);
  }
  void compute() const noexcept { kernels::scale_rows(s, x, y); }
};

/// The gap rule's displacement (kernels/target_rules.hpp). sums [cols].
struct GapResidual {
  ConstMatrixView weighted;
  const float* sums;
  ConstMatrixView x;
  MatrixView d;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.d.rows, op.d.cols);
    visit.read(op.weighted, all);
    visit.read(op.sums, per_column(all.cols));
    visit.read(op.x, all);
    visit.write(op.d, all);
  }
  void compute() const noexcept { kernels::gap_residual(weighted, sums, x, d); }
};

}  // namespace weft::kernels::ops
