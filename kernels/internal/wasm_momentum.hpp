// SPDX-License-Identifier: Apache-2.0
// The step of plain momentum by one sample's outer product, for vectors of WebAssembly: where a mesh learns sample by
// sample, much of its time is here. Included by the wasm128 pass alone.
#pragma once

#include "kernels/internal/wasm.hpp"
#include "kernels/views.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace weft::kernels::wasm {

/// Options of a step by momentum without decay or clipping.
struct MomentumStep {
  float momentum, kept_gradient, rate;  // kept_gradient: 1 - dampening
  bool has_shares;
  float velocity_share, gradient_share;
};

/// Gradient, velocity and weight, one operation at a time: of vectors in which a rounding may show twice, or a result
/// is tiny.
[[gnu::noinline, maybe_unused]] static void step_exactly(const float* dy_at, const float* x_at, const MomentumStep& s,
                                                         float* w, float* v) noexcept {
  const v128_t zero = wasm_f32x4_splat(0), weight = wasm_v128_load(w);
  const v128_t dy = wasm_v128_load(dy_at), x = wasm_v128_load32_splat(x_at);
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

/// The least of numbers that are not zero, without their signs; infinity where all are.
inline float least_magnitude(const float* x, std::size_t n) noexcept {
  // Of words times 2 the predecessors, by which zero is the largest.
  v128_t least = wasm_i32x4_splat(-1);
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    least = wasm_u32x4_min(least, wasm_i32x4_sub(doubled(wasm_v128_load(x + i)), wasm_i32x4_splat(1)));
  alignas(16) std::uint32_t found[4];
  wasm_v128_store(found, least);
  for (; i < n; ++i) found[0] = std::min(found[0], 2 * std::bit_cast<std::uint32_t>(x[i]) - 1);
  const std::uint32_t all = std::min(std::min(found[0], found[1]), std::min(found[2], found[3]));
  return all == ~0u ? std::numeric_limits<float>::infinity() : std::bit_cast<float>((all + 1) / 2);
}

/// One panel by `kernels/formulas/optimizers/momentum.inc`, its gradients fma(dy[lane], x[k], 0). Of two vectors' four
/// to sixteen checks is made one.
/// kHasTiny: a product of dy, x and kept_gradient may be tiny. Without shares alone it may be said that none is.
/// @shape  dy [16], x [in], w and v [in][16]
template <bool kHasTiny, bool kHasShares>
[[gnu::noinline]] void momentum_panel(const float* dy, const float* x, std::size_t in, const MomentumStep& s, float* w,
                                      float* v) noexcept {
  static_assert(kHasTiny || !kHasShares);
  constexpr std::size_t kAtOnce = 2;
  struct Stepped {
    v128_t velocity, weight, tail, least;
  };
  const v128_t kept = wasm_f32x4_splat(s.kept_gradient);
  const v128_t momentum = wasm_f64x2_splat(s.momentum), negated_rate = wasm_f64x2_splat(-s.rate);
  const v128_t velocity_share = wasm_f64x2_splat(s.velocity_share), share = wasm_f32x4_splat(s.gradient_share);
  const v128_t bias = kMagnitudeBits, tiny_end = kTinyEnd, half = kHalfTail;
  // Least where a sum stands half way between two floats, and where a result is tiny: as in `fused`.
  const auto tails = [&](v128_t low, v128_t high) __attribute__((always_inline)) {
    return wasm_i32x4_shl(wasm_i32x4_shuffle(low, high, 0, 2, 4, 6), 3);
  };
  const auto order = [&](v128_t result) __attribute__((always_inline)) {
    return wasm_i32x4_add(doubled(result), bias);
  };
  const auto stepped = [&](v128_t errors, v128_t xs, const float* w, const float* v) __attribute__((always_inline)) {
    Stepped to;
    // A weight from itself: what the decay of 0 adds, +0 or NaN. No sum with +0 is -0.
    const v128_t weight = wasm_v128_load(opaque(w));
    const v128_t product = wasm_f32x4_mul(errors, xs);
    const v128_t gradient = wasm_f32x4_add(product, wasm_f32x4_sub(weight, weight));
    const v128_t part = wasm_f32x4_mul(gradient, kept);
    const v128_t low = wasm_f64x2_add(wasm_f64x2_mul(widened(v), momentum), wide(part));
    const v128_t high = wasm_f64x2_add(wasm_f64x2_mul(widened(v + 2), momentum), wide(upper(part)));
    v128_t low_step = wasm_f32x4_demote_f64x2_zero(low), high_step = wasm_f32x4_demote_f64x2_zero(high);
    to.velocity = joined(low_step, high_step);
    to.tail = tails(low, high);
    to.least = order(to.velocity);
    if constexpr (kHasTiny) to.least = wasm_i32x4_min(to.least, wasm_i32x4_min(order(product), order(part)));
    if constexpr (kHasShares) {
      const v128_t other = wasm_f32x4_mul(gradient, share);
      const v128_t low_sum = wasm_f64x2_add(wasm_f64x2_mul(wide(low_step), velocity_share), wide(other));
      const v128_t high_sum = wasm_f64x2_add(wasm_f64x2_mul(wide(high_step), velocity_share), wide(upper(other)));
      low_step = wasm_f32x4_demote_f64x2_zero(low_sum), high_step = wasm_f32x4_demote_f64x2_zero(high_sum);
      to.tail = wasm_i32x4_min(to.tail, tails(low_sum, high_sum));
      to.least = wasm_i32x4_min(to.least, wasm_i32x4_min(order(other), order(joined(low_step, high_step))));
    }
    const v128_t low_next = wasm_f64x2_add(wasm_f64x2_mul(wide(low_step), negated_rate), widened(w));
    const v128_t high_next = wasm_f64x2_add(wasm_f64x2_mul(wide(high_step), negated_rate), widened(w + 2));
    to.weight = joined(wasm_f32x4_demote_f64x2_zero(low_next), wasm_f32x4_demote_f64x2_zero(high_next));
    to.tail = wasm_i32x4_min(to.tail, tails(low_next, high_next));
    to.least = wasm_i32x4_min(to.least, order(to.weight));
    return to;
  };
  for (std::size_t k = 0; k < in; ++k, w += kPanelWidth, v += kPanelWidth) {
    const v128_t xs = wasm_v128_load32_splat(x + k);
#pragma clang loop unroll(full)
    for (std::size_t i = 0; i < kPanelWidth; i += 4 * kAtOnce) {
      const Stepped one = stepped(wasm_v128_load(dy + i), xs, w + i, v + i);
      const Stepped other = stepped(wasm_v128_load(dy + i + 4), xs, w + i + 4, v + i + 4);
      const v128_t tail = wasm_i32x4_min(one.tail, other.tail), least = wasm_i32x4_min(one.least, other.least);
      const v128_t flags = wasm_v128_or(wasm_i32x4_eq(tail, half), wasm_i32x4_lt(least, tiny_end));
      if (__builtin_expect(wasm_i32x4_bitmask(flags) != 0, 0)) {
        step_exactly(dy + i, x + k, s, w + i, v + i);
        step_exactly(dy + i + 4, x + k, s, w + i + 4, v + i + 4);
      } else {
        wasm_v128_store(v + i, one.velocity);
        wasm_v128_store(w + i, one.weight);
        wasm_v128_store(v + i + 4, other.velocity);
        wasm_v128_store(w + i + 4, other.weight);
      }
    }
  }
}

}  // namespace weft::kernels::wasm
