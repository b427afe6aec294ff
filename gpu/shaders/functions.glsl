// SPDX-License-Identifier: Apache-2.0
// The formulas of kernels/formulas/math.inc for shaders: the words that they are written in, which
// kernels/formulas/scalar.hpp has too (docs/howto/write-a-formula.md), then they themselves. Arithmetic: exact.glsl.
#ifndef WEFT_FUNCTIONS
#define WEFT_FUNCTIONS

#include "exact.glsl"

#define Real float
#define WEFT_FORMULA
#define WEFT_INOUT(name) inout float name
#define WEFT_TABLE(name, size) const float name[size]
#define WEFT_LENGTH(table) table.length()
#define WEFT_UNROLLED WEFT_UNROLL
#define WEFT_BITS uint
#define WEFT_SELECT(condition, a, b) ((condition) ? (a) : (b))
#define WEFT_ZERO_OR(condition, a) ((condition) ? 0.0 : (a))
#define WEFT_OR_ZERO(condition, a) ((condition) ? (a) : 0.0)
#define WEFT_SHIFT_LEFT(u, count) ((u) << (count))
#define WEFT_SHIFT_RIGHT_SIGNED(u, count) uint(int(u) >> (count))

#define real(x, constant) (constant)
#define is_less(a, b) ((a) < (b))
#define is_greater(a, b) ((a) > (b))
#define is_at_most(a, b) ((a) <= (b))
#define is_at_least(a, b) ((a) >= (b))
#define add_bits(u, v) ((u) + (v))
#define sub_bits(u, v) ((u) - (v))
#define and_bits(u, v) ((u) & (v))
#define xor_bits(u, v) ((u) ^ (v))
#define flipped(y, u) from_bits(bits(y) ^ (u))
#define is_odd(u) (((u) & 1u) != 0u)
#define from_signed(u) float(int(u))
// Operands are flushed when they are loaded.
#define chosen(x) (x)
// Devices may lose NaNs on the way.
#define nan_of(y) NAN
float keep_nan(float x, float y) { return is_nan(x) ? NAN : y; }
float cheap_keep_nan(float x, float y) { return isnan(x) ? NAN : y; }
#define cheap_magnitude_of abs

// A tie returns x; so does a NaN, since no comparison with it holds.
float at_most(float limit, float x) { return limit < x ? limit : x; }
float at_least(float limit, float x) { return limit > x ? limit : x; }
// By bits: written with comparisons it becomes the driver's own sign, and Mesa's of -0 is -0.
float sign_of(float x) {
  uint u = bits(x), size = u & 0x7fffffffu;
  return size == 0u || size > 0x7f800000u ? 0.0 : from_bits((u & 0x80000000u) | 0x3f800000u);
}
float negated_fused(float a, float b, float c) { return fused(negated(a), b, c); }

#include "kernels/formulas/math.inc"

#endif  // WEFT_FUNCTIONS
