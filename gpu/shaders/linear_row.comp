// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) for few rows: the weights are read once a row, 16 bytes a thread, SLOTS chunks of 64 inputs
// of a panel at once (rule R1: a chunk's sum is serial, chunk sums are added in order).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "linear_operands.glsl"

layout(local_size_x = 128) in;
layout(constant_id = 2) const uint SLOTS = 32;  // a power of two up to 32
shared vec4 sums[32][4];

vec4 chunk_sum(uint p, Floats from, uint quad, uint k, uint end) {
  vec4 sum = vec4(0.0);
#ifndef WEFT_EMULATED
  // Whole chunks: eight loads under way at once.
  if (end - k == kChunk) {
    for (; k < end; k += 8) {
      vec4 ws[8];
      [[unroll]] for (uint j = 0; j < 8; ++j) ws[j] = weight_quad(weight(), p, k + j, quad);
      [[unroll]] for (uint j = 0; j < 8; ++j) sum = fused(ws[j], operand(from.at[k + j]), sum);
    }
  }
#endif
  for (; k < end; ++k) sum = fused(weight_quad(weight(), p, k, quad), operand(from.at[k]), sum);
  return sum;
}

void main() {
  load_operands();
  uint quad = gl_LocalInvocationID.x & 3, unit = gl_LocalInvocationID.x >> 2;
  uint slot = unit % SLOTS, panels = (outputs + 15) / 16;
  const uint kPanels = 32 / SLOTS;
  for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y)
    for (uint first = gl_WorkGroupID.x * kPanels; first < panels; first += gl_NumWorkGroups.x * kPanels) {
      uint p = first + unit / SLOTS;
      Floats from = row_at(x, row, x_stride);
      vec4 total = vec4(0.0);
      for (uint base = 0; base < inputs; base += SLOTS * kChunk) {
        uint k = base + slot * kChunk;
        vec4 sum = vec4(0.0);
        if (p < panels && k < inputs) sum = chunk_sum(p, from, quad, k, min(inputs, k + kChunk));
        if (SLOTS == 1) {
          total = add(total, sum);
        } else {
          barrier();
          sums[unit][quad] = sum;
          barrier();
          if (slot == 0)
            for (uint s = 0; s < SLOTS && base + s * kChunk < inputs; ++s) total = add(total, sums[unit + s][quad]);
        }
      }
      if (slot == 0 && p < panels) finish(total, row, p * 16 + quad * 4);
    }
}
