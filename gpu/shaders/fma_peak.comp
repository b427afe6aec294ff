// SPDX-License-Identifier: Apache-2.0
// Peak rate of multiply-adds: chains of them in registers, independent of each other.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 256) in;
#include "self_test_operands.inc"
#define WEFT_OPERANDS WEFT_FMA_PEAK_OPERANDS
#include "operands.glsl"

// Numbers of its own for each chain: equal ones would be computed once.
vec4 begin(uint n) {
  return vec4(from_bits(0x3f000000u + n), from_bits(0x3f000001u + n), from_bits(0x3f000002u + n), from_bits(0x3f000003u + n));
}

void main() {
  load_operands();
  uint i = gl_GlobalInvocationID.x;
  vec4 addend = vec4(1.0), a = begin(16 * i), b = begin(16 * i + 4), c = begin(16 * i + 8), d = begin(16 * i + 12);
  for (uint step_ = 0; step_ < steps; ++step_) {
    WEFT_UNROLL for (int k = 0; k < 8; ++k) {
      a = fused(a, factor, addend);
      b = fused(b, factor, addend);
      c = fused(c, factor, addend);
      d = fused(d, factor, addend);
    }
  }
  vec4 sum = add(add(a, b), add(c, d));  // so that no chain is left out
  Floats(y).at[i] = add(add(sum.x, sum.y), add(sum.z, sum.w));
}
