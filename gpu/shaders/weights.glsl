// SPDX-License-Identifier: Apache-2.0
// Stored weights (kernels/weight.hpp) as numbers: four outputs of a panel at one input. A pipeline knows its type.
#ifndef WEFT_WEIGHTS
#define WEFT_WEIGHTS

#include "exact.glsl"
#include "memory.glsl"

// Row numbers of core/dtypes.def and of Granularity; gpu/stream_linear.cpp asserts them.
const uint kFloat64 = 0, kFloat32 = 1, kFloat16 = 2, kBfloat16 = 3, kFp8E4m3 = 4, kFp8E5m2 = 5, kFp4 = 6, kInt64 = 7,
           kInt32 = 8, kInt16 = 9, kInt8 = 10, kInt4 = 11, kInt2 = 12, kUint64 = 13, kUint32 = 14, kUint16 = 15, kUint8 = 16,
           kUint4 = 17, kUint2 = 18, kTernary = 19, kBinary = 20;
const uint kTensor = 0, kChannel = 1, kBlock32 = 2, kBlock32F16 = 3;
layout(constant_id = 5) const uint DTYPE = kFloat32;
layout(constant_id = 6) const uint GRANULARITY = kTensor;
const bool kHasBlocks = GRANULARITY == kBlock32 || GRANULARITY == kBlock32F16;
const bool kHasHalfScales = GRANULARITY == kBlock32F16;  // never of types with float64 scales

// Bits of a code that lies in words, else 0.
const uint kWordBits = DTYPE == kInt8 || DTYPE == kUint8                                                     ? 8
                       : DTYPE == kInt4 || DTYPE == kUint4 || DTYPE == kFp4                                  ? 4
                       : DTYPE == kInt2 || DTYPE == kUint2 || DTYPE == kTernary                              ? 2
                       : DTYPE == kBinary                                                                    ? 1
                                                                                                             : 0;
const bool kHasZero = DTYPE == kUint16 || DTYPE == kUint8 || DTYPE == kUint4 || DTYPE == kUint2;

// Addresses of a weight's arrays; panels have `inputs` inputs.
struct Weight {
  uint64_t codes, scales, zero_points;
  uint inputs;
};

