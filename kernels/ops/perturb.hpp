// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/ops/operands.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/perturb.hpp"
#include "kernels/views.hpp"

#include <array>
#include <cstdint>

/// Steps with noise, by utilities of weights (kernels/perturb.hpp).
namespace weft::kernels::ops {

/// Utilities of n weights take their gradients in; *largest = the larger of it and them.
struct UtilityUpdate {
  std::size_t n;
  float* u;
  const float* w;
  const float* g;
  float decay;
  float* largest;

  static void operands(auto& op, auto&& visit) {
    visit.update(op.u, whole(op.n));
    visit.read(op.w, whole(op.n));
    visit.read(op.g, whole(op.n));
    visit.update(op.largest, whole(1));
  }
  void compute() const noexcept {
    const float found = kernels::utility_update(u, w, g, decay, n);
    if (found > *largest) *largest = found;
  }
};

/// *y = the largest of n values, at least 0; a NaN is none.
struct Largest {
  std::size_t n;
  const float* x;
  float* y;

  static void operands(auto& op, auto&& visit) {
    visit.read(op.x, whole(op.n));
    visit.write(op.y, whole(1));
  }
  void compute() const noexcept {
    float found = 0.0f;
    for (std::size_t i = 0; i < n; ++i)
      if (x[i] > found) found = x[i];
    *y = found;
  }
};

/// One perturbed update of a parameter: of a matrix [out, in], whose arrays are panels; with `in` 0 of `out` values.
/// `factors` has the rate, as `optimizer_factors` set it, `updates` the number of the noise, `largest` the largest
/// utility of all; `squares` is the sum of squares whose root is limited to `limit`, or null.
struct PerturbedStep {
  std::size_t out, in;
  float* w;
  const float* u;
  const float* g;
  const float* factors;
  const std::uint64_t* updates;
  const float* largest;
  const float* squares;
  float limit, weight_decay, deviation;
  bool protects;
  std::array<std::uint32_t, 2> key;

  std::size_t size() const noexcept { return in > 0 ? panels_size(out, in) : out; }
  static void operands(auto& op, auto&& visit) {
    visit.update(op.w, whole(op.size()));
    visit.read(op.u, whole(op.size()));
    visit.read(op.g, whole(op.size()));
    visit.read(op.factors, whole(kOptimizerFactors));
    visit.read(op.updates, whole(1));
    visit.read(op.largest, whole(1));
    visit.read(op.squares, whole(1));
  }
  void compute() const noexcept {
    kernels::perturbed_step({.out = out,
                             .in = in,
                             .w = w,
                             .u = u,
                             .g = g,
                             .squares = squares,
                             .limit = limit,
                             .rate = factors[0],
                             .weight_decay = weight_decay,
                             .deviation = deviation,
                             .largest = *largest,
                             .protects = protects,
                             .key = key,
                             .update = *updates});
  }
};

}  // namespace weft::kernels::ops
