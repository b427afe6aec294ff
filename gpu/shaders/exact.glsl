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
bool is_finite(float x) { return (bits(x) & kInfinityBits) != kInfinityBits; }

// Emulated arithmetic is long: loops of it stay loops, or drivers compile for seconds.
#ifdef WEFT_EMULATED
#define WEFT_UNROLL [[dont_unroll]]
#else
#define WEFT_UNROLL [[unroll]]
#endif

#ifdef WEFT_EMULATED

// 2^-126 - 2^-151: below it a result is tiny even after rounding to 24 bits, as x86 judges.
const double kTiny = double(kSmallestNormal) * (1.0lf - 2.98023223876953125e-08lf);

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
float divide_by_successor(float m) { return divide(m, add(m, 1.0)); }
float divide_by_127(float m) { return divide(m, 127.0); }
float divide_127_by(float m) { return divide(127.0, m); }
float root(float x) { return float(sqrt(double(x))); }
bool are_finite(vec4 v) { return is_finite(v.x) && is_finite(v.y) && is_finite(v.z) && is_finite(v.w); }

#else

float settled(float x) { return FLUSH_IN_CODE ? flushed(x) : x; }
float add(float a, float b) { return settled(a + b); }
float sub(float a, float b) { return settled(a - b); }
float mul(float a, float b) { return settled(a * b); }
float fused(float a, float b, float c) { return settled(fma(a, b, c)); }

float estimated_reciprocal(float x) { return 1.0 / x; }
float estimated_root(float x) { return sqrt(x); }
#include "division.glsl"

// The same as of bits, in half the instructions: 0 times an infinity or a NaN is a NaN.
bool are_finite(vec4 v) { return !isnan(fma(v.w, 0.0, fma(v.z, 0.0, fma(v.y, 0.0, v.x * 0.0)))); }

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
