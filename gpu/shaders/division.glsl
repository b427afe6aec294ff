// SPDX-License-Identifier: Apache-2.0
// Division and square root, correctly rounded, of estimates that are right to a few units. This text is C++ too:
// tests/gpu/division_test.cpp runs it with worse estimates than any hardware's.
#ifndef WEFT_DIVISION
#define WEFT_DIVISION

// Correctly rounded whatever the hardware's reciprocal is, if it is right to a few units: on significands in [1, 2), so
// that no step is tiny, and checked by its exact remainder. The exponents come back as integers, which rounds as x86
// does.
float divide(float a, float b) {
  uint u = bits(a), v = bits(b), sign = (u ^ v) & kSignBit;
  u &= 0x7fffffffu;
  v &= 0x7fffffffu;
  if (u > kInfinityBits || v > kInfinityBits || (u == v && (u == 0u || u == kInfinityBits))) return NAN;
  if (u == kInfinityBits || v == 0u) return from_bits(sign | kInfinityBits);
  if (u == 0u || v == kInfinityBits) return from_bits(sign);
  float m = from_bits((u & 0x7fffffu) | 0x3f800000u), n = from_bits((v & 0x7fffffu) | 0x3f800000u);
  float r = estimated_reciprocal(n);
  r = fma(fma(-n, r, 1.0), r, r);
  float q = m * r;
  q = fma(fma(-n, q, m), r, q);
  float rest = fma(-n, q, m);
  float half_unit = q < 1.0 ? 2.98023223876953125e-08 : 5.9604644775390625e-08;
  if (magnitude_of(rest) > half_unit * n) q = from_bits(rest > 0.0 ? bits(q) + 1u : bits(q) - 1u);
  int e = int(bits(q) >> 23) + int(u >> 23) - int(v >> 23);
  if (e <= 0) return from_bits(sign);
  if (e >= 255) return from_bits(sign | kInfinityBits);
  return from_bits(sign | uint(e) << 23 | (bits(q) & 0x7fffffu));
}

// Quotients that take fewer steps, since what is asked of them is known: a and b from 2^-40 to 2^40. They are right
// wherever the reciprocal, improved once, is correctly rounded (Markstein 1990). For 48 significands of b and some
// estimate it is not; of these the only ones that spoil a quotient lie within 2^-19 below 2.
// tests/gpu/division_test.cpp tries all that the callers can ask for there.
float quotient_of(float a, float b) {
  float r = estimated_reciprocal(b);
  r = fma(fma(-b, r, 1.0), r, r);
  float q = a * r;
  q = fma(fma(-b, q, a), r, q);
  return fma(fma(-b, q, a), r, q);
}
// m / (m + 1), the sum rounded, for m from 2^-4 to 2^30.
float divide_by_successor(float m) { return quotient_of(m, m + 1.0); }
// m / 127 and 127 / m for finite m from 2^-100 on.
float divide_by_127(float m) {
  float n = from_bits((bits(m) & 0x7fffffu) | 0x3f800000u);
  float q = n * 7.8740157186985015869e-03;  // the float nearest to 1/127
  q = fma(fma(-127.0, q, n), 7.8740157186985015869e-03, q);
  return from_bits(bits(q) + (bits(m) & kInfinityBits) - 0x3f800000u);
}
float divide_127_by(float m) {
  float q = quotient_of(127.0, from_bits((bits(m) & 0x7fffffu) | 0x3f800000u));
  return from_bits(bits(q) - (bits(m) & kInfinityBits) + 0x3f800000u);
}

// s is the correctly rounded root of v when s (s - ulp) < v <= s (s + ulp), each an exact remainder's sign (Tuckerman).
float root(float x) {
  uint u = bits(x);
  if ((u & 0x7fffffffu) == 0u || u == kInfinityBits) return x;
  if (u > kInfinityBits) return NAN;
  bool small = u < 0x20000000u;
  float v = small ? x * 1.84467440737095516e+19 : x;
  float s = estimated_root(v);
  s = fma(fma(-s, s, v), 0.5 * estimated_reciprocal(s), s);
  float below = from_bits(bits(s) - 1u), above = from_bits(bits(s) + 1u);
  if (fma(-s, below, v) <= 0.0)
    s = below;
  else if (fma(-s, above, v) > 0.0)
    s = above;
  return small ? s * 2.32830643653869629e-10 : s;
}

#endif  // WEFT_DIVISION
