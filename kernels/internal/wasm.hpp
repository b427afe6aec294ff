// SPDX-License-Identifier: Apache-2.0
// Arithmetic of binary32 on vectors of WebAssembly as the contract has it (docs/numerics.md): Highway's operations,
// with those that round replaced. The machine has no fused multiply-add and no mode that flushes subnormal numbers.
// Read once, by kernels/foreach_isa.hpp, in the place of hwy/highway.h.
#pragma once

// Highway's own stand aside under other names; of those that kernels call, no other operation is made of them for
// floats.
#define Add HighwayAdd
#define Sub HighwaySub
#define Mul HighwayMul
#define Div HighwayDiv
#define Sqrt HighwaySqrt
#define MulAdd HighwayMulAdd
#define NegMulAdd HighwayNegMulAdd
#include <hwy/highway.h>
#undef Add
#undef Sub
#undef Mul
#undef Div
#undef Sqrt
#undef MulAdd
#undef NegMulAdd

#include <wasm_simd128.h>

#include <cstdint>
#include <type_traits>

namespace weft::kernels::wasm {

/// Constants in memory, from where they are one instruction: engines make a constant of the code's by four, at each
/// use.
extern const v128_t kMagnitudeBits, kSmallestNormal, kHalfTail, kTinyEnd, kHalfUnit, kFloatBits, kTailBits;

/// Zeros of their sign in the place of subnormal numbers.
[[gnu::always_inline]] inline v128_t flushed(v128_t x) noexcept {
  const v128_t is_small = wasm_i32x4_lt(wasm_v128_and(x, kMagnitudeBits), kSmallestNormal);
  return wasm_v128_andnot(x, wasm_v128_and(is_small, kMagnitudeBits));
}

/// Two sums of binary64 as floats, rounded once from the exact ones, of which `sum` is the rounded `product` + `c`.
[[gnu::always_inline]] inline v128_t rounded_once(v128_t product, v128_t c, v128_t sum) noexcept {
  // The error of the sum, exact (Knuth 1969). A sum that ends in half a unit of the float's and has an error goes to
  // the odd neighbour on the error's side (Boldo and Melquiond 2008), after which rounding again is the only rounding.
  const v128_t back = wasm_f64x2_sub(sum, product);
  const v128_t error = wasm_f64x2_add(wasm_f64x2_sub(product, wasm_f64x2_sub(sum, back)), wasm_f64x2_sub(c, back));
  const v128_t is_half = wasm_i64x2_eq(wasm_v128_and(sum, wasm_i64x2_splat(0x1fffffff)), wasm_i64x2_splat(0x10000000));
  const v128_t moves = wasm_v128_and(is_half, wasm_f64x2_ne(error, wasm_f64x2_splat(0)));
  const v128_t away = wasm_v128_or(wasm_i64x2_shr(wasm_v128_xor(sum, error), 63), wasm_i64x2_splat(1));
  const v128_t odd = wasm_i64x2_add(sum, wasm_v128_and(moves, away));
  // Tiny after rounding to 24 bits, as x86 looks.
  const v128_t is_tiny = wasm_f64x2_lt(wasm_f64x2_abs(odd), wasm_f64x2_splat(0x1p-126 - 0x1p-151));
  return wasm_f32x4_demote_f64x2_zero(
      wasm_v128_andnot(odd, wasm_v128_and(is_tiny, wasm_i64x2_splat(0x7fffffffffffffff))));
}

[[gnu::always_inline]] inline v128_t upper(v128_t x) noexcept { return wasm_i64x2_shuffle(x, x, 1, 1); }
[[gnu::always_inline]] inline v128_t joined(v128_t low, v128_t high) noexcept {
  return wasm_i64x2_shuffle(low, high, 0, 2);
}
[[gnu::always_inline]] inline v128_t wide(v128_t x) noexcept { return wasm_f64x2_promote_low_f32x4(x); }
/// Two floats from memory, which is one instruction of the machine where two of a vector are two or three.
[[gnu::always_inline]] inline v128_t widened(const float* x) noexcept { return wide(wasm_v128_load64_zero(x)); }
/// The same value, of which the compiler does not know that it is: else it makes of two instructions, each the
/// machine's own, several shuffles or one for each lane.
template <class T>
[[gnu::always_inline]] inline T opaque(T x) noexcept {
  __asm__("" : "+r"(x));
  return x;
}
/// Words times 2: a sum, which machines make in more places than a shift.
[[gnu::always_inline]] inline v128_t doubled(v128_t x) noexcept { return wasm_i32x4_add(x, opaque(x)); }

/// The rare case of `fused`: a sum of its four stands half way between two floats, or is tiny.
[[gnu::noinline, maybe_unused]] static v128_t fused_exactly(v128_t a, v128_t b, v128_t c) noexcept {
  const v128_t low = wasm_f64x2_mul(wide(a), wide(b)), high = wasm_f64x2_mul(wide(upper(a)), wide(upper(b)));
  const v128_t c_low = wide(c), c_high = wide(upper(c));
  return joined(rounded_once(low, c_low, wasm_f64x2_add(low, c_low)),
                rounded_once(high, c_high, wasm_f64x2_add(high, c_high)));
}

/// round(a b), flushed.
[[gnu::noinline, maybe_unused]] static v128_t multiplied_exactly(v128_t a, v128_t b) noexcept {
  const v128_t zero = wasm_f64x2_splat(0);
  const v128_t low = wasm_f64x2_mul(wide(a), wide(b)), high = wasm_f64x2_mul(wide(upper(a)), wide(upper(b)));
  return joined(rounded_once(low, zero, low), rounded_once(high, zero, high));
}

/// 0 < |x| <= 2^-126, as integers without their signs.
[[gnu::always_inline]] inline v128_t is_tiny(v128_t x) noexcept {
  return wasm_i32x4_lt(wasm_i32x4_add(wasm_i32x4_shl(x, 1), kMagnitudeBits), kTinyEnd);
}

/// round(a b + c), rounded once, flushed. Products of binary64 are exact; a sum's second rounding shows only where the
/// first one led half way between two floats.
[[gnu::always_inline]] inline v128_t fused(v128_t a, v128_t b, v128_t c) noexcept {
  const v128_t low = wasm_f64x2_add(wasm_f64x2_mul(wide(a), wide(b)), wide(c));
  const v128_t high = wasm_f64x2_add(wasm_f64x2_mul(wide(upper(a)), wide(upper(b))), wide(upper(c)));
  const v128_t result = joined(wasm_f32x4_demote_f64x2_zero(low), wasm_f32x4_demote_f64x2_zero(high));
  // The 29 bits that a float has not: half of its unit is the highest alone.
  const v128_t tails = wasm_i32x4_shl(wasm_i32x4_shuffle(low, high, 0, 2, 4, 6), 3);
  const v128_t is_half = wasm_i32x4_eq(tails, kHalfTail);
  // A result below 2^-150 is a zero already.
  if (__builtin_expect(wasm_i32x4_bitmask(wasm_v128_or(is_half, is_tiny(result))), 0)) return fused_exactly(a, b, c);
  return result;
}

/// round(a b), flushed.
[[gnu::always_inline]] inline v128_t multiplied(v128_t a, v128_t b) noexcept {
  const v128_t result = wasm_f32x4_mul(a, b);
  if (__builtin_expect(wasm_i32x4_bitmask(is_tiny(result)), 0)) return multiplied_exactly(a, b);
  return result;
}

/// round(a / b), flushed. A quotient of binary64, rounded again, is that of binary32 (Figueroa 1995).
[[gnu::noinline, maybe_unused]] static v128_t divided_exactly(v128_t a, v128_t b) noexcept {
  const v128_t zero = wasm_f64x2_splat(0);
  const v128_t low = wasm_f64x2_div(wide(a), wide(b)), high = wasm_f64x2_div(wide(upper(a)), wide(upper(b)));
  return joined(rounded_once(low, zero, low), rounded_once(high, zero, high));
}

/// round(a / b), flushed: (1 - 2^-24) 2^-126 is tiny, though it rounds to 2^-126.
[[gnu::always_inline]] inline v128_t divided(v128_t a, v128_t b) noexcept {
  const v128_t result = wasm_f32x4_div(a, b);
  if (__builtin_expect(wasm_i32x4_bitmask(is_tiny(result)), 0)) return divided_exactly(a, b);
  return result;
}

/// round(a b + 0): a product, but never -0 unless it was flushed.
[[gnu::always_inline]] inline v128_t fused_with_zero(v128_t a, v128_t b) noexcept {
  const v128_t zero = wasm_f32x4_splat(0), result = wasm_f32x4_add(wasm_f32x4_mul(a, b), zero);
  if (__builtin_expect(wasm_i32x4_bitmask(is_tiny(result)), 0)) return fused_exactly(a, b, zero);
  return result;
}

}  // namespace weft::kernels::wasm

