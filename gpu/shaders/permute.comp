// SPDX-License-Identifier: Apache-2.0
// Each row's values in another order of their axes.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 1) const uint RANK = 8;
layout(push_constant) uniform Operands {
  uint64_t x, y;
  uint rows, cols, x_stride, y_stride;
  uint extents[8], strides[8];  // result axes, outermost first
};

void main() {
  uint count = rows * cols;
  for (uint n = gl_GlobalInvocationID.x; n < count; n += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint b = n / cols, j = n - b * cols, rest = j, from = 0;
    for (uint a = RANK; a-- > 0;) {
      from += rest % extents[a] * strides[a];
      rest /= extents[a];
    }
    row_at(y, b, y_stride).at[j] = row_at(x, b, x_stride).at[from];
  }
}
