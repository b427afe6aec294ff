// SPDX-License-Identifier: Apache-2.0
// The step of plain momentum by one sample's outer product, for vectors of WebAssembly: where a mesh learns sample by
// sample, half of its time is here. Included by the wasm128 pass alone.
#pragma once

#include "kernels/internal/wasm.hpp"
#include "kernels/views.hpp"

#include <cstddef>

namespace weft::kernels::wasm {

/// Options of a step by momentum without decay or clipping.
struct MomentumStep {
  float momentum, kept_gradient, rate;  // kept_gradient: 1 - dampening
  bool has_shares;
  float velocity_share, gradient_share;
};

/// Gradient, velocity and weight, one operation at a time: of vectors in which a rounding may show twice, or a result
/// is tiny.
[[gnu::noinline, maybe_unused]] static void step_exactly(v128_t dy, v128_t x, const MomentumStep& s, float* w,
                                                         float* v) noexcept {
  const v128_t zero = wasm_f32x4_splat(0), weight = wasm_v128_load(w);
  const v128_t gradient = fused_exactly(zero, weight, fused_exactly(dy, x, zero));
  const v128_t velocity = fused_exactly(wasm_f32x4_splat(s.momentum), wasm_v128_load(v),
                                        multiplied_exactly(wasm_f32x4_splat(s.kept_gradient), gradient));
  wasm_v128_store(v, velocity);
  v128_t direction = velocity;
  if (s.has_shares)
    direction = fused_exactly(wasm_f32x4_splat(s.velocity_share), velocity,
                              multiplied_exactly(wasm_f32x4_splat(s.gradient_share), gradient));
  wasm_v128_store(w, fused_exactly(wasm_f32x4_splat(-s.rate), direction, weight));
}

/// One panel by `kernels/formulas/optimizers/momentum.inc`, its gradients fma(dy[lane], x[k], 0). Of a vector's five or
/// eight checks is made one.
/// @shape  dy [16], x [in], w and v [in][16]
template <bool kHasShares>
[[gnu::noinline]] void momentum_panel(const float* dy, const float* x, std::size_t in, const MomentumStep& s, float* w,
                                      float* v) noexcept {
  constexpr std::size_t kVectors = kPanelWidth / 4;
  const v128_t zero = wasm_f32x4_splat(0), kept = wasm_f32x4_splat(s.kept_gradient);
  const v128_t momentum = wasm_f64x2_splat(s.momentum), negated_rate = wasm_f64x2_splat(-s.rate);
  const v128_t velocity_share = wasm_f64x2_splat(s.velocity_share), share = wasm_f32x4_splat(s.gradient_share);
  const v128_t bias = kMagnitudeBits, tiny_end = kTinyEnd, half = kHalfTail;
  // Least where a sum stands half way between two floats, and where a result is tiny: as in `fused`.
  const auto tails = [](v128_t low, v128_t high) {
    return wasm_i32x4_shl(wasm_i32x4_shuffle(low, high, 0, 2, 4, 6), 3);
  };
  const auto order = [&](v128_t result) { return wasm_i32x4_add(wasm_i32x4_shl(result, 1), bias); };
  for (std::size_t k = 0; k < in; ++k, w += kPanelWidth, v += kPanelWidth) {
    const v128_t xs = wasm_v128_load32_splat(x + k);
#pragma clang loop unroll(full)
    for (std::size_t i = 0; i < kVectors; ++i) {
      const v128_t errors = wasm_v128_load(dy + 4 * i), weight = wasm_v128_load(w + 4 * i);
      const v128_t product = wasm_f32x4_add(wasm_f32x4_mul(errors, xs), zero);
      const v128_t gradient = wasm_f32x4_add(wasm_f32x4_mul(weight, zero), product);
      const v128_t part = wasm_f32x4_mul(gradient, kept), before = wasm_v128_load(v + 4 * i);
      const v128_t low = wasm_f64x2_add(wasm_f64x2_mul(wide(before), momentum), wide(part));
      const v128_t high = wasm_f64x2_add(wasm_f64x2_mul(wide(upper(before)), momentum), wide(upper(part)));
      v128_t low_step = wasm_f32x4_demote_f64x2_zero(low), high_step = wasm_f32x4_demote_f64x2_zero(high);
      const v128_t velocity = joined(low_step, high_step);
      v128_t tail = tails(low, high);
      v128_t least = wasm_i32x4_min(wasm_i32x4_min(order(product), order(part)), order(velocity));
      if constexpr (kHasShares) {
        const v128_t other = wasm_f32x4_mul(gradient, share);
        const v128_t low_sum = wasm_f64x2_add(wasm_f64x2_mul(wide(low_step), velocity_share), wide(other));
        const v128_t high_sum = wasm_f64x2_add(wasm_f64x2_mul(wide(high_step), velocity_share), wide(upper(other)));
        low_step = wasm_f32x4_demote_f64x2_zero(low_sum), high_step = wasm_f32x4_demote_f64x2_zero(high_sum);
        tail = wasm_i32x4_min(tail, tails(low_sum, high_sum));
        least = wasm_i32x4_min(least, wasm_i32x4_min(order(other), order(joined(low_step, high_step))));
      }
      const v128_t low_next = wasm_f64x2_add(wasm_f64x2_mul(wide(low_step), negated_rate), wide(weight));
      const v128_t high_next = wasm_f64x2_add(wasm_f64x2_mul(wide(high_step), negated_rate), wide(upper(weight)));
      const v128_t next = joined(wasm_f32x4_demote_f64x2_zero(low_next), wasm_f32x4_demote_f64x2_zero(high_next));
      tail = wasm_i32x4_min(tail, tails(low_next, high_next));
      least = wasm_i32x4_min(least, order(next));
      if (__builtin_expect(
              wasm_i32x4_bitmask(wasm_v128_or(wasm_i32x4_eq(tail, half), wasm_i32x4_lt(least, tiny_end))) != 0, 0)) {
        step_exactly(errors, xs, s, w + 4 * i, v + 4 * i);
      } else {
        wasm_v128_store(v + 4 * i, velocity);
        wasm_v128_store(w + 4 * i, next);
      }
    }
  }
}

}  // namespace weft::kernels::wasm