layout(buffer_reference, std430, buffer_reference_align = 8) buffer Pairs { uvec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer WordQuads { uvec4 at[]; };

// The index of the scale of output 4 quad of panel p, at input k; the next three outputs' follow, unless it is the
// tensor's.
uint64_t scale_place(Weight w, uint p, uint k, uint quad) {
  if (GRANULARITY == kTensor) return 0ul;
  if (GRANULARITY == kChannel) return uint64_t(p) * 16ul + quad * 4;
  return (uint64_t(p) * ((w.inputs + 31) / 32) + k / 32) * 16ul + quad * 4;
}
// A binary16 scale: finite, not negative. By integers, as devices may flush its subnormals.
float half_scale(uint code) {
  return code < 0x400u ? float(code) * 5.9604644775390625e-08 : from_bits((code << 13) + 0x38000000u);
}
uint half_at(uint64_t address) { return Words(address & ~3ul).at[0] >> uint(address & 2ul) * 8u & 0xffffu; }
// Scales of those outputs as they lie in memory, and as numbers.
uvec4 scale_words(Weight w, uint p, uint k, uint quad) {
  uint64_t place = scale_place(w, p, k, quad);
  if (GRANULARITY == kTensor) return uvec4(Words(w.scales).at[0]);
  if (kHasHalfScales) return uvec4(Pairs(w.scales + place * 2ul).at[0], 0, 0);
  return WordQuads(w.scales + place * 4ul).at[0];
}
vec4 scales_in(uvec4 words) {
  if (!kHasHalfScales) return uintBitsToFloat(words);
  return vec4(half_scale(words.x & 0xffffu), half_scale(words.x >> 16), half_scale(words.y & 0xffffu),
              half_scale(words.y >> 16));
}
vec4 scale_quad(Weight w, uint p, uint k, uint quad) { return scales_in(scale_words(w, p, k, quad)); }
// Zero points of those outputs as they lie in memory, and as numbers.
uvec2 zero_words(Weight w, uint p, uint k, uint quad) {
  uint64_t place = scale_place(w, p, k, quad);
  if (DTYPE != kUint16) return uvec2(Words(w.zero_points + place).at[0], 0);
  if (GRANULARITY == kTensor) return uvec2(Words(w.zero_points + place * 2ul).at[0], 0);
  return Pairs(w.zero_points + place * 2ul).at[0];
}
uvec4 zeros_of(uvec2 words) {
  if (DTYPE == kUint16)
    return GRANULARITY == kTensor ? uvec4(words.x & 0xffffu)
                                  : uvec4(words.x & 0xffffu, words.x >> 16, words.y & 0xffffu, words.y >> 16);
  if (GRANULARITY == kTensor) return uvec4(words.x & 0xffu);
  return uvec4(words.x & 0xffu, words.x >> 8 & 0xffu, words.x >> 16 & 0xffu, words.x >> 24);
}
uvec4 zero_quad(Weight w, uint p, uint k, uint quad) { return zeros_of(zero_words(w, p, k, quad)); }

const uint kWordPart = kWordBits == 0 ? 32 : kWordBits, kCodesOfWord = 32 / kWordPart;  // of codes that lie in words

// The memory that holds the codes of four outputs at input k, and those codes, in the low bits.
uvec4 code_words(Weight w, uint p, uint k, uint quad) {
  if (kWordBits != 0) {
    uint64_t row = uint64_t(p) * ((w.inputs + kCodesOfWord - 1) / kCodesOfWord) + k / kCodesOfWord;
    return WordQuads(w.codes + (row * 16ul + quad * 4) * 4ul).at[0];
  }
  uint64_t element = (uint64_t(p) * w.inputs + k) * 16ul + quad * 4;
  if (DTYPE == kFloat32) return WordQuads(w.codes + element * 4ul).at[0];
  if (DTYPE == kFp8E4m3 || DTYPE == kFp8E5m2) return uvec4(Words(w.codes + element).at[0], 0, 0, 0);
  return uvec4(Pairs(w.codes + element * 2ul).at[0], 0, 0);
}
uvec4 codes_in(uvec4 words, uint k) {
  if (kWordBits != 0) return words >> k % kCodesOfWord * kWordBits & (1u << kWordBits) - 1u;
  if (DTYPE == kFloat32) return words;
  if (DTYPE == kFp8E4m3 || DTYPE == kFp8E5m2)
    return uvec4(words.x & 0xffu, words.x >> 8 & 0xffu, words.x >> 16 & 0xffu, words.x >> 24);
  return uvec4(words.x & 0xffffu, words.x >> 16, words.y & 0xffffu, words.y >> 16);
}
uvec4 code_quad(Weight w, uint p, uint k, uint quad) { return codes_in(code_words(w, p, k, quad), k); }

// A small float: its sign, its other bits, and what its format is. Its subnormals are normal numbers here; exact.
float small_float(uint negative, uint magnitude, uint mantissa_bits, uint bias, float smallest) {
  float number = magnitude >> mantissa_bits == 0u
                     ? float(magnitude) * smallest  // exact: nothing to round
                     : from_bits((magnitude << 23 - mantissa_bits) + (127u - bias << 23));
  return from_bits(bits(number) | negative << 31);
}
float half_number(uint code) {
  uint magnitude = code & 0x7fffu;
  if (magnitude >= 0x7c00u) return magnitude > 0x7c00u ? NAN : from_bits(kInfinityBits | code >> 15 << 31);
  return small_float(code >> 15, magnitude, 10, 15, 5.9604644775390625e-08);
}
float number_of(uint code) {
  switch (DTYPE) {
    case kFloat16: return half_number(code);
    case kBfloat16: return from_bits(code << 16);
    case kFp8E4m3: return (code & 0x7fu) == 0x7fu ? NAN : small_float(code >> 7, code & 0x7fu, 3, 7, 1.953125e-03);
    case kFp8E5m2: return half_number(code << 8);
    case kFp4: return small_float(code >> 3, code & 7u, 1, 1, 0.5);
    case kInt16: return float(bitfieldExtract(int(code), 0, 16));
    case kBinary: return code != 0u ? 1.0 : -1.0;
  }
  return float(bitfieldExtract(int(code), 0, int(kWordBits)));
}

// The values of four outputs of panel p at input k as they lie in memory: nothing that waits for a load, so that it may
// be under way while a shader computes.
struct StoredQuad {
  uvec4 codes;
  uvec2 zero_points;
  uvec4 scales;
};
StoredQuad stored_quad(Weight w, uint p, uint k, uint quad) {
  StoredQuad stored;
  stored.codes = code_words(w, p, k, quad);
  if (kHasZero) stored.zero_points = zero_words(w, p, k, quad);
  if (DTYPE != kFloat32 && DTYPE != kFloat16 && DTYPE != kBfloat16) stored.scales = scale_words(w, p, k, quad);
  return stored;
}
// As numbers, flushed.
vec4 quad_of(StoredQuad stored, uint k) {
  if (DTYPE == kFloat32) return operand(uintBitsToFloat(stored.codes));
  uvec4 codes = codes_in(stored.codes, k);
  vec4 numbers = kHasZero ? vec4(ivec4(codes) - ivec4(zeros_of(stored.zero_points)))
                          : vec4(number_of(codes.x), number_of(codes.y), number_of(codes.z), number_of(codes.w));
  if (DTYPE == kFloat16 || DTYPE == kBfloat16) return operand(numbers);
  vec4 scales = scales_in(stored.scales);
  return vec4(mul(scales.x, numbers.x), mul(scales.y, numbers.y), mul(scales.z, numbers.z), mul(scales.w, numbers.w));
}
vec4 weight_quad(Weight w, uint p, uint k, uint quad) { return quad_of(stored_quad(w, p, k, quad), k); }

// Panel p alone, as a weight of one panel.
Weight panel_of(Weight w, uint p) {
  uint64_t codes = kWordBits != 0 ? (w.inputs + kCodesOfWord - 1) / kCodesOfWord * 64ul
                   : DTYPE == kFloat32 ? w.inputs * 64ul
                   : DTYPE == kFp8E4m3 || DTYPE == kFp8E5m2 ? w.inputs * 16ul
                                                            : w.inputs * 32ul;
  uint64_t scales = GRANULARITY == kTensor ? 0ul : GRANULARITY == kChannel ? 16ul : (w.inputs + 31) / 32 * 16ul;
  return Weight(w.codes + p * codes, w.scales + p * scales * (kHasHalfScales ? 2ul : 4ul),
                w.zero_points + p * scales * (DTYPE == kUint16 ? 2ul : 1ul), w.inputs);
}

// One of them.
float weight_at(Weight w, uint p, uint k, uint lane) {
  if (DTYPE == kFloat32) return operand(Floats(w.codes + (uint64_t(p) * w.inputs + k) * 64ul).at[lane]);
  return weight_quad(w, p, k, lane / 4)[lane % 4];
}

#endif  // WEFT_WEIGHTS
