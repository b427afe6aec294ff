// SPDX-License-Identifier: Apache-2.0
// Activations as int8: what a block of 32 shares (docs/numerics.md, section 10).
#ifndef WEFT_QUANTIZE
#define WEFT_QUANTIZE

#include "exact.glsl"

struct Quantiser {
  float scale, inverse;
};
// Of a block whose largest magnitude has these bits.
Quantiser quantiser(uint largest) {
  float m = from_bits(largest);
  if (largest >= kInfinityBits) return Quantiser(NAN, 0.0);
  if (m < 7.88860905221011805e-31) return Quantiser(0.0, 0.0);  // 2^-100
  return Quantiser(divide(m, 127.0), divide(127.0, m));
}
int quantised(Quantiser by, float v) {
  if (by.inverse == 0.0) return 0;
  return int(bits(add(mul(v, by.inverse), kRound)) - bits(kRound));
}

#endif  // WEFT_QUANTIZE
