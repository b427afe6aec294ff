// SPDX-License-Identifier: Apache-2.0
// Rule R1 (docs/numerics.md) of one row, for vectors of WebAssembly. Sums stay binary64 from step to step, and a
// chunk's steps are checked once, at its end; what may have been rounded twice is summed again, step by step. Inputs
// that are zero take no step. Included by the wasm128 pass alone.
#pragma once

#include "kernels/internal/wasm.hpp"
#include "kernels/views.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::kernels::wasm {

inline constexpr std::size_t kHalfParts = kPanelWidth / 8;  // vectors of half a panel

/// Inputs of one chunk as its steps take them.
struct ChunkInputs {
  enum class Kind {
    any,
    few_bits,   // 8 significant bits or fewer, as labels and pixels have: sums stand half way between two floats often
    multiples,  // few bits, and all of them multiples of 2^-8: most sums are exact
  };

  ChunkInputs(const float* x, std::size_t length) noexcept : x(x), length(length) {
    const std::uint32_t bits = spread();
    padded = count + count % 2;
    values[count] = 0;
    if (count == length) places[count] = 0;
    if (bits & 0xffff) {
      const v128_t scale = wasm_f64x2_splat(0x1p-127);
      for (std::size_t i = 0; i < padded; i += 2)
        wasm_v128_store(values + i, wasm_f64x2_mul(wasm_v128_load(values + i), scale));
      return;
    }
    kind = Kind::multiples;
    for (std::size_t i = 0; i < count; ++i) {
      const auto mantissa = std::bit_cast<std::uint64_t>(values[i]);
      // The last bit that is set, as a number: without it, and the difference.
      const double rest = std::bit_cast<double>(mantissa & (mantissa - 1));
      unit = std::min(unit, mantissa << 12 ? __builtin_fabs(values[i] - rest) : __builtin_fabs(values[i]));
    }
    if (unit < 0x1p-8) kind = Kind::few_bits;
  }

  const float* x;
  std::size_t length, count = 0, padded;  // count: that are not zero; padded: to an even number, by a zero
  Kind kind = Kind::any;
  double unit = 0x1p127;                  // of which all are multiples, where they have few bits
  alignas(16) double values[kChunk + 2];  // those that are not zero; times 2^-127 of kind `any`
  std::uint8_t places[kChunk + 1];        // theirs, then those of zeros

 private:
  /// Sets values, places and count; gives the bits that are set in any input.
  std::uint32_t spread() noexcept {
    v128_t bits = wasm_i32x4_splat(0), is_zero = bits;
    std::size_t k = 0;
    for (; k + 4 <= length; k += 4) {
      const v128_t xs = wasm_v128_load(x + k);
      bits = wasm_v128_or(bits, xs);
      is_zero = wasm_v128_or(is_zero, wasm_f32x4_eq(xs, wasm_f32x4_splat(0)));
      wasm_v128_store(values + k, wide(xs));
      wasm_v128_store(values + k + 2, wide(upper(xs)));
    }
    bool is_any_zero = wasm_v128_any_true(is_zero);
    alignas(16) std::uint32_t words[4];
    wasm_v128_store(words, bits);
    std::uint32_t all = words[0] | words[1] | words[2] | words[3];
    for (; k < length; ++k) {
      all |= std::bit_cast<std::uint32_t>(x[k]);
      is_any_zero |= x[k] == 0.0f;
      values[k] = x[k];
    }
    if (!is_any_zero) {
      for (; count < length; ++count) places[count] = static_cast<std::uint8_t>(count);
      return all;
    }
    for (std::size_t last = length, i = 0; i < length; ++i) {
      const bool is_zero_here = values[i] == 0;
      values[count] = values[i];
      places[is_zero_here ? --last : count] = static_cast<std::uint8_t>(i);
      count += !is_zero_here;
    }
    return all;
  }
};

