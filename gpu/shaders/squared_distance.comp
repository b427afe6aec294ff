// SPDX-License-Identifier: Apache-2.0
// y[b][k] = |x[b] - c[k]|^2 by rule R1 (16 points of a panel by 16 rows a group), or (POINTS) dc[k][j] = fma(2
// dy[b][k], c[k][j] - x[b][j], dc[k][j]) for b ascending (16 points by 16 features).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "weights.glsl"

layout(local_size_x = 16, local_size_y = 16, local_size_y_id = 14) in;
layout(constant_id = 1) const bool POINTS = false;
// y is dc, in panels, when POINTS
#include "squared_distance_operands.inc"
#define WEFT_OPERANDS WEFT_DISTANCE_OPERANDS
#include "operands.glsl"

float distance_of(Weight w, uint k, Floats from) {
  float total = 0.0;
  for (uint chunk = 0; chunk < features; chunk += 64) {
    float sum = 0.0;
    for (uint j = chunk; j < min(features, chunk + 64); ++j) {
      float apart = sub(flushed(from.at[j]), weight_at(w, k / 16, j, k % 16));
      sum = fused(apart, apart, sum);
    }
    total = add(total, sum);
  }
  return total;
}

void move_point(Weight w, uint k, uint j) {
  Floats to = Floats(y + ((uint64_t(k / 16) * features + j) * 16ul + k % 16) * 4ul);
  float there = weight_at(w, k / 16, j, k % 16), sum = flushed(to.at[0]);
  for (uint b = 0; b < rows; ++b)
    sum = fused(mul(2.0, flushed(row_at(dy, b, dy_stride).at[k])), sub(there, flushed(row_at(x, b, x_stride).at[j])),
                sum);
  to.at[0] = sum;
}

void main() {
  load_operands();
  Weight w = Weight(c, scales, zero_points, features);
  uint panels = (points + 15) / 16, down = POINTS ? features : rows;
  for (uint p = gl_WorkGroupID.y; p < panels; p += gl_NumWorkGroups.y) {
    uint k = p * 16 + gl_LocalInvocationID.x;
    if (k >= points) continue;
    for (uint i = gl_WorkGroupID.x * gl_WorkGroupSize.y + gl_LocalInvocationID.y; i < down; i += gl_NumWorkGroups.x * gl_WorkGroupSize.y)
      if (POINTS)
        move_point(w, k, i);
      else
        row_at(y, i, y_stride).at[k] = distance_of(w, k, row_at(x, i, x_stride));
  }
}
