// SPDX-License-Identifier: Apache-2.0
// The backward of an elementwise maximum, source by source: what is left of the error goes to the first that holds it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
#include "elementwise_operands.inc"
#define WEFT_OPERANDS WEFT_ROUTE_OPERANDS
#include "operands.glsl"

void main() {
  if (!load_operands()) return;
  uint count = rows * cols;
  for (uint e = item(); e < count; e += items()) {
    uint i = e / cols, j = e - i * cols;
    bool holds = flushed(row_at(source, i, source_stride).at[j]) == flushed(row_at(x, i, x_stride).at[j]);
    Floats rest = row_at(left, i, left_stride);
    float there = rest.at[j];
    row_at(d, i, d_stride).at[j] = holds ? there : 0.0;
    rest.at[j] = holds ? 0.0 : there;
  }
}
