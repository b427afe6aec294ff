// SPDX-License-Identifier: Apache-2.0
// The backward of an elementwise maximum, source by source: what is left of the error goes to the first that holds it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Operands {
  uint64_t source, x, left, d;
  uint rows, cols, source_stride, x_stride, left_stride, d_stride;
};

void main() {
  uint count = rows * cols;
  for (uint e = gl_GlobalInvocationID.x; e < count; e += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint i = e / cols, j = e - i * cols;
    bool holds = flushed(row_at(source, i, source_stride).at[j]) == flushed(row_at(x, i, x_stride).at[j]);
    Floats rest = row_at(left, i, left_stride);
    float there = rest.at[j];
    row_at(d, i, d_stride).at[j] = holds ? there : 0.0;
    rest.at[j] = holds ? 0.0 : there;
  }
}