/// Set where a weight that a zero is multiplied with is infinite or NaN: of all others nothing comes.
[[gnu::always_inline]] inline v128_t not_finite(const float* w, const ChunkInputs& of) noexcept {
  v128_t most = wasm_i32x4_splat(0);
  for (std::size_t i = of.count; i < of.length; ++i) {
    const float* const line = w + of.places[i] * kPanelWidth;
#pragma clang loop unroll(full)
    for (std::size_t j = 0; j < kHalfParts; ++j)
      most = wasm_u32x4_max(most, wasm_i32x4_shl(wasm_v128_load(line + 4 * j), 1));
  }
  return wasm_u32x4_ge(most, wasm_i32x4_splat(static_cast<std::int32_t>(0xff000000)));
}

/// Sums of half a panel's lanes over the inputs of any chunk. False: they are to be made by `half_exactly`.
[[gnu::always_inline]] inline bool half_of_any(const float* w, const ChunkInputs& of,
                                               v128_t (&sum)[kHalfParts]) noexcept {
  const v128_t half = kHalfUnit, kept = kFloatBits, rest = kTailBits, bias = kMagnitudeBits;
  v128_t sums[2 * kHalfParts];
#pragma clang loop unroll(full)
  for (v128_t& each : sums) each = wasm_f64x2_splat(0);
  v128_t tail = wasm_i32x4_splat(-1), least = bias, seen = wasm_i32x4_splat(0);
  const auto step = [&](std::size_t i) __attribute__((always_inline)) {
    const float* const line = w + of.places[i] * kPanelWidth;
    const v128_t xs = wasm_v128_load64_splat(of.values + i);
#pragma clang loop unroll(full)
    for (std::size_t j = 0; j < kHalfParts; ++j) {
      v128_t &low = sums[2 * j], &high = sums[2 * j + 1];
      // Rounded to 24 bits: half of a unit is added, and the rest cut off. A sum that stood half way shows a rest of 0.
      const v128_t l = wasm_i64x2_add(wasm_f64x2_add(wasm_f64x2_mul(widened(line + 4 * j), xs), low), half);
      const v128_t h = wasm_i64x2_add(wasm_f64x2_add(wasm_f64x2_mul(widened(line + 4 * j + 2), xs), high), half);
      tail = wasm_u32x4_min(tail, wasm_v128_and(wasm_i32x4_shuffle(l, h, 0, 2, 4, 6), rest));
      low = wasm_v128_and(l, kept), high = wasm_v128_and(h, kept);
    }
  };
  const auto upper_words = [&](std::size_t j) __attribute__((always_inline)) {
    return wasm_i32x4_shuffle(sums[2 * j], sums[2 * j + 1], 1, 3, 5, 7);
  };
  // Tiny sums are looked for after every second step, as sums below 2^-60. What would have been flushed after the first
  // step is below 2^-126: less than the last bit of binary64 of a product that leads to 2^-60 or more.
  for (std::size_t i = 0; i < of.padded; i += 2) {
    step(i);
#pragma clang loop unroll(full)
    for (std::size_t j = 0; j < kHalfParts; ++j) seen = wasm_v128_or(seen, upper_words(j));
    step(i + 1);
#pragma clang loop unroll(full)
    for (std::size_t j = 0; j < kHalfParts; ++j) {
      seen = wasm_v128_or(seen, upper_words(j));
      least = wasm_i32x4_min(least, wasm_i32x4_add(doubled(upper_words(j)), bias));
    }
  }
  // Inputs are scaled so that what would be 2^128 is 2, the first number with the highest bit of the exponent.
  const v128_t large = wasm_v128_and(seen, wasm_i32x4_splat(0x40000000));
  const v128_t tiny = wasm_i32x4_lt(least, wasm_i32x4_splat(static_cast<std::int32_t>(0x7fffffffu + (836u << 21))));
  const v128_t is_half = wasm_i32x4_eq(tail, wasm_i32x4_splat(0));
  const v128_t scale = wasm_f64x2_splat(0x1p127);
#pragma clang loop unroll(full)
  for (std::size_t j = 0; j < kHalfParts; ++j)
    sum[j] = joined(wasm_f32x4_demote_f64x2_zero(wasm_f64x2_mul(sums[2 * j], scale)),
                    wasm_f32x4_demote_f64x2_zero(wasm_f64x2_mul(sums[2 * j + 1], scale)));
  return !wasm_v128_any_true(wasm_v128_or(wasm_v128_or(large, tiny), wasm_v128_or(is_half, not_finite(w, of))));
}

