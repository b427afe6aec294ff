// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) of binary64 weights, summed in binary64 (rule R1) and rounded at last: 16 chunks of a
// panel (8 in small groups) at once, a thread an output.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "linear_operands.glsl"
#include "wide.glsl"

layout(local_size_x = 16, local_size_y = 16, local_size_y_id = 14) in;
const uint kSlots = gl_WorkGroupSize.y;
shared uint64_t sums[16][16];

uint64_t chunk_sum(uint m, uint p, Floats from, uint k) {
  uint64_t sum = 0ul;
  for (uint end = min(inputs, k + kChunk); k < end; ++k)
    sum = fused64(long_code(weight(m), p, k, gl_LocalInvocationID.x), widened(bits(from.at[k])), sum);
  return sum;
}

// Sums of a panel at a row, in the first slot.
float total_of(uint m, uint p, uint row) {
  uint slot = gl_LocalInvocationID.y, lane = gl_LocalInvocationID.x, o = p * 16 + lane;
  uint64_t total = 0ul;
  for (uint base = 0; base < inputs; base += kSlots * kChunk) {
    uint k = base + slot * kChunk;
    uint64_t sum = k < inputs ? chunk_sum(m, p, row_at(x, row, x_stride), k) : 0ul;
    barrier();
    sums[slot][lane] = sum;
    barrier();
    for (uint s = 0; slot == 0 && s < kSlots && base + s * kChunk < inputs; ++s) total = add64(total, sums[s][lane]);
  }
  if (bias != 0ul && o < outputs) total = add64(total, widened(bits(Floats(bias_of(m)).at[o])));
  return from_bits(narrowed(total));
}

void main() {
  load_operands();
  uint panels = (outputs + 15) / 16;
  for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y)
    for (uint p = gl_WorkGroupID.x; p < panels; p += gl_NumWorkGroups.x) {
      float sum = total_of(0, p, row);
#ifdef WEFT_GATED
      float up = total_of(1, p, row);
#endif
      uint o = p * 16 + gl_LocalInvocationID.x;
      if (gl_LocalInvocationID.y != 0 || o >= outputs) continue;
#ifdef WEFT_GATED
      Floats to = row_at(y, row, y_stride);
      float gate = activate(sum);
      to.at[o] = sum;
      to.at[outputs + o] = gate;
      to.at[2 * outputs + o] = up;
      to.at[3 * outputs + o] = mul(gate, up);
#else
      if (z != 0ul) row_at(z, row, z_stride).at[o] = sum;
      row_at(y, row, y_stride).at[o] = activate(sum);
#endif
    }
}
