// SPDX-License-Identifier: Apache-2.0
// Code shared by scales and codes of a float32 master (kernels/internal/quantize_reference.cpp, core/numeric/).
#ifndef WEFT_QUANTIZE_WEIGHT
#define WEFT_QUANTIZE_WEIGHT

#include "wide.glsl"

#include "quantize_operands.inc"
#define WEFT_OPERANDS WEFT_QUANTIZE_OPERANDS
#include "operands.glsl"

const bool kIsRange = kHasZero || DTYPE == kUint64 || DTYPE == kUint32;
const bool kIsMean = DTYPE == kTernary || DTYPE == kBinary;
const bool kIsFloat = DTYPE == kFloat64 || DTYPE == kFloat32 || DTYPE == kFloat16 || DTYPE == kBfloat16;
const uint kIntegerBits = DTYPE == kInt16 || DTYPE == kUint16 ? 16 : kWordBits;
// The largest integer that a code is made of, of types up to 16 bits.
const uint kStepBits = kIsRange || kIntegerBits == 0 ? kIntegerBits : kIntegerBits - 1;
const uint kMostSteps = (1u << kStepBits) - 1u;

// The largest number of float scales.
float largest_number() {
  return DTYPE == kFp8E4m3 ? 448.0 : DTYPE == kFp8E5m2 ? 57344.0 : DTYPE == kFp4 ? 6.0 : float(kMostSteps);
}

// |x| rounded to the nearest integer, ties to even, at most `most`; NaN gives 0.
uint rounded_magnitude(float x, uint most) {
  uint word = bits(x), fraction = word & 0x7fffffu, m = fraction | 0x800000u;
  int e = int(word >> 23 & 0xffu) - 150;
  if (e == 105) return fraction != 0u ? 0u : most;
  if (e >= 0) return e > 7 ? most : min(m << e, most);
  if (e < -24) return 0u;
  uint kept = m >> -e, rest = m & (1u << -e) - 1u, middle = 1u << -e - 1;
  return min(kept + (rest > middle || (rest == middle && (kept & 1u) != 0u) ? 1u : 0u), most);
}
uint64_t rounded_magnitude64(uint64_t x, uint64_t most) {
  uint64_t fraction = x & 0xffffffffffffful, m = fraction | 0x10000000000000ul, one = 1ul;
  int e = exponent64(x) - 1075;
  if (e == 972) return fraction != 0ul ? 0ul : most;
  if (e >= 0) return e > 11 ? most : min(m << e, most);
  if (e < -53) return 0ul;
  uint64_t kept = m >> -e, rest = m & (one << -e) - 1ul, middle = one << -e - 1;
  return min(kept + (rest > middle || (rest == middle && (kept & 1ul) != 0ul) ? 1ul : 0ul), most);
}
// The largest code or magnitude of 32 and 64 bits.
uint64_t most_wide() {
  if (DTYPE == kInt64) return 0x7ffffffffffffffful - 1023ul;
  if (DTYPE == kUint64) return ~0ul - 2047ul;
  return DTYPE == kInt32 ? 0x7ffffffful : 0xfffffffful;
}

#endif  // WEFT_QUANTIZE_WEIGHT
