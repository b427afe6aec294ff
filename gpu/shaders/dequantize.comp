// SPDX-License-Identifier: Apache-2.0
// Weights of 32 and 64 bits as float32 panels: scale (code - zero), the difference rounded to binary64, then the
// product, then to float32; float64 rounded. Lanes past the outputs become +0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "wide.glsl"

layout(local_size_x = 64) in;
#include "quantize_operands.inc"
#define WEFT_OPERANDS WEFT_DEQUANTIZE_OPERANDS
#include "operands.glsl"

float value_of(Weight w, uint p, uint k, uint lane) {
  uint64_t code = long_code(w, p, k, lane);
  if (DTYPE == kFloat64) return from_bits(narrowed(code));
  uint64_t place = GRANULARITY == kTensor ? 0ul : scale_place(w, p, k, 0) + lane, sign = 0ul, magnitude = code;
  if (DTYPE == kUint64 || DTYPE == kUint32) {
    uint64_t zero = DTYPE == kUint64 ? Longs(w.zero_points + place * 8ul).at[0]
                                     : uint64_t(Words(w.zero_points + place * 4ul).at[0]);
    if (code < zero) sign = kSign64;
    magnitude = code < zero ? zero - code : code - zero;
  } else {
    if (DTYPE == kInt32) code |= (code & 0x80000000ul) != 0ul ? 0xffffffff00000000ul : 0ul;
    sign = code & kSign64;
    magnitude = sign != 0ul ? 0ul - code : code;
  }
  return from_bits(narrowed(mul64(Longs(w.scales + place * 8ul).at[0], integer64(sign, magnitude))));
}

void main() {
  load_operands();
  Weight w = Weight(codes, scales, zero_points, inputs);
  for (uint p = gl_WorkGroupID.y; p < (outputs + 15) / 16; p += gl_NumWorkGroups.y)
    for (uint i = gl_GlobalInvocationID.x; i < inputs * 16; i += gl_NumWorkGroups.x * 64) {
      uint lane = i % 16;
      Floats(to + (uint64_t(p) * inputs * 16ul + i) * 4ul).at[0] = p * 16 + lane < outputs ? value_of(w, p, i / 16, lane) : 0.0;
    }
}
