// SPDX-License-Identifier: Apache-2.0
// The same for many rows: tiles of 64 WIDE outputs by 64 rows, 4 WIDE by 4 a thread. What a tile reads past the edges is
// +0, whose steps leave every total as it is (a total is never -0, so a chunk sum's zero has no sign that counts).
#version 460
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 256) in;
#include "linear_operands.glsl"

layout(constant_id = 4) const uint WIDE = 1;  // 1 or 2
const uint kTile = 64 * WIDE, kRows = 64, kStep = 16;
// Rows of 36 and 17: neighbours in a column fall on different banks.
shared vec4 ws[kStep][36];
shared vec4 xs[kStep][17];

// A step's operands on their way from memory.
struct Fetched {
  vec4 w[2], x;
};

Fetched fetch(uint tile, uint row, uint k) {
  Fetched f;
  uint id = gl_LocalInvocationID.x;
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    uint n = id + 256 * i, p = tile * WIDE * 4 + n / 64, at = k + n % 64 / 4;
    f.w[i] = vec4(0.0);
    if (i < WIDE && p * 16 < outputs && at < inputs) f.w[i] = weight_quad(weight(), p, at, n % 4);
  }
  uint r = row + id / 4, first = k + id % 4 * 4;
  f.x = vec4(0.0);
  if (r < rows) {
    if (ALIGNED && first + 4 <= inputs) {
      f.x = operand(Quads(x + uint64_t(r) * x_stride * 4ul).at[first / 4]);
    } else {
      Floats from = row_at(x, r, x_stride);
      [[unroll]] for (uint i = 0; i < 4; ++i)
        if (first + i < inputs) f.x[i] = operand(from.at[first + i]);
    }
  }
  return f;
}

void share_out(Fetched f) {
  uint id = gl_LocalInvocationID.x;
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    uint n = id + 256 * i;
    if (i < WIDE) ws[n % 64 / 4][n / 64 * 4 + n % 4] = f.w[i];
  }
  [[unroll]] for (uint i = 0; i < 4; ++i) xs[id % 4 * 4 + i][id / 16][id / 4 % 4] = f.x[i];
}

void run_tile(uint tile, uint row) {
  uint across = gl_LocalInvocationID.x % 16, down = gl_LocalInvocationID.x / 16;
  vec4 total[8], sum[8];
  [[unroll]] for (uint i = 0; i < 8; ++i) total[i] = sum[i] = vec4(0.0);
  Fetched next = fetch(tile, row, 0);
  for (uint k = 0; k < inputs; k += kStep) {
    barrier();
    share_out(next);
    barrier();
    if (k + kStep < inputs) next = fetch(tile, row, k + kStep);
    WEFT_UNROLL for (uint i = 0; i < kStep; ++i) {
      vec4 of_rows = xs[i][down];
      [[unroll]] for (uint half_ = 0; half_ < WIDE; ++half_) {
        vec4 weights = ws[i][across + 16 * half_];
        [[unroll]] for (uint r = 0; r < 4; ++r)
          sum[half_ * 4 + r] = fused(weights, of_rows[r], sum[half_ * 4 + r]);
      }
    }
    if ((k + kStep) % kChunk == 0 || k + kStep >= inputs)
      [[unroll]] for (uint i = 0; i < 4 * WIDE; ++i) {
        total[i] = add(total[i], sum[i]);
        sum[i] = vec4(0.0);
      }
  }
  for (uint half_ = 0; half_ < WIDE; ++half_) {
    uint o = tile * kTile + half_ * 64 + across * 4;
    vec4 biases = bias_quad(o);
    for (uint r = 0; r < 4; ++r)
      if (row + down * 4 + r < rows) finish(total[half_ * 4 + r], biases, row + down * 4 + r, o);
  }
}

void main() {
  load_operands();
  uint tiles = (outputs + kTile - 1) / kTile;
  for (uint row = gl_WorkGroupID.y * kRows; row < rows; row += gl_NumWorkGroups.y * kRows)
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) run_tile(tile, row);
}
