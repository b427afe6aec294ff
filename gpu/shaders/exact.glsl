// SPDX-License-Identifier: Apache-2.0
// The arithmetic contract (docs/numerics.md) in GLSL: the operations that shaders compute with instead of + - * / fma.
// Compiled twice: WEFT_FUSED, for devices whose fma rounds once, and WEFT_EMULATED, which makes it of binary64.
// Arguments are taken as flushed: by load(), or as results of these functions. NoContraction is the build's business.
#ifndef WEFT_EXACT
#define WEFT_EXACT
#extension GL_EXT_control_flow_attributes : require

#include "math_constants.glsl"

// True on a device that keeps subnormals; the emulated operations always flush.
layout(constant_id = 0) const bool FLUSH_IN_CODE = false;

#define bits floatBitsToUint
#define from_bits uintBitsToFloat
const uint kSignBit = 0x80000000u, kInfinityBits = 0x7f800000u, kNanBits = 0x7fc00000u;
#define INFINITY from_bits(kInfinityBits)
#define NAN from_bits(kNanBits)

bool is_nan(float x) { return (bits(x) & 0x7fffffffu) > kInfinityBits; }
float with_sign(float magnitude, float sign) {
  return from_bits((bits(magnitude) & 0x7fffffffu) | (bits(sign) & kSignBit));
}
float magnitude_of(float x) { return from_bits(bits(x) & 0x7fffffffu); }
float negated(float x) { return from_bits(bits(x) ^ kSignBit); }
// A subnormal becomes a zero of its sign. In bits: a device that flushes may take subnormals for zeros as it likes.
float flushed(float x) { return (bits(x) & kInfinityBits) == 0u ? from_bits(bits(x) & kSignBit) : x; }
float canonical(float x) { return is_nan(x) ? NAN : x; }

// Emulated arithmetic is long: loops of it stay loops, or drivers compile for seconds.
#ifdef WEFT_EMULATED
#define WEFT_UNROLL [[dont_unroll]]
#else
#define WEFT_UNROLL [[unroll]]
#endif

#ifdef WEFT_EMULATED

// 2^-126 - 2^-151: below it a result is tiny even after rounding to 24 bits, as x86 judges.
const double kTiny = 1.17549431578982589e-38lf;

// v to binary32, flushed; v is exact or rounded to odd, so this is the one rounding.
float narrow(double v) {
  if (abs(v) < kTiny) return from_bits(unpackDouble2x32(v).y & kSignBit);
  return float(v);
}
float add(float a, float b) { return flushed(a + b); }
float sub(float a, float b) { return flushed(a - b); }
float mul(float a, float b) { return narrow(double(a) * double(b)); }
// The product is exact in binary64. Its sum with c is rounded to odd: where the addition left something over, the last
// bit says so, and the rounding to binary32 is as of the exact value (Boldo and Melquiond 2008).
float fused(float a, float b, float c) {
  double p = double(a) * double(b), q = double(c);
  double s = p + q;
  double t = s - p;
  double rest = (p - (s - t)) + (q - t);
  uvec2 u = unpackDouble2x32(s);
  bool finite = (u.y & 0x7ff00000u) != 0x7ff00000u;
  if (finite && rest != 0.0lf && (u.x & 1u) == 0u) {
    if ((rest > 0.0lf) == (s > 0.0lf)) {
      u.x |= 1u;
    } else {
      u.y -= u.x == 0u ? 1u : 0u;
      u.x -= 1u;
    }
    s = packDouble2x32(u);
  }
  return narrow(s);
}
// 53 bits are more than twice 24, so rounding twice is rounding once (Figueroa 1995).
float divide(float a, float b) { return narrow(double(a) / double(b)); }
float root(float x) { return float(sqrt(double(x))); }

#else

float settled(float x) { return FLUSH_IN_CODE ? flushed(x) : x; }
float add(float a, float b) { return settled(a + b); }
float sub(float a, float b) { return settled(a - b); }
float mul(float a, float b) { return settled(a * b); }
float fused(float a, float b, float c) { return settled(fma(a, b, c)); }

// Correctly rounded whatever the hardware's reciprocal is, if it is right to a few units: on significands in [1, 2), so
// that no step is tiny, and checked by its exact remainder. The exponents come back as integers, which rounds as x86 does.
float divide(float a, float b) {
  uint u = bits(a), v = bits(b), sign = (u ^ v) & kSignBit;
  u &= 0x7fffffffu;
  v &= 0x7fffffffu;
  if (u > kInfinityBits || v > kInfinityBits || u == v && (u == 0u || u == kInfinityBits)) return NAN;
  if (u == kInfinityBits || v == 0u) return from_bits(sign | kInfinityBits);
  if (u == 0u || v == kInfinityBits) return from_bits(sign);
  float m = from_bits(u & 0x7fffffu | 0x3f800000u), n = from_bits(v & 0x7fffffu | 0x3f800000u);
  float r = 1.0 / n;
  r = fma(fma(-n, r, 1.0), r, r);
  float q = m * r;
  q = fma(fma(-n, q, m), r, q);
  float rest = fma(-n, q, m);
  float half_unit = q < 1.0 ? 2.98023223876953125e-08 : 5.9604644775390625e-08;
  if (magnitude_of(rest) > half_unit * n) q = from_bits(rest > 0.0 ? bits(q) + 1u : bits(q) - 1u);
  int e = int(bits(q) >> 23) + int(u >> 23) - int(v >> 23);
  if (e <= 0) return from_bits(sign);
  if (e >= 255) return from_bits(sign | kInfinityBits);
  return from_bits(sign | uint(e) << 23 | bits(q) & 0x7fffffu);
}

// s is the correctly rounded root of v when s (s - ulp) < v <= s (s + ulp), each an exact remainder's sign (Tuckerman).
float root(float x) {
  uint u = bits(x);
  if ((u & 0x7fffffffu) == 0u || u == kInfinityBits) return x;
  if (u > kInfinityBits) return NAN;
  bool small = u < 0x20000000u;
  float v = small ? x * 1.84467440737095516e+19 : x;
  float s = sqrt(v);
  s = fma(fma(-s, s, v), 0.5 / s, s);
  float below = from_bits(bits(s) - 1u), above = from_bits(bits(s) + 1u);
  if (fma(-s, below, v) <= 0.0)
    s = below;
  else if (fma(-s, above, v) > 0.0)
    s = above;
  return small ? s * 2.32830643653869629e-10 : s;
}

#endif

float inverse_root(float x) { return divide(1.0, root(x)); }

vec4 fused(vec4 a, float b, vec4 c) {
#ifdef WEFT_EMULATED
  return vec4(fused(a.x, b, c.x), fused(a.y, b, c.y), fused(a.z, b, c.z), fused(a.w, b, c.w));
#else
  vec4 s = fma(a, vec4(b), c);
  if (FLUSH_IN_CODE) s = vec4(flushed(s.x), flushed(s.y), flushed(s.z), flushed(s.w));
  return s;
#endif
}
vec4 add(vec4 a, vec4 b) { return vec4(add(a.x, b.x), add(a.y, b.y), add(a.z, b.z), add(a.w, b.w)); }
// For operands that only enter fused() and add(): a flushing device does it itself.
float operand(float x) {
#ifdef WEFT_EMULATED
  return flushed(x);
#else
  return settled(x);
#endif
}
vec4 operand(vec4 x) { return vec4(operand(x.x), operand(x.y), operand(x.z), operand(x.w)); }

#endif  // WEFT_EXACT