/// The same over inputs that are multiples of their unit: products and sums are multiples of the unit times that of the
/// least weight, and exact where 53 bits hold the largest of them.
[[gnu::always_inline]] inline bool half_of_multiples(const float* w, const ChunkInputs& of,
                                                     v128_t (&sum)[kHalfParts]) noexcept {
  const v128_t bias = kMagnitudeBits;
  v128_t sums[2 * kHalfParts];
#pragma clang loop unroll(full)
  for (v128_t& each : sums) each = wasm_f64x2_splat(0);
  v128_t most = wasm_i32x4_splat(0), least = bias;
#pragma clang loop unroll_count(2)
  for (std::size_t i = 0; i < of.padded; ++i) {
    const float* const line = w + of.places[i] * kPanelWidth;
    const float* const again = opaque(line);
    const v128_t xs = wasm_v128_load64_splat(of.values + i);
#pragma clang loop unroll(full)
    for (std::size_t j = 0; j < kHalfParts; ++j) {
      v128_t &low = sums[2 * j], &high = sums[2 * j + 1];
      low = wasm_f64x2_add(wasm_f64x2_mul(widened(line + 4 * j), xs), low);
      high = wasm_f64x2_add(wasm_f64x2_mul(widened(line + 4 * j + 2), xs), high);
      most = wasm_u32x4_max(most, doubled(wasm_i32x4_shuffle(low, high, 1, 3, 5, 7)));
      least = wasm_i32x4_min(least, wasm_i32x4_add(doubled(wasm_v128_load(again + 4 * j)), bias));
      low = wide(opaque(wasm_f32x4_demote_f64x2_zero(low))), high = wide(opaque(wasm_f32x4_demote_f64x2_zero(high)));
    }
  }
#pragma clang loop unroll(full)
  for (std::size_t j = 0; j < kHalfParts; ++j)
    sum[j] = joined(wasm_f32x4_demote_f64x2_zero(sums[2 * j]), wasm_f32x4_demote_f64x2_zero(sums[2 * j + 1]));
  // Exponents of the largest sum and of the least weight's last bit.
  alignas(16) std::uint32_t largest[4];
  alignas(16) std::int32_t smallest[4];
  wasm_v128_store(largest, most), wasm_v128_store(smallest, least);
  const std::uint32_t top = *std::max_element(largest, largest + 4);
  const std::uint32_t weight = static_cast<std::uint32_t>(*std::min_element(smallest, smallest + 4)) + 0x80000001u;
  const std::int32_t above = static_cast<std::int32_t>(top >> 21) - 1022;  // |sums| < 2^above
  const std::int32_t of_weight = static_cast<std::int32_t>(weight >> 24) - 127 - 23;
  const std::int32_t of_input = static_cast<std::int32_t>(std::bit_cast<std::uint64_t>(of.unit) >> 52) - 1023;
  // Zeros alone: nothing was added.
  const bool is_exact = weight == 0 || (weight >> 24 != 0 && of_weight + of_input >= -126 && above <= 127 &&
                                        above - (of_weight + of_input) <= 53);
  return is_exact && !wasm_v128_any_true(not_finite(w, of));
}

