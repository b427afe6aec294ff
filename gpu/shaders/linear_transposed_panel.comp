// SPDX-License-Identifier: Apache-2.0
// dx = dy w by rule R2 for many rows and at most 16 outputs, a panel: each of its lanes has one product, the others of
// the 64 have none; a thread has an input, and folds the lanes of each row by itself.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "weights.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
#include "linear_operands.inc"
#define WEFT_OPERANDS WEFT_TRANSPOSED_OPERANDS
#include "operands.glsl"
const uint kRows = 8;  // of a group

float folded(vec4 weights[4], Floats from) {
  float lanes[16];
  WEFT_UNROLL for (uint o = 0; o < 16; ++o) {
    lanes[o] = 0.0;
    // To the lane 32 further, which is +0; so is the one 16 further, whose sum changes nothing more.
    if (o < outputs) lanes[o] = add(fused(weights[o / 4][o % 4], operand(from.at[o]), 0.0), 0.0);
  }
  [[unroll]] for (uint left = 8; left > 0; left /= 2)
    WEFT_UNROLL for (uint o = 0; o < left; ++o) lanes[o] = add(lanes[o], lanes[o + left]);
  return lanes[0];
}

void main() {
  load_operands();
  Weight weight = Weight(w, scales, zero_points, inputs);
  uint step_ = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
  for (uint first = gl_WorkGroupID.y * kRows; first < rows; first += gl_NumWorkGroups.y * kRows)
    for (uint k = gl_GlobalInvocationID.x; k < inputs; k += step_) {
      vec4 weights[4];
      WEFT_UNROLL for (uint q = 0; q < 4; ++q) weights[q] = weight_quad(weight, 0, k, q);
      for (uint row = first; row < min(first + kRows, rows); ++row)
        row_at(dx, row, dx_stride).at[k] = folded(weights, row_at(dy, row, dy_stride));
    }
}
