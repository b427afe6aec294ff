// SPDX-License-Identifier: Apache-2.0
// Activations to int8: what a block of 32 elements whose largest magnitude has the bits `largest` is divided by.
#ifndef WEFT_QUANTIZE
#define WEFT_QUANTIZE

#include "exact.glsl"

// Of the float32 nearest to 1e-5, the least that a row is divided by where all of it has one scale.
const uint kLeastOfRowBits = 0x3727c5acu;

struct Steps {
  float scale, inverse;  // inverse 0: all codes are 0
};
Steps steps_of(uint largest) {
  float m = from_bits(largest);
  if (largest >= kInfinityBits) return Steps(NAN, 0.0);
  if (m < 7.88860905221011805e-31) return Steps(0.0, 0.0);  // 2^-100
  return Steps(divide_by_127(m), divide_127_by(m));
}
// Four codes, the first in the low bits.
uint codes_of(float v[4], Steps steps) {
  if (steps.inverse == 0.0) return 0;
  // Each is bits(kRound), whose low byte is 0, and its code. With 128 added no byte borrows from the next.
  uint word = 0x80808080u - bits(kRound) * 0x01010101u;
  [[unroll]] for (uint i = 0; i < 4; ++i) word += bits(add(mul(v[i], steps.inverse), kRound)) << 8 * i;
  return word ^ 0x80808080u;
}

#endif  // WEFT_QUANTIZE
