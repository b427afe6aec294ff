// SPDX-License-Identifier: Apache-2.0
// Peak rate of multiply-adds: chains of them in registers, independent of each other.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
#include "self_test_operands.inc"
#define WEFT_OPERANDS WEFT_FMA_PEAK_OPERANDS
#include "operands.glsl"

// Numbers of its own for each chain: equal ones would be computed once.
vec4 begin(uint n) {
  return vec4(from_bits(0x3f000000u + n), from_bits(0x3f000001u + n), from_bits(0x3f000002u + n), from_bits(0x3f000003u + n));
}

const uint kChains = 8;  // of vec4

void main() {
  load_operands();
  uint i = gl_GlobalInvocationID.x;
  vec4 addend = vec4(1.0), chains[kChains];
  float by = add(factor, 0.0);  // in a register: NVIDIA's reads of constants slow it down
  [[unroll]] for (uint c = 0; c < kChains; ++c) chains[c] = begin(4 * (kChains * i + c));
  for (uint step_ = 0; step_ < steps; ++step_) {
    WEFT_UNROLL for (int k = 0; k < 8; ++k)
      [[unroll]] for (uint c = 0; c < kChains; ++c) chains[c] = fused(chains[c], by, addend);
  }
  vec4 sum = chains[0];  // so that no chain is left out
  [[unroll]] for (uint c = 1; c < kChains; ++c) sum = add(sum, chains[c]);
  Floats(y).at[i] = add(add(sum.x, sum.y), add(sum.z, sum.w));
}
