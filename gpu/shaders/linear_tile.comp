// SPDX-License-Identifier: Apache-2.0
// The same for many rows: tiles of 64 outputs by 64 rows, 4 by 4 a thread. What a tile reads past the edges is +0, whose
// steps leave every total as it is (a total is never -0, so a chunk sum's zero has no sign that counts).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "linear_operands.glsl"

layout(local_size_x = 256) in;
const uint kTile = 64, kStep = 16, kPadded = kTile + 4;
shared vec4 ws[kStep][kTile / 4];
shared float xs[kStep][kPadded];

void load_step(uint panel, uint row, uint k) {
  uint id = gl_LocalInvocationID.x;
  uint p = panel + id / 64, at = k + id % 64 / 4, quad = id % 4;
  vec4 weights = vec4(0.0);
  if (p * 16 < outputs && at < inputs) weights = weight_quad(weight(), p, at, quad);
  ws[at - k][id / 64 * 4 + quad] = weights;
  uint r = row + id / 4, first = id % 4 * 4;
  Floats from = row_at(x, r, x_stride);
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    float v = 0.0;
    if (r < rows && k + first + i < inputs) v = operand(from.at[k + first + i]);
    xs[first + i][id / 4] = v;
  }
}

void main() {
  load_operands();
  uint across = gl_LocalInvocationID.x % 16, down = gl_LocalInvocationID.x / 16;
  uint tiles = (outputs + kTile - 1) / kTile;
  for (uint row = gl_WorkGroupID.y * kTile; row < rows; row += gl_NumWorkGroups.y * kTile)
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
      vec4 total[4] = vec4[4](vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));
      for (uint chunk = 0; chunk < inputs; chunk += kChunk) {
        vec4 sum[4] = vec4[4](vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));
        for (uint k = chunk; k < min(inputs, chunk + kChunk); k += kStep) {
          barrier();
          load_step(tile * 4, row, k);
          barrier();
          WEFT_UNROLL for (uint i = 0; i < kStep; ++i) {
            vec4 weights = ws[i][across];
            [[unroll]] for (uint r = 0; r < 4; ++r) sum[r] = fused(weights, xs[i][down * 4 + r], sum[r]);
          }
        }
        [[unroll]] for (uint r = 0; r < 4; ++r) total[r] = add(total[r], sum[r]);
      }
      for (uint r = 0; r < 4; ++r)
        if (row + down * 4 + r < rows)
          finish(total[r], bias_quad(tile * kTile + across * 4), row + down * 4 + r, tile * kTile + across * 4);
    }
}
