// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/ops/operands.hpp"
#include "kernels/optimizer.hpp"

#include <cstdint>

/// Optimisers, elementwise over n values (kernels/optimizer.hpp).
namespace weft::kernels::ops {

/// Counts an update up, and sets the numbers that go with it: the rate and the corrections.
struct OptimizerFactors {
  std::uint64_t* updates;
  float lr, beta1, beta2;
  RateSchedule schedule;
  float* factors;

  static void operands(auto& op, auto&& visit) {
    visit.update(op.updates, whole(1));
    visit.write(op.factors, whole(kOptimizerFactors));
  }
  void compute() const noexcept { kernels::optimizer_factors(updates, lr, beta1, beta2, schedule, factors); }
};

/// One update of n weights by their gradients, with the arrays of state that the optimiser has. `factors` as
/// `optimizer_factors` set them, or none; `squares` is the sum of squares whose root is limited, or none.
struct OptimizerStep {
  std::size_t n;
  float* w;
  float* first;
  float* second;
  float* third;
  const float* g;
  const float* factors;
  const float* squares;
  OptimizerOptions options;

  static void operands(auto& op, auto&& visit) {
    const Extent all = per_column(op.n);
    visit.update(op.w, all);
    visit.update(op.first, all);
    visit.update(op.second, all);
    visit.update(op.third, all);
    visit.read(op.g, all);
    visit.read(op.factors, whole(kOptimizerFactors));
    visit.read(op.squares, whole(1));
    visit.count(op.n);
  }
  Work work() const noexcept {
    const bool is_moved = options.kind == OptimizerKind::sgd || options.kind == OptimizerKind::momentum;
    return by_elements(1, n, is_moved ? static_cast<double>(2 + arrays_of(options)) * kMoved : kComputed);
  }
  void compute() const noexcept { kernels::optimizer_step({n, w, first, second, third, g, factors, squares}, options); }
};

/// w = w - lr (g + weight_decay w).
inline OptimizerStep sgd_step(std::size_t n, float* w, const float* g, float lr, float weight_decay = 0.0f) noexcept {
  OptimizerStep step{n, w, nullptr, nullptr, nullptr, g, nullptr, nullptr, {}};
  step.options.kind = OptimizerKind::sgd;
  step.options.lr = lr;
  step.options.weight_decay = weight_decay;
  return step;
}

}  // namespace weft::kernels::ops
