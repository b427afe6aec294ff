// SPDX-License-Identifier: Apache-2.0
// Transpose: each element gathers from the windows that hold it, ascending (its taps descending), parts by rule R1 over
// the outputs of its channel's group.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "activations.glsl"
#include "weights.glsl"
#include "window.glsl"

layout(local_size_x = 128) in;
#include "window_operands.inc"
#define WEFT_OPERANDS WEFT_CONVOLVE_OPERANDS
#include "operands.glsl"

float part_of(Geometry g, uint first, uint count, uint k, uint p, Floats from) {
  uint positions = volume(g.windows);
  Weight weights = Weight(w, scales, zero_points, g.channels / g.groups * volume(g.kernel));
  float total = 0.0;
  for (uint chunk = 0; chunk < count; chunk += 64) {
    float sum = 0.0;
    for (uint i = chunk; i < min(count, chunk + 64); ++i) {
      uint o = first + i;
      sum = fused(weight_at(weights, o / 16, k, o % 16), operand(from.at[o * positions + p]), sum);
    }
    total = add(total, sum);
  }
  return total;
}

float gathered(Geometry g, uint c, uint place, Floats from) {
  uint of_group = g.channels / g.groups, count = outputs / g.groups, taps = volume(g.kernel);
  uvec3 i = split(place, g.image);
  float sum = 0.0;
  for (uint t = taps; t-- > 0;) {
    uvec3 tap = split(t, g.kernel);
    uint p = 0;
    bool is_there = true;
    for (uint a = 0; a < 3; ++a) {
      uint at = i[a] + g.padding[a], offset = tap[a] * g.dilation[a];
      if (at < offset || (at - offset) % g.stride[a] != 0 || (at - offset) / g.stride[a] >= g.windows[a])
        is_there = false;
      else
        p = p * g.windows[a] + (at - offset) / g.stride[a];
    }
    if (is_there) sum = add(sum, part_of(g, c / of_group * count, count, c % of_group * taps + t, p, from));
  }
  return add(sum, 0.0);
}

void main() {
  load_operands();
  Geometry g = Geometry(geometry);
  uint plane = volume(g.image);
  for (uint job = gl_WorkGroupID.y; job < rows * g.channels; job += gl_NumWorkGroups.y) {
    uint b = job / g.channels, c = job % g.channels;
    for (uint i = gl_GlobalInvocationID.x; i < plane; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
      float sum = gathered(g, c, i, row_at(x, b, x_stride));
      if (bias != 0ul) sum = add(sum, operand(Floats(bias).at[c]));
      if (z != 0ul) row_at(z, b, z_stride).at[c * plane + i] = sum;
      row_at(y, b, y_stride).at[c * plane + i] = activate(sum);
    }
  }
}
