// SPDX-License-Identifier: Apache-2.0
// Rule R1 (docs/numerics.md) of one row against one panel, for vectors of WebAssembly. Sums stay binary64 from step to
// step, and a chunk's steps are checked once, at its end; what may have been rounded twice is summed again, step by
// step. Included by the wasm128 pass alone.
#pragma once

#include "kernels/internal/wasm.hpp"
#include "kernels/views.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::kernels::wasm {

inline constexpr std::size_t kPanelParts = kPanelWidth / 4;

/// True when the numbers have 8 significant bits or fewer, as pixels and labels do. Their products are short, so that
/// sums stand half way between two floats often, but are exact.
inline bool are_short(const float* x, std::size_t n) noexcept {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < n; ++i) bits |= std::bit_cast<std::uint32_t>(x[i]);
  return (bits & 0xffff) == 0;
}

/// Sums of up to 64 steps. False: they are to be made by `chunk_exactly`.
template <bool kIsShort>
bool chunk(const float* w, const float* x, std::size_t length, v128_t (&sum)[kPanelParts]) noexcept {
  const v128_t bias = kMagnitudeBits;
  v128_t low[kPanelParts], high[kPanelParts];
#pragma clang loop unroll(full)
  for (std::size_t i = 0; i < kPanelParts; ++i) low[i] = high[i] = wasm_f64x2_splat(0);
  v128_t inexact = wasm_f64x2_splat(0), tail = bias, least = bias;
  for (std::size_t k = 0; k < length; ++k, w += kPanelWidth) {
    const v128_t xs = wasm_f64x2_splat(x[k]);
#pragma clang loop unroll(full)
    for (std::size_t i = 0; i < kPanelParts; ++i) {
      const v128_t weight = wasm_v128_load(w + 4 * i);
      const v128_t low_product = wasm_f64x2_mul(wide(weight), xs),
                   high_product = wasm_f64x2_mul(wide(upper(weight)), xs);
      const v128_t low_sum = wasm_f64x2_add(low_product, low[i]), high_sum = wasm_f64x2_add(high_product, high[i]);
      if constexpr (kIsShort) {
        // Exact sums give both terms back.
        const auto lost = [](v128_t a, v128_t b, v128_t total) {
          return wasm_v128_or(wasm_f64x2_sub(wasm_f64x2_sub(total, a), b), wasm_f64x2_sub(wasm_f64x2_sub(total, b), a));
        };
        inexact = wasm_v128_or(inexact,
                               wasm_v128_or(lost(low_product, low[i], low_sum), lost(high_product, high[i], high_sum)));
      } else {
        tail = wasm_i32x4_min(tail, wasm_i32x4_shl(wasm_i32x4_shuffle(low_sum, high_sum, 0, 2, 4, 6), 3));
      }
      const v128_t low_float = wasm_f32x4_demote_f64x2_zero(low_sum),
                   high_float = wasm_f32x4_demote_f64x2_zero(high_sum);
      sum[i] = joined(low_float, high_float);
      least = wasm_i32x4_min(least, wasm_i32x4_add(wasm_i32x4_shl(sum[i], 1), bias));
      low[i] = wide(low_float), high[i] = wide(high_float);
    }
  }
  const v128_t flags = wasm_v128_or(wasm_i32x4_eq(tail, kHalfTail), wasm_i32x4_lt(least, kTinyEnd));
  return !wasm_v128_any_true(wasm_v128_or(flags, inexact));
}

[[gnu::noinline]] inline void chunk_exactly(const float* w, const float* x, std::size_t length,
                                            v128_t (&sum)[kPanelParts]) noexcept {
  for (std::size_t i = 0; i < kPanelParts; ++i) {
    sum[i] = wasm_f32x4_splat(0);
    for (std::size_t k = 0; k < length; ++k)
      sum[i] = fused(wasm_v128_load(w + k * kPanelWidth + 4 * i), wasm_f32x4_splat(x[k]), sum[i]);
  }
}

/// The panel's 16 totals, chunks of 64 steps added in order. `short_chunks`: a bit for each of the first 64 chunks,
/// set where `are_short` says so.
[[gnu::noinline]] inline void dot_panel(const float* w, const float* x, std::size_t in, std::uint64_t short_chunks,
                                        v128_t (&total)[kPanelParts]) noexcept {
  for (std::size_t i = 0; i < kPanelParts; ++i) total[i] = wasm_f32x4_splat(0);
  for (std::size_t k = 0; k < in; k += kChunk, short_chunks >>= 1) {
    const std::size_t length = in - k < kChunk ? in - k : kChunk;
    v128_t sum[kPanelParts];
    const bool is_done = short_chunks & 1 ? chunk<true>(w + k * kPanelWidth, x + k, length, sum)
                                          : chunk<false>(w + k * kPanelWidth, x + k, length, sum);
    if (!is_done) chunk_exactly(w + k * kPanelWidth, x + k, length, sum);
    for (std::size_t i = 0; i < kPanelParts; ++i) total[i] = flushed(wasm_f32x4_add(total[i], sum[i]));
  }
}

}  // namespace weft::kernels::wasm
