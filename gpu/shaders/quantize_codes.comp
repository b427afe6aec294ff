// SPDX-License-Identifier: Apache-2.0
// Codes of a float32 master whose scales are there. A thread makes a word of codes, or one code of 64 bits; lanes past
// the outputs and codes past the inputs are 0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "quantize_weight.glsl"

layout(local_size_x = 64) in;
// Codes of a word: of consecutive inputs of one output, or of consecutive outputs.
const uint kOfWord = kWordBits != 0                                      ? 32 / (kWordBits == 0 ? 1 : kWordBits)
                     : DTYPE == kFp8E4m3 || DTYPE == kFp8E5m2            ? 4
                     : kIsWide || DTYPE == kFloat64 || DTYPE == kFloat32 ? 1
                                                                         : 2;
const uint kCodeBits = 32 / kOfWord;

// A small float's code: specials as core/numeric/small_float.hpp has them.
uint small_code(uint word, int exponent_bits, int mantissa_bits, bool has_infinity, bool has_nan) {
  int bias = (1 << exponent_bits - 1) - 1;
  uint sign_bit = 1u << exponent_bits + mantissa_bits, sign = word >> 31 != 0u ? sign_bit : 0u;
  uint top = (1u << exponent_bits) - 1u << mantissa_bits, magnitude = word & 0x7fffffffu;
  uint largest = has_infinity ? top - 1u : has_nan ? sign_bit - 2u : sign_bit - 1u;
  if (magnitude > kInfinityBits) return !has_nan ? 0u : has_infinity ? top | 1u << mantissa_bits - 1 : sign_bit - 1u;
  if (magnitude == kInfinityBits) return sign | (has_infinity ? top : largest);
  int e = max(int(magnitude >> 23), 1);
  uint m = magnitude & 0x7fffffu | (magnitude >> 23 != 0u ? 0x800000u : 0u);
  int field = max(e - 127 + bias, 1), shift = min(field - bias - mantissa_bits - (e - 150), 31);
  uint kept = m >> shift, rest = m & (1u << shift) - 1u, middle = 1u << shift - 1;
  uint rounded = kept + (rest > middle || (rest == middle && (kept & 1u) != 0u) ? 1u : 0u);
  return sign | min((uint(field - 1) << mantissa_bits) + rounded, largest);
}

uint64_t double_code(uint word) {
  uint64_t sign = uint64_t(word >> 31) << 63;
  uint magnitude = word & 0x7fffffffu;
  if (magnitude >= 0x800000u || magnitude == 0u) return widened(word);
  int top = findMSB(magnitude);
  return sign | uint64_t(uint(top + 874)) << 52 | (uint64_t(magnitude) << 52 - top & 0xffffffffffffful);
}

uint64_t group_at(uint p, uint lane, uint k) {
  if (GRANULARITY == kTensor) return 0ul;
  if (GRANULARITY == kChannel) return uint64_t(p) * 16ul + lane;
  return (uint64_t(p) * ((inputs + 31) / 32) + k / 32) * 16ul + lane;
}

uint64_t wide_code(uint word, uint64_t group) {
  uint64_t scale = Longs(scales + group * 8ul).at[0], zero = 0ul;
  if (DTYPE == kUint64) zero = Longs(zero_points + group * 8ul).at[0];
  if (DTYPE == kUint32) zero = uint64_t(Words(zero_points + group * 4ul).at[0]);
  uint64_t x = divide64(widened(word), scale), most = most_wide();
  bool is_negative = (x & kSign64) != 0ul && !is_nan64(x);
  uint64_t magnitude = rounded_magnitude64(x, ~0ul);
  if (!kIsRange) {
    magnitude = min(magnitude, most);
    return is_negative ? 0ul - magnitude : magnitude;
  }
  return is_negative ? zero - min(magnitude, zero) : zero + min(magnitude, most - min(zero, most));
}

uint zero_at(uint64_t group) {
  uint64_t byte_ = DTYPE == kUint16 ? group * 2ul : group;
  uint word = Words(zero_points + (byte_ & ~3ul)).at[0] >> uint(byte_ & 3ul) * 8u;
  return word & (DTYPE == kUint16 ? 0xffffu : 0xffu);
}

uint range_code(float x, float scale, uint zero) {
  // The end codes stand for up to half a step more than the weights: not for what is past the largest float.
  uint lowest = mul(float(zero), scale) > kLargestFloat ? 1u : 0u;
  uint highest = kMostSteps - (mul(float(kMostSteps - zero), scale) > kLargestFloat ? 1u : 0u);
  uint magnitude = rounded_magnitude(x, 0xffffffffu);
  uint code = x < 0.0 ? zero - min(magnitude, zero) : zero + min(magnitude, kMostSteps - min(zero, kMostSteps));
  return clamp(code, lowest, highest);
}

uint code_of(uint word, uint p, uint lane, uint k) {
  if (DTYPE == kFloat32) return word;
  if (DTYPE == kFloat16) return small_code(word, 5, 10, true, true);
  if (DTYPE == kBfloat16) return small_code(word, 8, 7, true, true);
  float w = flushed(from_bits(word));
  if (DTYPE == kBinary) return !is_nan(w) && (bits(w) >> 31 == 0u || bits(w) == kSignBit) ? 1u : 0u;
  uint64_t group = group_at(p, lane, k);
  if (kIsWide) return uint(wide_code(word, group));
  float scale = kHasHalfScales ? half_scale(half_at(scales + group * 2ul)) : Floats(scales + group * 4ul).at[0];
  float x = divide(w, scale);
  if (DTYPE == kFp8E4m3) return small_code(bits(x), 4, 3, false, true);
  if (DTYPE == kFp8E5m2) return small_code(bits(x), 5, 2, true, true);
  if (DTYPE == kFp4) return small_code(bits(x), 2, 1, false, false);
  if (kIsRange) return range_code(x, scale, zero_at(group));
  uint magnitude = rounded_magnitude(x, kMostSteps);
  return (x < 0.0 ? 0u - magnitude : magnitude) & (1u << kIntegerBits) - 1u;
}

uint master_word(uint p, uint lane, uint k) {
  return Words(master + ((uint64_t(p) * inputs + k) * 16ul + lane) * 4ul).at[0];
}

void main() {
  load_operands();
  uint panels = (outputs + 15) / 16, lanes = kWordBits != 0 ? 16 : 16 / kOfWord;
  uint rows = kWordBits != 0 ? (inputs + kOfWord - 1) / kOfWord : inputs;
  for (uint p = gl_WorkGroupID.y; p < panels; p += gl_NumWorkGroups.y)
    for (uint i = gl_GlobalInvocationID.x; i < rows * lanes; i += gl_NumWorkGroups.x * 64) {
      uint row = i / lanes, place = i % lanes;
      uint64_t at = uint64_t(p) * rows * lanes + i;
      if (kIsLong) {
        uint64_t code = 0ul;
        if (p * 16 + place < outputs) {
          uint word = master_word(p, place, row);
          code = DTYPE == kFloat64 ? double_code(word) : wide_code(word, group_at(p, place, row));
        }
        Longs(codes + at * 8ul).at[0] = code;
        continue;
      }
      uint all = 0u;
      [[dont_unroll]] for (uint j = 0; j < kOfWord; ++j) {
        uint lane = kWordBits != 0 ? place : place * kOfWord + j, k = kWordBits != 0 ? row * kOfWord + j : row;
        if (p * 16 + lane < outputs && k < inputs) all |= code_of(master_word(p, lane, k), p, lane, k) << j * kCodeBits;
      }
      Words(codes + at * 4ul).at[0] = all;
    }
}
