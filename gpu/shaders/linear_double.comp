// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) of binary64 weights, summed in binary64 (rule R1) and rounded at last: 16 chunks of a panel
// at once, a thread an output.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "linear_operands.glsl"
#include "wide.glsl"

layout(local_size_x = 16, local_size_y = 16) in;
shared uint64_t sums[16][16];

uint64_t chunk_sum(uint p, Floats from, uint k) {
  uint64_t sum = 0ul;
  for (uint end = min(inputs, k + kChunk); k < end; ++k)
    sum = fused64(long_code(weight(), p, k, gl_LocalInvocationID.x), widened(bits(from.at[k])), sum);
  return sum;
}

void main() {
  load_operands();
  uint slot = gl_LocalInvocationID.y, lane = gl_LocalInvocationID.x, panels = (outputs + 15) / 16;
  for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y)
    for (uint p = gl_WorkGroupID.x; p < panels; p += gl_NumWorkGroups.x) {
      uint64_t total = 0ul;
      for (uint base = 0; base < inputs; base += 16 * kChunk) {
        uint k = base + slot * kChunk;
        uint64_t sum = k < inputs ? chunk_sum(p, row_at(x, row, x_stride), k) : 0ul;
        barrier();
        sums[slot][lane] = sum;
        barrier();
        for (uint s = 0; slot == 0 && s < 16 && base + s * kChunk < inputs; ++s) total = add64(total, sums[s][lane]);
      }
      uint o = p * 16 + lane;
      if (slot != 0 || o >= outputs) continue;
      if (bias != 0ul) total = add64(total, widened(bits(Floats(bias).at[o])));
      float sum = from_bits(narrowed(total));
      if (z != 0ul) row_at(z, row, z_stride).at[o] = sum;
      row_at(y, row, y_stride).at[o] = activate(sum);
    }
}
