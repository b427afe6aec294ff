// SPDX-License-Identifier: Apache-2.0
// Scales and zero points of a float32 master. Chunks of an output's inputs (64 of them, or a block of scales) leave two
// numbers each: smallest and largest, or the sums of |w| and of |w| 2^-64. These are combined for an output where
// scales are a channel's or the tensor's; a pair of each group of weights becomes its scale.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "quantize_weight.glsl"

layout(local_size_x = 64) in;
#include "quantize_operands.inc"
WEFT_QUANTIZE_NUMBERS(WEFT_NUMBER)
layout(constant_id = 1) const uint STEP = kChunks;
const uint kChunk = kHasBlocks ? 32 : 64;
shared vec2 lanes[64];

// Statistics of four outputs.
struct Pair {
  vec4 low, high;
};
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Pairs4 { Pair at[]; };

vec2 joined(vec2 a, vec2 b) {
  if (kIsMean) return vec2(add(a.x, b.x), add(a.y, b.y));
  return vec2(b.x < a.x ? b.x : a.x, b.y > a.y ? b.y : a.y);
}
float seen(uint word) { return (word & kInfinityBits) == kInfinityBits ? 0.0 : flushed(from_bits(word)); }
vec2 of_weight(float w) {
  if (kIsMean) return vec2(magnitude_of(w), mul(magnitude_of(w), 5.42101086242752217e-20));
  return kIsRange ? vec2(w) : vec2(0.0, magnitude_of(w));
}

Pair extremes_of(uint p, uint chunk, uint quad) {
  Pair all = Pair(vec4(0.0), vec4(0.0));
  WordQuads from = WordQuads(master + uint64_t(p) * inputs * 64ul);
  for (uint k = chunk * kChunk; k < min(inputs, (chunk + 1) * kChunk); ++k) {
    uvec4 words = from.at[k * 4 + quad];
    for (uint i = 0; i < 4; ++i) {
      vec2 now = joined(vec2(all.low[i], all.high[i]), of_weight(seen(words[i])));
      all.low[i] = now.x;
      all.high[i] = now.y;
    }
  }
  return all;
}

// scale, or the next float down where `most` times the scale is past the largest float.
float decodable(float scale, float most) {
  return mul(scale, most) > kLargestFloat ? from_bits(bits(scale) - 1u) : scale;
}
// The least binary16 number of 2^-24 and more that is not below the scale, at most 65504; and its code.
float in_half(float scale) {
  if (scale >= 6.103515625e-05) return from_bits(min(bits(scale) + 0x1fffu & ~0x1fffu, 0x477fe000u));
  float units = mul(scale, 16777216.0);
  uint whole = uint(units);
  return mul(float(whole + (float(whole) < units ? 1u : 0u)), 5.9604644775390625e-08);
}
uint half_code(float number) {
  return number < 6.103515625e-05 ? uint(mul(number, 16777216.0)) : (bits(number) >> 13) - 0x1c000u;
}
float stored(float scale) { return kHasHalfScales ? in_half(scale) : scale; }
float normal(float scale) { return scale > kSmallestNormal ? scale : kSmallestNormal; }

void narrow_scale(vec2 group, float n, out float scale, out uint zero) {
  float most = largest_number();
  zero = 0u;
  if (kIsMean) {
    if (n == 0.0) {
      scale = kSmallestNormal;
    } else if (group.x > kLargestFloat) {
      // Powers of two: the largest float times 2^-64, and back.
      float mean = divide(group.y, n), limit = from_bits(0x5f7fffffu);
      scale = normal(mul(limit < mean ? limit : mean, 1.84467440737095516e+19));
    } else {
      scale = normal(divide(group.x, n));
    }
    scale = stored(scale);
  } else if (!kIsRange) {
    scale = stored(decodable(normal(divide(group.y, most)), most));
  } else {
    float width = sub(group.y, group.x);
    if (width > kLargestFloat)
      scale = normal(divide(sub(mul(group.y, 0.5), mul(group.x, 0.5)), mul(most, 0.5)));
    else
      scale = decodable(normal(divide(width, most)), most);
    scale = stored(scale);
    zero = rounded_magnitude(divide(negated(group.x), scale), kMostSteps);
  }
}
void wide_scale(vec2 group, out uint64_t scale, out uint64_t zero) {
  // As doubles: 2^63 - 1024, 2^31 - 1; 2^64 - 8192, 2^32 - 1.
  uint64_t most = DTYPE == kInt64    ? 0x43dffffffffffffful
                  : DTYPE == kUint64 ? 0x43effffffffffffcul
                                     : integer64(0ul, most_wide());
  uint64_t low = widened(bits(group.x)), high = widened(bits(group.y));
  scale = divide64(add64(high, negated64(low)), most);
  if (scale == 0ul) scale = 0x3810000000000000ul;
  zero = kIsRange ? rounded_magnitude64(divide64(negated64(low), scale), most_wide()) : 0ul;
}

