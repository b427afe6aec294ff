// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/encode.hpp"
#include "kernels/loss.hpp"
#include "kernels/ops/operands.hpp"
#include "kernels/optimizer.hpp"

#include <cstdint>

/// Losses of regression, optimisers (elementwise over n values: kernels/optimizer.hpp), and weights stored anew.
namespace weft::kernels::ops {

/// loss[b] = mean over j of (x - target)^2; dx = 2 (x - target) / cols.
struct MeanSquaredError {
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
  void compute() const noexcept { kernels::mean_squared_error(x, target, loss, dx); }
};

/// w = w - lr (g + weight_decay w).
struct Sgd {
  std::size_t n;
  float* w;
  const float* g;
  float lr, weight_decay;

  static void operands(auto& op, auto&& visit) {
    const Extent all = per_column(op.n);
    visit.update(op.w, all);
    visit.read(op.g, all);
    visit.count(op.n);
  }
  Work work() const noexcept { return by_elements(1, n, 2 * kMoved); }
  void compute() const noexcept { kernels::sgd(n, w, g, lr, weight_decay); }
};

/// v = momentum v + (1 - dampening) g; w = w - lr v, or with nesterov w = w - lr (g + momentum v). g includes decay.
struct Momentum {
  std::size_t n;
  float* w;
  float* v;
  const float* g;
  float lr, momentum, dampening;
  bool nesterov;
  float weight_decay;

  static void operands(auto& op, auto&& visit) {
    const Extent all = per_column(op.n);
    visit.update(op.w, all);
    visit.update(op.v, all);
    visit.read(op.g, all);
    visit.count(op.n);
  }
  Work work() const noexcept { return by_elements(1, n, 3 * kMoved); }
  void compute() const noexcept { kernels::momentum(n, w, v, g, lr, momentum, dampening, nesterov, weight_decay); }
};

/// One more step of AdamW: counts `*step` up and sets the two corrections that go with it.
struct AdamwStep {
  std::uint64_t* step;
  float beta1, beta2;
  float* corrections;

  static void operands(auto& op, auto&& visit) {
    visit.update(op.step, whole(1));
    visit.write(op.corrections, whole(2));
  }
  void compute() const noexcept { kernels::adamw_step(step, beta1, beta2, corrections); }
};

/// AdamW with decoupled decay; `corrections` as `adamw_step` set them.
struct Adamw {
  std::size_t n;
  float* w;
  float* m;
  float* v;
  const float* g;
  float lr, beta1, beta2, epsilon, weight_decay;
  const float* corrections;

  static void operands(auto& op, auto&& visit) {
    const Extent all = per_column(op.n);
    visit.update(op.w, all);
    visit.update(op.m, all);
    visit.update(op.v, all);
    visit.read(op.g, all);
    visit.read(op.corrections, whole(2));
    visit.count(op.n);
  }
  Work work() const noexcept { return by_elements(1, n, kComputed); }
  void compute() const noexcept { kernels::adamw(n, w, m, v, g, lr, beta1, beta2, epsilon, weight_decay, corrections); }
};

/// Scales, zero points and codes of a float32 matrix in the encoding that `to` names, over all of its arrays.
struct Encode {
  ConstPanels master;
  Weight to;

  static void operands(auto& op, auto&& visit) {
    visit.read(op.master, matrix(op.to.out, op.to.in));
    visit.write(op.to);
  }
  void compute() const { kernels::encode(master, to); }
};

}  // namespace weft::kernels::ops