/// The same over inputs of few bits. Exact sums give both terms back.
[[gnu::always_inline]] inline bool half_of_few_bits(const float* w, const ChunkInputs& of,
                                                    v128_t (&sum)[kHalfParts]) noexcept {
  const v128_t bias = kMagnitudeBits;
  v128_t sums[2 * kHalfParts];
#pragma clang loop unroll(full)
  for (v128_t& each : sums) each = wasm_f64x2_splat(0);
#pragma clang loop unroll(full)
  for (v128_t& each : sum) each = wasm_f32x4_splat(0);
  v128_t inexact = wasm_f64x2_splat(0), least = bias;
  const auto lost = [](v128_t a, v128_t b, v128_t total) {
    return wasm_v128_or(wasm_f64x2_sub(wasm_f64x2_sub(total, a), b), wasm_f64x2_sub(wasm_f64x2_sub(total, b), a));
  };
  for (std::size_t i = 0; i < of.count; ++i) {
    const float* const line = w + of.places[i] * kPanelWidth;
    const v128_t xs = wasm_v128_load64_splat(of.values + i);
#pragma clang loop unroll(full)
    for (std::size_t j = 0; j < kHalfParts; ++j) {
      v128_t &low = sums[2 * j], &high = sums[2 * j + 1];
      const v128_t low_product = wasm_f64x2_mul(widened(line + 4 * j), xs),
                   high_product = wasm_f64x2_mul(widened(line + 4 * j + 2), xs);
      const v128_t low_sum = wasm_f64x2_add(low_product, low), high_sum = wasm_f64x2_add(high_product, high);
      inexact =
          wasm_v128_or(inexact, wasm_v128_or(lost(low_product, low, low_sum), lost(high_product, high, high_sum)));
      const v128_t low_float = wasm_f32x4_demote_f64x2_zero(low_sum),
                   high_float = wasm_f32x4_demote_f64x2_zero(high_sum);
      sum[j] = joined(low_float, high_float);
      least = wasm_i32x4_min(least, wasm_i32x4_add(wasm_i32x4_shl(sum[j], 1), bias));
      low = wide(low_float), high = wide(high_float);
    }
  }
  const v128_t tiny = wasm_i32x4_lt(least, kTinyEnd);
  return !wasm_v128_any_true(wasm_v128_or(wasm_v128_or(tiny, inexact), not_finite(w, of)));
}

[[gnu::noinline]] inline void half_exactly(const float* w, const ChunkInputs& of, v128_t (&sum)[kHalfParts]) noexcept {
  for (std::size_t i = 0; i < kHalfParts; ++i) {
    sum[i] = wasm_f32x4_splat(0);
    for (std::size_t k = 0; k < of.length; ++k)
      sum[i] = fused(wasm_v128_load(w + k * kPanelWidth + 4 * i), wasm_f32x4_splat(of.x[k]), sum[i]);
  }
}

/// Adds a chunk's sums to half a panel's totals.
/// @shape  w: the chunk's lines, from the half's first lane on
[[gnu::noinline]] inline void add_chunk(const float* w, const ChunkInputs& of, float* totals) noexcept {
  v128_t sum[kHalfParts];
  const bool is_done = of.kind == ChunkInputs::Kind::any         ? half_of_any(w, of, sum)
                       : of.kind == ChunkInputs::Kind::multiples ? half_of_multiples(w, of, sum)
                                                                 : half_of_few_bits(w, of, sum);
  if (!is_done) half_exactly(w, of, sum);
  for (std::size_t i = 0; i < kHalfParts; ++i)
    wasm_v128_store(totals + 4 * i, flushed(wasm_f32x4_add(wasm_v128_load(totals + 4 * i), sum[i])));
}

/// Totals of `count` panels, chunks of 64 steps added in order.
/// @shape  w [count][in][16], x [in] -> totals [count][16]
inline void dot_panels(const float* w, const float* x, std::size_t in, std::size_t count, float* totals) noexcept {
  std::fill(totals, totals + count * kPanelWidth, 0.0f);
  for (std::size_t k = 0; k < in; k += kChunk) {
    const ChunkInputs inputs(x + k, std::min(kChunk, in - k));
    for (std::size_t p = 0; p < count; ++p)
      for (std::size_t lane = 0; lane < kPanelWidth; lane += 4 * kHalfParts)
        add_chunk(w + (p * in + k) * kPanelWidth + lane, inputs, totals + p * kPanelWidth + lane);
  }
}

}  // namespace weft::kernels::wasm