// The scales of four outputs at `place`; of outputs that do not exist they are 0.
void give(Pair group, uint o, uint64_t place, float n) {
  uvec4 zero = uvec4(0), halves = uvec4(0);
  for (uint i = 0; i < 4; ++i) {
    vec2 of_output = vec2(group.low[i], group.high[i]);
    if (kIsWide) {
      uint64_t scale = 0ul, from = 0ul;
      if (o + i < outputs) wide_scale(of_output, scale, from);
      Longs(scales + (place + i) * 8ul).at[0] = scale;
      if (DTYPE == kUint64) Longs(zero_points + (place + i) * 8ul).at[0] = from;
      zero[i] = uint(from);
    } else {
      float scale = 0.0;
      if (o + i < outputs) narrow_scale(of_output, n, scale, zero[i]);
      halves[i] = half_code(scale);
      if (!kHasHalfScales) Floats(scales + (place + i) * 4ul).at[0] = scale;
    }
  }
  if (kHasHalfScales)
    Pairs(scales + place * 2ul).at[0] = uvec2(halves.x | halves.y << 16, halves.z | halves.w << 16);
  if (DTYPE == kUint32) WordQuads(zero_points + place * 4ul).at[0] = zero;
  if (DTYPE == kUint16) Pairs(zero_points + place * 2ul).at[0] = uvec2(zero.x | zero.y << 16, zero.z | zero.w << 16);
  if (kHasZero && DTYPE != kUint16)
    Words(zero_points + place).at[0] = zero.x | zero.y << 8 | zero.z << 16 | zero.w << 24;
}

// The one scale of a tensor: rule R2 over outputs.
void whole() {
  uint l = gl_LocalInvocationID.x;
  vec2 all = vec2(0.0);
  for (uint o = l; o < outputs; o += 64) {
    Pair pair = Pairs4(combined + uint64_t(o / 4) * 32ul).at[0];
    all = joined(all, vec2(pair.low[o % 4], pair.high[o % 4]));
  }
  lanes[l] = all;
  barrier();
  for (uint reach = 32; reach > 0; reach /= 2) {
    if (l < reach) lanes[l] = joined(lanes[l], lanes[l + reach]);
    barrier();
  }
  if (l != 0) return;
  if (kIsWide) {
    uint64_t scale, zero;
    wide_scale(lanes[0], scale, zero);
    Longs(scales).at[0] = scale;
    if (DTYPE == kUint64) Longs(zero_points).at[0] = zero;
    if (DTYPE == kUint32) Words(zero_points).at[0] = uint(zero);
  } else {
    float scale;
    uint zero;
    narrow_scale(lanes[0], count, scale, zero);
    Floats(scales).at[0] = scale;
    uint mask = DTYPE == kUint16 ? 0xffffu : 0xffu;
    // Bytes behind the array are not its own.
    if (kHasZero) Words(zero_points).at[0] = (Words(zero_points).at[0] & ~mask) | zero;
  }
}

void main() {
  load_operands();
  if (STEP == kWhole) {
    whole();
    return;
  }
  uint panels = (outputs + 15) / 16, chunks = (inputs + kChunk - 1) / kChunk;
  uint of_panel = STEP == kOutputs || GRANULARITY == kChannel && STEP == kGroups ? 1 : chunks;
  for (uint p = gl_WorkGroupID.y; p < panels; p += gl_NumWorkGroups.y)
    for (uint i = gl_GlobalInvocationID.x; i < of_panel * 4; i += gl_NumWorkGroups.x * 64) {
      uint chunk = i / 4, quad = i % 4;
      uint64_t place = uint64_t(p) * of_panel * 4ul + i;
      if (STEP == kChunks) {
        Pairs4(statistics + place * 32ul).at[0] = extremes_of(p, chunk, quad);
      } else if (STEP == kOutputs) {
        Pair all = Pair(vec4(0.0), vec4(0.0));
        for (uint j = 0; j < chunks; ++j) {
          Pair next = Pairs4(statistics + ((uint64_t(p) * chunks + j) * 4ul + quad) * 32ul).at[0];
          for (uint lane = 0; lane < 4; ++lane) {
            vec2 now = joined(vec2(all.low[lane], all.high[lane]), vec2(next.low[lane], next.high[lane]));
            all.low[lane] = now.x;
            all.high[lane] = now.y;
          }
        }
        Pairs4(combined + place * 32ul).at[0] = all;
      } else {
        bool is_block = kHasBlocks;
        Pair group = Pairs4((is_block ? statistics : combined) + place * 32ul).at[0];
        give(group, p * 16 + quad * 4, place * 4ul, is_block ? float(min(32u, inputs - chunk * 32)) : count);
      }
    }
}
