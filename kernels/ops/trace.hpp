// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/ops/operands.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/trace.hpp"

#include <cstdint>

namespace weft::kernels {
class CpuStream;
}

/// Eligibility traces and bounded steps (kernels/trace.hpp). `signal` is in memory, kTraceSignal numbers: it changes
/// from step to step.
namespace weft::kernels::ops {

/// z = fma(decay, z, gradient), and the sum of |z| (R2). Gradients are `g` [n]; or without it the outer product of `dy`
/// [1, out] and `x` [1, in], which stays out of memory, z panels of n floats; or without `x` those of a bias, dy + 0.
struct TraceUpdate {
  const float* signal;
  const float* g;
  ConstMatrixView dy, x;
  std::size_t n;
  float* z;
  float* sum;

  static void operands(auto& op, auto&& visit) {
    visit.read(op.signal, whole(kTraceSignal));
    visit.read(op.g, whole(op.n));
    visit.read(op.dy, matrix(1, op.dy.cols));
    visit.read(op.x, matrix(1, op.x.cols));
    visit.update(op.z, whole(op.n));
    visit.write(op.sum, whole(1));
  }
  void compute() const noexcept {
    const float decay = signal[kTraceDecay];
    *sum = g ? kernels::trace_update(z, g, decay, n)
             : kernels::trace_update(z, OuterProduct{dy.data, x.data, dy.cols, x.cols}, decay);
  }
};

/// factors = {rate of a bounded step, 1, 1}, from the `count` sums of all traces that move together; `counts` [layers]
/// says how many of them are a layer's, in their order.
struct BoundedRate {
  const float* signal;
  const float* sums;
  std::size_t count;
  const std::uint32_t* counts;
  std::size_t layers;
  float lr;
  float* factors;

  static void operands(auto& op, auto&& visit) {
    visit.read(op.signal, whole(kTraceSignal));
    visit.read(op.sums, whole(op.count));
    visit.constant(op.counts, whole(op.layers));
    visit.write(op.factors, whole(kOptimizerFactors));
  }
  void compute() const noexcept { kernels::bounded_rate(signal, sums, counts, layers, lr, factors); }
};

/// z = 0 where the episode ends; otherwise z stays.
struct EndTraces {
  const float* signal;
  std::size_t n;
  float* z;

  static void operands(auto& op, auto&& visit) {
    visit.read(op.signal, whole(kTraceSignal));
    visit.update(op.z, whole(op.n));
  }
  void compute(CpuStream& cpu) const;
};

}  // namespace weft::kernels::ops
