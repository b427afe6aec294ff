// SPDX-License-Identifier: Apache-2.0
// dx[b][j] = 2 (sum over points k of dy[b][k] (x[b][j] - c[k][j])), rule R2: 64 lanes an element. Rows here are
// elements.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lanes.glsl"
#include "weights.glsl"

#include "squared_distance_operands.inc"
#define WEFT_OPERANDS WEFT_DISTANCE_OPERANDS
#include "operands.glsl"

void main() {
  load_operands();
  Weight w = Weight(c, scales, zero_points, features);
  FOR_EACH_ROW(first) {
    uint i = min(row_of(first), rows - 1), b = i / features, j = i % features;
    float v = flushed(row_at(x, b, x_stride).at[j]), sum = 0.0;
    for (uint k = lane(); k < points; k += 64)
      sum = fused(flushed(row_at(dy, b, dy_stride).at[k]), sub(v, weight_at(w, k / 16, j, k % 16)), sum);
    sum = mul(2.0, fold_lanes(sum));
    if (row_of(first) < rows && lane() == 0) row_at(y, b, y_stride).at[j] = sum;
  }
}
