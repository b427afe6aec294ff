// SPDX-License-Identifier: Apache-2.0
// kernels/math.cpp in GLSL: the same operations in the same order on the same constants.
#ifndef WEFT_FUNCTIONS
#define WEFT_FUNCTIONS

#include "exact.glsl"

// A tie returns x; so does a NaN, since no comparison with it holds.
float at_most(float limit, float x) { return limit < x ? limit : x; }
float at_least(float limit, float x) { return limit > x ? limit : x; }
float clamped_to(float limit, float x) { return at_most(limit, at_least(-limit, x)); }
// The integer n that `rounded` = v + kRound holds in its low bits, as 2^n.
float power_of_two(float rounded) { return from_bits((bits(rounded) << 23) + 0x3f800000u); }

#define WEFT_HORNER(name, table, count)                                             \
  float name(float x) {                                                             \
    float sum = table[count - 1];                                                   \
    WEFT_UNROLL for (int i = count - 2; i >= 0; --i) sum = fused(sum, x, table[i]); \
    return sum;                                                                     \
  }
WEFT_HORNER(horner_log, kLog, 8)
WEFT_HORNER(horner_tanh, kTanhSmall, 2)
WEFT_HORNER(horner_sin, kSin, 3)
WEFT_HORNER(horner_cos, kCos, 3)
WEFT_HORNER(horner_erf_small, kErfSmall, 7)
WEFT_HORNER(horner_erf_large, kErfLarge, 15)

// r + r^2 c(r), pairs first.
float expm1_reduced(float r, const float k[5]) {
  float r2 = mul(r, r);
  float c23 = fused(k[3], r, k[2]);
  float c01 = fused(k[1], r, k[0]);
  float c = fused(r2, fused(r2, k[4], c23), c01);
  return fused(r2, c, r);
}
float reduce_exp(float x, float n) { return fused(n, -kLn2Low, fused(n, -kLn2, x)); }

float exact_exp(float x) {
  if (is_nan(x)) return NAN;
  if (x > kExpLargest) return INFINITY;
  if (x < kExpSmallest) return 0.0;
  float rounded = fused(x, kLog2E, kRound);
  float y = add(1.0, expm1_reduced(reduce_exp(x, sub(rounded, kRound)), kExp));
  return from_bits(bits(y) + (bits(rounded) << 23));
}

float exact_expm1_nonpositive(float x) {
  float v = at_least(kExpm1Clamp, x);
  float rounded = fused(v, kLog2E, kRound);
  float p = expm1_reduced(reduce_exp(v, sub(rounded, kRound)), kExp);
  float s = power_of_two(rounded);
  return is_nan(x) ? NAN : with_sign(fused(s, p, sub(s, 1.0)), x);
}

// log(1 + f) - f.
float log_tail(float f) { return mul(mul(f, f), fused(f, horner_log(f), -0.5)); }

float exact_log(float x) {
  if (!(x < INFINITY)) return x;
  if (x < kSmallestNormal) return x < 0.0 ? NAN : -INFINITY;
  int exponent = int(bits(x) - 0x3f400000u) >> 23;  // x = 2^k m, 3/4 <= m < 3/2
  float k = float(exponent);
  float f = sub(from_bits(bits(x) - (uint(exponent) << 23)), 1.0);
  return fused(k, kLn2, add(f, fused(k, kLn2Low, log_tail(f))));
}

float exact_log1p_unit(float x) {
  bool halve = x >= 0.5;
  float f = halve ? fused(x, 0.5, -0.5) : x;
  float y = add(f, log_tail(f));
  return halve ? add(y, kLn2) : y;
}

// The last operation of most cells, so the cheaper instructions for |x| and for NaNs; the self-test tries both.
float exact_tanh(float x) {
  float a = abs(x);
  if (a < kTanhSplit) {
    float u = mul(a, a);
    return with_sign(fused(mul(a, u), horner_tanh(u), a), x);
  }
  float v = at_most(kTanhClamp, a);
  float rounded = fused(v, 2.0 * kLog2E, kRound);
  float h = fused(sub(rounded, kRound), -0.5 * kLn2, v);
  float p = expm1_reduced(h, kExpHalf);
  float s = power_of_two(rounded);
  float m = fused(s, p, fused(s, 0.5, -0.5));
  return isnan(x) ? NAN : with_sign(divide_by_successor(m), x);
}

float logistic_denominator(float x) {
  float v = negated(at_most(kLogisticClamp, at_least(-kLogisticClamp, x)));
  float rounded = fused(v, kLog2E, kRound);
  float p = expm1_reduced(reduce_exp(v, sub(rounded, kRound)), kExp);
  float s = power_of_two(rounded);
  return is_nan(x) ? NAN : fused(s, p, add(s, 1.0));
}

float exact_sigmoid(float x) { return x < kExpSmallest ? 0.0 : divide(1.0, logistic_denominator(x)); }

float exact_erf(float x) {
  float a = magnitude_of(x);
  if (a < kErfSplit) return fused(x, horner_erf_small(mul(x, x)), x);
  if (a > kErfOne) return with_sign(1.0, x);
  return is_nan(x) ? NAN : with_sign(horner_erf_large(fused(a, kErfScale, kErfShift)), x);
}

float sin_reduced(float r) {
  float u = mul(r, r);
  return fused(mul(r, u), horner_sin(u), r);
}
float cos_reduced(float r) {
  float u = mul(r, r);
  return fused(mul(u, u), horner_cos(u), fused(u, -0.5, 1.0));
}
// sin(a + quarter_turns pi/2) for 0 <= a <= 2^20.
float sin_shifted(float a, uint quarter_turns) {
  float rounded = fused(a, kTwoOverPi, kRound);
  float n = sub(rounded, kRound);
  float r = fused(n, -kHalfPiLow, fused(n, -kHalfPiMiddle, fused(n, -kHalfPi, a)));
  uint quadrant = bits(rounded) + quarter_turns;
  float y = (quadrant & 1u) != 0u ? cos_reduced(r) : sin_reduced(r);
  return from_bits(bits(y) ^ (quadrant & 2u) << 30);
}
float exact_sin(float x) {
  float a = magnitude_of(x);
  if (!(a <= kTrigLimit)) return NAN;
  return from_bits(bits(sin_shifted(a, 0u)) ^ (bits(x) & kSignBit));
}
float exact_cos(float x) {
  float a = magnitude_of(x);
  return a <= kTrigLimit ? sin_shifted(a, 1u) : NAN;
}

#endif  // WEFT_FUNCTIONS
