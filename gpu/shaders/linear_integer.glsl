// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) on integer codes and activations of int8 (quantize_rows.comp): exact sums over blocks of 32
// inputs, then rule R1 over chunks of two blocks. Threads as in linear_row.comp.
#ifndef WEFT_LINEAR_INTEGER
#define WEFT_LINEAR_INTEGER

#include "linear_codes.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 2) const uint SLOTS = 32;  // a power of two up to 32
shared vec4 sums[32][4];
#ifdef WEFT_GATED
shared vec4 gates[128];
#endif

// The sum over block `block` of (code - zero) q, below 2^24.
ivec4 block_sum(uint m, uint p, uint row, uint block, uint quad) {
  const uint bits_of = max(kWordBits, 1u), n = 32 / bits_of;
  uint words = (inputs + n - 1) / n, blocks = (inputs + 31) / 32;
  ivec4 zeros_of = ivec4(0);
  if (kHasZero) zeros_of = ivec4(zero_quad(weight(m), p, block * 32, quad));
  uint64_t panel = weight(m).codes + (uint64_t(p) * words * 16ul + quad * 4) * 4ul;
  Words q = Words(x + uint64_t(row) * blocks * 32ul);
  ivec4 sum = ivec4(0);
  for (uint j = 0; j < bits_of; ++j) {
    uint at = block * bits_of + j;
    if (at >= words) break;
    uvec4 codes = WordQuads(panel + at * 64ul).at[0];
    for (uint i = 0; i < n; ++i) {
      uint k = at * n + i;
      int from = bitfieldExtract(int(q.at[k / 4]), int(k % 4 * 8), 8);
      ivec4 number;
      if (DTYPE == kBinary)
        number = ivec4(bitfieldExtract(codes, int(i), 1)) * 2 - 1;
      else if (kHasZero)
        number = ivec4(bitfieldExtract(codes, int(i * bits_of), int(bits_of))) - zeros_of;
      else
        number = bitfieldExtract(ivec4(codes), int(i * bits_of), int(bits_of));
      sum += number * from;
    }
  }
  return sum;
}

vec4 chunk_sum(uint m, uint p, uint row, uint quad, uint k) {
  vec4 sum = vec4(0.0);
  uint blocks = (inputs + 31) / 32;
  for (uint block = k / 32; block < min(blocks, k / 32 + 2); ++block) {
    vec4 scales_of = GRANULARITY == kBlock32 ? scale_quad(weight(m), p, block * 32, quad) : vec4(0.0);
    sum = with_block(sum, vec4(block_sum(m, p, row, block, quad)), 1.0, Floats(x_scales).at[row * blocks + block], scales_of);
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

#endif  // WEFT_LINEAR_INTEGER
