// SPDX-License-Identifier: Apache-2.0
// dw[o][k] = fma(dy[b][o][p], x(b, p, k), dw[o][k]) for b, within it p, ascending: a weight a thread.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "window.glsl"

layout(local_size_x = 16, local_size_y = 16, local_size_y_id = 14) in;
#include "window_operands.inc"
#define WEFT_OPERANDS WEFT_CONVOLVE_OUTER_OPERANDS
#include "operands.glsl"

void main() {
  load_operands();
  Geometry g = Geometry(geometry);
  uint of_group = g.channels / g.groups, taps = volume(g.kernel), columns = of_group * taps;
  uint positions = volume(g.windows), plane = volume(g.image), panels = (outputs + 15) / 16;
  for (uint p = gl_WorkGroupID.y; p < panels; p += gl_NumWorkGroups.y) {
    uint o = p * 16 + gl_LocalInvocationID.x;
    if (o >= outputs) continue;
    for (uint k = gl_WorkGroupID.x * gl_WorkGroupSize.y + gl_LocalInvocationID.y; k < columns; k += gl_NumWorkGroups.x * gl_WorkGroupSize.y) {
      uint c = o / (outputs / g.groups) * of_group + k / taps;
      uvec3 tap = split(k % taps, g.kernel);
      Floats to = Floats(dw + ((uint64_t(p) * columns + k) * 16ul + o % 16) * 4ul);
      float sum = operand(to.at[0]);
      for (uint b = 0; b < rows; ++b) {
        Floats up = row_at(dy, b, dy_stride), image = row_at(x, b, x_stride);
        for (uint w = 0; w < positions; ++w) {
          uint at = element_of(g, split(w, g.windows), tap);
          float v = 0.0;
          if (at < plane) v = operand(image.at[c * plane + at]);
          sum = fused(operand(up.at[o * positions + w]), v, sum);
        }
      }
      to.at[0] = sum;
    }
  }
}
