// SPDX-License-Identifier: Apache-2.0
// dx = dy w of binary64 weights by rule R2 over the outputs, in binary64, rounded at last: 64 lanes by 4 inputs (2 in
// small groups) in a group. ABSOLUTE: sums of |w| instead, as if of one row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "wide.glsl"

layout(local_size_x = 64, local_size_y = 4, local_size_y_id = 13) in;
layout(constant_id = 4) const bool ABSOLUTE = false;
#include "linear_operands.inc"
#define WEFT_OPERANDS WEFT_TRANSPOSED_OPERANDS
#include "operands.glsl"
const uint kColumns = gl_WorkGroupSize.y;
shared uint64_t lanes[4][64];

void main() {
  load_operands();
  uint lane = gl_LocalInvocationID.x, column = gl_LocalInvocationID.y;
  Weight weights = Weight(w, scales, zero_points, inputs);
  for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y)
    for (uint first = gl_WorkGroupID.x * kColumns; first < inputs; first += gl_NumWorkGroups.x * kColumns) {
      uint k = first + column;
      uint64_t sum = 0ul;
      for (uint o = lane; k < inputs && o < outputs; o += 64) {
        uint64_t code = long_code(weights, o / 16, k, o % 16);
        // A product with 1 is a sum.
        uint64_t up = ABSOLUTE ? kOne64 : widened(bits(row_at(dy, row, dy_stride).at[o]));
        sum = fused64(ABSOLUTE ? code & ~kSign64 : code, up, sum);
      }
      barrier();
      lanes[column][lane] = sum;
      barrier();
      for (uint reach = 32; reach > 0; reach /= 2) {
        if (lane < reach) lanes[column][lane] = add64(lanes[column][lane], lanes[column][lane + reach]);
        barrier();
      }
      if (lane == 0 && k < inputs) row_at(dx, row, dx_stride).at[k] = from_bits(narrowed(lanes[column][0]));
    }
}
