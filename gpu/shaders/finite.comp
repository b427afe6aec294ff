// SPDX-License-Identifier: Apache-2.0
// Counts, roughly, the infinities and NaNs of a matrix: 0 when there is none. In bits: no arithmetic.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Operands {
  uint64_t x, found;
  uint rows, cols, x_stride;
};

void main() {
  uint count = rows * cols;
  bool bad = false;
  for (uint e = gl_GlobalInvocationID.x; e < count; e += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint i = e / cols;
    bad = bad || (floatBitsToUint(row_at(x, i, x_stride).at[e - i * cols]) & 0x7f800000u) == 0x7f800000u;
  }
  if (bad) atomicOr(Words(found).at[0], 1u);
}
