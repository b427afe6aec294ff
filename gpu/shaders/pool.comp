// SPDX-License-Identifier: Apache-2.0
// Largest and mean of windows, a window a thread; backward, an element a thread, which visits its windows in order.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "window.glsl"

layout(local_size_x = 128) in;
#include "window_operands.inc"
WEFT_POOL_NUMBERS(WEFT_NUMBER)
layout(constant_id = 1) const uint OPERATION = kMax;
// backward: x is dy, y is dx
#define WEFT_OPERANDS WEFT_POOL_OPERANDS
#include "operands.glsl"

float divisor(Geometry g, uvec4 bins[3]) {
  uint n = 1;
  for (uint a = 0; a < 3; ++a) n *= g.counts_padding != 0u ? bins[a].w : bins[a].y;
  return float(n);
}

void forward(Geometry g, uint b, uint c, uint place) {
  uint plane = volume(g.image), positions = volume(g.windows);
  uvec3 p = split(place, g.windows);
  uvec4 bins[3];
  for (uint a = 0; a < 3; ++a) bins[a] = bin_of(g, a, p[a]);
  Floats from = row_at(x, b, x_stride);
  uint from_plane = c * plane, best_at = (bins[0].x * g.image[1] + bins[1].x) * g.image[2] + bins[2].x;
  float best = -INFINITY, kept = -INFINITY, sum = 0.0;
  for (uint i = 0; i < bins[0].y; ++i)
    for (uint j = 0; j < bins[1].y; ++j)
      for (uint k = 0; k < bins[2].y; ++k) {
        uint at = ((bins[0].x + i * bins[0].z) * g.image[1] + bins[1].x + j * bins[1].z) * g.image[2] + bins[2].x +
                  k * bins[2].z;
        float there = from.at[from_plane + at], v = flushed(there);
        if (OPERATION == kMean)
          sum = add(sum, v);
        else if (v > best || is_nan(v)) {
          best = v;
          kept = there;
          best_at = at;
        }
      }
  uint to = c * positions + place;
  row_at(y, b, y_stride).at[to] = OPERATION == kMean ? divide(sum, divisor(g, bins)) : kept;
  if (OPERATION == kMax && index != 0ul) row_at(index, b, index_stride).at[to] = float(best_at);
}

void backward(Geometry g, uint b, uint c, uint place) {
  uint positions = volume(g.windows);
  uvec3 i = split(place, g.image);
  uvec2 around[3];
  for (uint a = 0; a < 3; ++a) around[a] = windows_around(g, a, i[a]);
  Floats up = row_at(x, b, x_stride);
  float sum = 0.0;
  for (uint pz = around[0].x; pz < around[0].y; ++pz)
    for (uint py = around[1].x; py < around[1].y; ++py)
      for (uint px = around[2].x; px < around[2].y; ++px) {
        uint p = c * positions + (pz * g.windows[1] + py) * g.windows[2] + px;
        if (OPERATION == kMaxBackward) {
          if (row_at(index, b, index_stride).at[p] == float(place)) sum = add(sum, flushed(up.at[p]));
        } else {
          uvec4 bins[3] = uvec4[3](bin_of(g, 0, pz), bin_of(g, 1, py), bin_of(g, 2, px));
          if (holds(bins[0], i.x) && holds(bins[1], i.y) && holds(bins[2], i.z))
            sum = add(sum, divide(flushed(up.at[p]), divisor(g, bins)));
        }
      }
  row_at(y, b, y_stride).at[c * volume(g.image) + place] = sum;
}

void main() {
  load_operands();
  Geometry g = Geometry(geometry);
  bool is_backward = OPERATION == kMaxBackward || OPERATION == kMeanBackward;
  uint each = is_backward ? volume(g.image) : volume(g.windows);
  for (uint job = gl_WorkGroupID.y; job < rows * g.channels; job += gl_NumWorkGroups.y)
    for (uint i = gl_GlobalInvocationID.x; i < each; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)
      if (is_backward)
        backward(g, job / g.channels, job % g.channels, i);
      else
        forward(g, job / g.channels, job % g.channels, i);
}
