// SPDX-License-Identifier: Apache-2.0
// Each row's values in another order of their axes.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
layout(constant_id = 1) const uint RANK = 8;
struct Axes {
  uint of[8];
};
const uint kHalvesOf_Axes = 8;
uint take_uint();
Axes take_Axes() {
  Axes axes;
  [[unroll]] for (uint a = 0; a < 8; ++a) axes.of[a] = take_uint();
  return axes;
}
// result axes, outermost first
#include "move_operands.inc"
#define WEFT_OPERANDS WEFT_PERMUTE_OPERANDS
#include "operands.glsl"

void main() {
  if (!load_operands()) return;
  uint count = rows * cols;
  for (uint n = item(); n < count; n += items()) {
    uint b = n / cols, j = n - b * cols, rest = j, from = 0;
    for (uint a = RANK; a-- > 0;) {
      from += rest % extents.of[a] * strides.of[a];
      rest /= extents.of[a];
    }
    row_at(y, b, y_stride).at[j] = row_at(x, b, x_stride).at[from];
  }
}