namespace hwy::HWY_NAMESPACE {

#define WEFT_ROUNDED(Name, operation)                                    \
  template <class V>                                                     \
  HWY_API V Name(V a, V b) {                                             \
    if constexpr (std::is_same_v<TFromV<V>, float>)                      \
      return V{::weft::kernels::wasm::flushed(operation(a.raw, b.raw))}; \
    else                                                                 \
      return Highway##Name(a, b);                                        \
  }
WEFT_ROUNDED(Add, wasm_f32x4_add)
WEFT_ROUNDED(Sub, wasm_f32x4_sub)
#undef WEFT_ROUNDED

template <class V>
HWY_API V Mul(V a, V b) {
  if constexpr (std::is_same_v<TFromV<V>, float>)
    return V{::weft::kernels::wasm::multiplied(a.raw, b.raw)};
  else
    return HighwayMul(a, b);
}

template <size_t N>
HWY_API Vec128<float, N> Div(Vec128<float, N> a, Vec128<float, N> b) {
  return Vec128<float, N>{::weft::kernels::wasm::divided(a.raw, b.raw)};
}
template <size_t N>
HWY_API Vec128<float, N> Sqrt(Vec128<float, N> a) {
  return Vec128<float, N>{wasm_f32x4_sqrt(::weft::kernels::wasm::flushed(a.raw))};
}
template <size_t N>
HWY_API Vec128<float, N> MulAdd(Vec128<float, N> a, Vec128<float, N> b, Vec128<float, N> c) {
  return Vec128<float, N>{::weft::kernels::wasm::fused(a.raw, b.raw, c.raw)};
}
template <size_t N>
HWY_API Vec128<float, N> NegMulAdd(Vec128<float, N> a, Vec128<float, N> b, Vec128<float, N> c) {
  return Vec128<float, N>{::weft::kernels::wasm::fused(wasm_f32x4_neg(a.raw), b.raw, c.raw)};
}

}  // namespace hwy::HWY_NAMESPACE
