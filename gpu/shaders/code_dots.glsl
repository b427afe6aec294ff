// SPDX-License-Identifier: Apache-2.0
// Sums of products of integer codes, 32 inputs at once: with WEFT_PACKED_DOTS by the device's packed dot products.
#ifndef WEFT_CODE_DOTS
#define WEFT_CODE_DOTS
#extension GL_EXT_control_flow_attributes : require

#include "weights.glsl"
#ifdef WEFT_PACKED_DOTS
#include "dots_packed.glsl"
#else
#include "dots_by_byte.glsl"
#endif

const uint kBits = kWordBits == 0 ? 1 : kWordBits;  // of a code
// Codes are unpacked to bytes by shifts: byte j of split s of a word is its code s + kSplits j. Codes of x are laid out
// to meet them: byte j of word m of a block is that of input first_input(m) + kSplits j.
const uint kSplits = 8 / kBits;
const bool kIsSigned = DTYPE == kInt4 || DTYPE == kInt2 || DTYPE == kTernary;
uint first_input(uint m) { return m / kSplits * kSplits * 4 + m % kSplits; }

// Split s of a word of codes, less their zero points, as signed bytes: those of signed types times 2^(8 - kBits).
uint bytes_of(uint word, uint s, uint zero) {
  const uint kLow = kBits == 8 ? 0xffffffffu : ((1u << kBits) - 1u) * 0x01010101u;
  if (DTYPE == kInt8) return word;
  if (DTYPE == kUint8) return word ^ 0x80808080u;
  if (DTYPE == kBinary) return 0xffffffffu - (word >> s & 0x01010101u) * 0xfeu;  // 1 and -1
  if (kIsSigned) return word << (kSplits - 1 - s) * kBits & kLow << 8 - kBits;
  return (word >> s * kBits & kLow | 0x80808080u) - zero * 0x01010101u ^ 0x80808080u;
}

// `sum` and four outputs' dot products of codes.
ivec4 with_dots(ivec4 sum, uint q4, uvec4 c) {
  if (DTYPE == kUint8)
    return sum + ivec4(mixed_dot(q4, c.x), mixed_dot(q4, c.y), mixed_dot(q4, c.z), mixed_dot(q4, c.w));
  return sum + ivec4(signed_dot(q4, c.x), signed_dot(q4, c.y), signed_dot(q4, c.z), signed_dot(q4, c.w));
}

// The sum over a block of (code - zero) q, divided by unit(): then below 2^21, so it is summed up on top of kRound's
// bits, and needs no conversion. Signed codes stay in the high bits of bytes, so that their signs need no care; shifts
// are what binary has most of, so half of its codes stay where they are for one. codes: its kBits words, of four
// outputs. halves: its eight words of x.
float unit() { return DTYPE == kBinary ? 0.125 : kIsSigned ? from_bits(119u + kBits << 23) : 1.0; }
vec4 block_sum(uvec4 codes[8], uvec4 halves[2], ivec4 zero_of) {
  const uint kLow = kBits == 8 ? 0xffffffffu : ((1u << kBits) - 1u) * 0x01010101u;
  const uint kMask = kIsSigned ? kLow << 8 - kBits : kLow;
  ivec4 sum = ivec4(DTYPE == kBinary ? 0 : int(bits(kRound)));
  int of_x = 0;
  if (kHasZero || DTYPE == kBinary)
    [[unroll]] for (uint i = 0; i < 8; ++i) of_x += signed_dot(halves[i / 4][i % 4], 0x01010101u);
  if (DTYPE == kBinary) {
    ivec4 sixteenfold = ivec4(int(bits(kRound)) - 8 * of_x);  // a bit's worth is 2 bit - 1
    [[unroll]] for (uint s = 0; s < 4; ++s) {
      uvec4 c = codes[0] >> s;
      sum = with_dots(sum, halves[0][s], c & 0x01010101u);
      sixteenfold = with_dots(sixteenfold, halves[1][s], c & 0x10101010u);
    }
    sum = (sum << 4) + sixteenfold;
  }
  [[unroll]] for (uint m = 0; m < 8 && DTYPE != kBinary; ++m) {
    uint s = m % kSplits;
    uvec4 c = kIsSigned ? codes[m / kSplits] << (kSplits - 1 - s) * kBits : codes[m / kSplits] >> s * kBits;
    sum = with_dots(sum, halves[m / 4][m % 4], c & kMask);
  }
  if (kHasZero) sum -= zero_of * of_x;
  vec4 above = intBitsToFloat(sum);
  return vec4(sub(above.x, kRound), sub(above.y, kRound), sub(above.z, kRound), sub(above.w, kRound));
}

#endif  // WEFT_CODE_DOTS
