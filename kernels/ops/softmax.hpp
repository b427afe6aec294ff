// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/entmax.hpp"
#include "kernels/gumbel.hpp"
#include "kernels/log_softmax.hpp"
#include "kernels/loss.hpp"
#include "kernels/mixture.hpp"
#include "kernels/ops/operands.hpp"
#include "kernels/softmax.hpp"

#include <cstdint>

/// Probabilities along each row, by R2, and choices among a row's elements.
namespace weft::kernels::ops {

/// y = softmax(x / temperature) along each row, the row's maximum subtracted first. May run in place.
struct Softmax {
  ConstMatrixView x;
  float temperature;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.x); }
  void compute() const noexcept { kernels::softmax(x, temperature, y); }
};

/// dx = y (dy - sum(y dy)) / temperature. May run in place on dy.
struct SoftmaxBackward {
  ConstMatrixView y, dy;
  float temperature;
  MatrixView dx;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.dx, op.y, op.dy); }
  void compute() const noexcept { kernels::softmax_backward(y, dy, temperature, dx); }
};

/// y = alpha-entmax(x / temperature) along each row by bisection, alpha_minus_one > 0: 0.5 is 1.5-entmax, 1 sparsemax.
/// May run in place.
struct Entmax {
  ConstMatrixView x;
  float alpha_minus_one, temperature;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.x); }
  void compute() const noexcept { kernels::entmax(x, alpha_minus_one, temperature, y); }
};

/// dx = s (dy - sum(s dy) / sum(s)) / temperature, s = y^(2 - alpha) where y > 0. May run in place on dy.
struct EntmaxBackward {
  ConstMatrixView y, dy;
  float alpha_minus_one, temperature;
  MatrixView dx;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.dx, op.y, op.dy); }
  void compute() const noexcept { kernels::entmax_backward(y, dy, alpha_minus_one, temperature, dx); }
};

/// y = log softmax(x) + base[row]; base [rows, 1] or data null. May run in place.
struct LogSoftmax {
  ConstMatrixView x, base;
  MatrixView y;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.y.rows, op.y.cols);
    visit.read(op.x, all);
    visit.read(op.base, matrix(all.rows, 1));
    visit.write(op.y, all);
  }
  void compute() const noexcept { kernels::log_softmax(x, base, y); }
};

/// dx = dy - exp(y - base) sum(dy); sum(dy) is added to dbase [rows, 1], unless data is null. May run in place on dy.
struct LogSoftmaxBackward {
  ConstMatrixView y, base, dy;
  MatrixView dx, dbase;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.dx.rows, op.dx.cols);
    visit.read(op.y, all);
    visit.read(op.base, matrix(all.rows, 1));
    visit.read(op.dy, all);
    visit.write(op.dx, all);
    visit.update(op.dbase, matrix(all.rows, 1));
  }
  void compute() const noexcept { kernels::log_softmax_backward(y, base, dy, dx, dbase); }
};

/// loss[b] = -log softmax(x)[label[b]]; dx = softmax(x) - onehot(label). Labels below cols.
struct CrossEntropy {
  ConstMatrixView logits;
  const std::uint32_t* labels;
  float* loss;
  MatrixView dx;

  static void operands(auto& op, auto&& visit) {
    const Extent all = matrix(op.logits.rows, op.logits.cols);
    visit.read(op.logits, all);
    visit.read(op.labels, per_row(all.rows));
    visit.write(op.loss, per_row(all.rows));
    visit.write(op.dx, all);
  }
  void compute() const noexcept { kernels::cross_entropy(logits, labels, loss, dx); }
};

/// y = x where it is among the `count` largest of its row (of equal ones the first), -inf elsewhere. May run in place.
struct TopKMask {
  ConstMatrixView x;
  std::size_t count;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.x); }
  void compute() const noexcept { kernels::top_k_mask(x, count, y); }
};

/// y = 1 at the first of a row's largest elements, 0 elsewhere. May run in place.
struct ArgmaxOneHot {
  ConstMatrixView x;
  MatrixView y;

  static void operands(auto& op, auto&& visit) { map_operands(visit, op.y, op.x); }
  void compute() const noexcept { kernels::argmax_one_hot(x, y); }
};

}  // namespace weft::kernels::ops
