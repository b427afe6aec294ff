// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/mixture.hpp"
#include "kernels/ops/operands.hpp"
#include "kernels/squared_distance.hpp"

/// Distances to points, and sums weighted by shares.
namespace weft::kernels::ops {

/// y[b][k] = sum over j of (x[b][j] - c[k][j])^2 (R1). c [points, features], x [rows, features], y [rows, points].
struct SquaredDistances {
  ConstWeight c;
  ConstMatrixView x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) {
    const std::size_t rows = op.x.rows;
    visit.read(op.c);
    visit.read(op.x, matrix(rows, op.c.in));
    visit.write(op.y, matrix(rows, op.c.out));
  }
  void compute() const noexcept { kernels::squared_distances(c, x, y); }
};

/// dx is written (R2 over points), dc added to; data == null: not wanted.
struct SquaredDistancesBackward {
  ConstWeight c;
  ConstMatrixView x, dy;
  MatrixView dx;
  Panels dc;

  static void operands(auto& op, auto&& visit) {
    const std::size_t rows = op.x.rows;
    visit.read(op.c);
    visit.read(op.x, matrix(rows, op.c.in));
    visit.read(op.dy, matrix(rows, op.c.out));
    visit.write(op.dx, matrix(rows, op.c.in));
    visit.update(op.dc, matrix(op.c.out, op.c.in));
  }
  void compute() const noexcept { kernels::squared_distances_backward(c, x, dy, dx, dc); }
};

/// y[b][j] = sum over e ascending of p[b][e] x[b][e * cols + j], from +0, of those whose p is not 0.
struct WeightedSum {
  ConstMatrixView p, x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.y.rows, op.y.cols), shares = matrix(op.p.rows, op.p.cols);
    visit.read(op.p, shares);
    visit.read(op.x, matrix(all.rows, shares.cols * all.cols));
    visit.write(op.y, all);
  }
  void compute() const noexcept { kernels::weighted_sum(p, x, y); }
};

/// dp[b][e] = sum over j of dy[b][j] x[b][e * cols + j] (R2); dx[b][e * cols + j] = p[b][e] dy[b][j]; +0 where p is 0.
struct WeightedSumBackward {
  ConstMatrixView p, x, dy;
  MatrixView dp, dx;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.dy.rows, op.dy.cols), shares = matrix(op.p.rows, op.p.cols);
    visit.read(op.p, shares);
    visit.read(op.x, matrix(all.rows, shares.cols * all.cols));
    visit.read(op.dy, all);
    visit.write(op.dp, shares);
    visit.write(op.dx, matrix(all.rows, shares.cols * all.cols));
  }
  void compute() const noexcept { kernels::weighted_sum_backward(p, x, dy, dp, dx); }
};

}  // namespace weft::kernels::ops
