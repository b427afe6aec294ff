// SPDX-License-Identifier: Apache-2.0
// dx = dy w by rule R2 over the outputs: 64 lanes by 4 columns in a group (by 2 in small ones), INPUTS inputs a
// column apart and ROWS rows a thread.
// ABSOLUTE: sums of |w| instead, as if of one row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "weights.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
layout(constant_id = 2) const uint INPUTS = 4;  // up to 4
layout(constant_id = 3) const uint ROWS = 4;    // up to 4
layout(constant_id = 4) const bool ABSOLUTE = false;
#include "linear_operands.inc"
#define WEFT_OPERANDS WEFT_TRANSPOSED_OPERANDS
#include "operands.glsl"
const uint kColumns = gl_WorkGroupSize.x / 64;
shared float lanes[16][256];
uint own_lane() { return gl_LocalInvocationID.x / (16 * kColumns) * 16 + gl_LocalInvocationID.x % 16; }
uint own_column() { return gl_LocalInvocationID.x / 16 % kColumns; }

void accumulate(uint k, uint row, inout float sum[16]) {
  for (uint o = own_lane(); o < outputs; o += 64) {
    Weight weights = Weight(w, scales, zero_points, inputs);
    float up[4];
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
      up[r] = !ABSOLUTE && row + r < rows ? operand(row_at(dy, row + r, dy_stride).at[o]) : 0.0;
    [[unroll]] for (uint i = 0; i < INPUTS; ++i) {
      uint at = k + i * kColumns;
      float weight = at < inputs ? weight_at(weights, o / 16, at, o % 16) : 0.0;
      [[unroll]] for (uint r = 0; r < ROWS; ++r)
        sum[i * 4 + r] = ABSOLUTE ? add(sum[i * 4 + r], magnitude_of(weight)) : fused(weight, up[r], sum[i * 4 + r]);
    }
  }
}

void main() {
  load_operands();
  uint lane = own_lane(), column = own_column();
  for (uint row = gl_WorkGroupID.y * ROWS; row < rows; row += gl_NumWorkGroups.y * ROWS)
    for (uint first = gl_WorkGroupID.x * INPUTS * kColumns; first < inputs;
         first += gl_NumWorkGroups.x * INPUTS * kColumns) {
      float sum[16];
      [[unroll]] for (uint i = 0; i < 16; ++i) sum[i] = 0.0;
      accumulate(first + column, row, sum);
      barrier();
      [[unroll]] for (uint i = 0; i < 16; ++i) lanes[i][lane * 4 + column] = sum[i];
      for (uint half_ = 32; half_ > 0; half_ /= 2) {
        barrier();
        if (lane < half_)
          [[unroll]] for (uint i = 0; i < INPUTS; ++i)
            [[unroll]] for (uint r = 0; r < ROWS; ++r)
              lanes[i * 4 + r][lane * 4 + column] =
                  add(lanes[i * 4 + r][lane * 4 + column], lanes[i * 4 + r][(lane + half_) * 4 + column]);
      }
      if (lane == 0)
        for (uint i = 0; i < INPUTS; ++i)
          for (uint r = 0; r < ROWS; ++r) {
            uint k = first + column + i * kColumns;
            if (k < inputs && row + r < rows) row_at(dx, row + r, dx_stride).at[k] = lanes[i * 4 + r][column];
          }
    }
}
