// SPDX-License-Identifier: Apache-2.0
// y[b][j] = sum over e of p[b][e] x[b][e cols + j], or dx[b][e cols + j] = p[b][e] dy[b][j]: what p is 0 for is not looked
// at, and +0. Or, of x[b][e], +0 there.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
layout(constant_id = 1) const bool BACKWARD = false;
layout(constant_id = 2) const bool CLEAR = false;
// x is dy when backward
#include "mixture_operands.inc"
#define WEFT_OPERANDS WEFT_MIXTURE_OPERANDS
#include "operands.glsl"

void main() {
  if (!load_operands()) return;
  uint wide = CLEAR ? experts : BACKWARD ? cols * experts : cols, count = rows * wide;
  for (uint n = item(); n < count; n += items()) {
    uint b = n / wide, j = n - b * wide;
    Floats weights = row_at(p, b, p_stride), from = row_at(x, b, x_stride);
    float to = 0.0;
    if (CLEAR) {
      if (flushed(weights.at[j]) == 0.0) row_at(y, b, y_stride).at[j] = 0.0;
      continue;
    }
    if (BACKWARD) {
      float weight = flushed(weights.at[j / cols]);
      if (weight != 0.0) to = mul(weight, flushed(from.at[j % cols]));
    } else {
      for (uint e = 0; e < experts; ++e) {
        float weight = flushed(weights.at[e]);
        if (weight != 0.0) to = fused(weight, flushed(from.at[e * cols + j]), to);
      }
    }
    row_at(y, b, y_stride).at[j] = to;
  }
}
