// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) on integer codes and activations of int8 (quantize_rows.comp): exact sums over blocks of
// 32 inputs, then rule R1 over chunks of two blocks. Threads as in linear_row.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "linear_codes.glsl"
#include "code_dots.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 2) const uint SLOTS = 32;  // a power of two up to 32
shared vec4 sums[32][4];
#ifdef WEFT_GATED
shared vec4 gates[128];
#endif

vec4 chunk_sum(uint m, uint p, uint row, uint quad, uint k) {
  const uint n = 32 / kBits;
  vec4 sum = vec4(0.0);
  uint words = (inputs + n - 1) / n, blocks = (inputs + 31) / 32;
  uint64_t panel = weight(m).codes + (uint64_t(p) * words * 16ul + quad * 4) * 4ul;
  for (uint block = k / 32; block < min(blocks, k / 32 + 2); ++block) {
    uvec4 codes[8];
    [[unroll]] for (uint i = 0; i < kBits; ++i) {
      codes[i] = uvec4(0);
      if (block * kBits + i < words) codes[i] = WordQuads(panel + (block * kBits + i) * 64ul).at[0];
    }
    WordQuads q = WordQuads(x + (uint64_t(row) * blocks + block) * 32ul);
    uvec4 halves[2] = uvec4[2](q.at[0], q.at[1]);
    vec4 scales_of = GRANULARITY == kBlock32 ? scale_quad(weight(m), p, block * 32, quad) : vec4(0.0);
    ivec4 zero_of = kHasZero ? ivec4(zero_quad(weight(m), p, block * 32, quad)) : ivec4(0);
    vec4 numbers = block_sum(codes, halves, zero_of);
    sum = with_block(sum, numbers, unit(), Floats(x_scales).at[row * blocks + block], scales_of);
  }
  return sum;
}

void main() {
  load_operands();
  uint quad = gl_LocalInvocationID.x & 3, unit = gl_LocalInvocationID.x >> 2;
  uint slot = unit % SLOTS, panels = (outputs + 15) / 16;
  const uint kPanels = 32 / SLOTS;
  for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y)
    for (uint first = gl_WorkGroupID.x * kPanels; first < panels * kMatrices; first += gl_NumWorkGroups.x * kPanels) {
      uint of_both = first + unit / SLOTS, p = of_both / kMatrices, m = of_both % kMatrices;
      vec4 total = vec4(0.0);
      for (uint base = 0; base < inputs; base += SLOTS * kChunk) {
        uint k = base + slot * kChunk;
        vec4 sum = vec4(0.0);
        if (p < panels && k < inputs) sum = chunk_sum(m, p, row, quad, k);
        barrier();
        sums[unit][quad] = sum;
        barrier();
        if (slot == 0)
          for (uint s = 0; s < SLOTS && base + s * kChunk < inputs; ++s) total = add(total, sums[unit + s][quad]);
      }
      bool finishes = slot == 0 && p < panels;
      uint o = p * 16 + quad * 4;
      if (finishes && GRANULARITY != kBlock32) total = each_mul(total, scale_quad(weight(m), p, 0, quad));
#ifdef WEFT_GATED
      barrier();
      if (finishes && m == 0) gates[gl_LocalInvocationID.x] = finish_gate(total, bias_quad(m, o), row, o);
      barrier();
      if (finishes && m == 1) finish_up(total, bias_quad(m, o), gates[gl_LocalInvocationID.x - 4 * SLOTS], row, o);
#else
      if (finishes) finish(total, bias_quad(m, o), row, o);
#endif
    }
}
