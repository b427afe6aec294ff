// SPDX-License-Identifier: Apache-2.0
// dx = dy w by rule R2 for many rows: a group has 64 lanes for 16 inputs and 16 rows; each thread is a lane, for 4 inputs
// and all rows. What the lanes of a step need is fetched together, and worked through from shared memory.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "weights.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const bool ALIGNED = false;  // rows of dy begin at multiples of 16 bytes
#define WEFT_OPERANDS(X)                                                                \
  X(uint64_t, w) X(uint64_t, scales) X(uint64_t, zeros) X(uint64_t, dy) X(uint64_t, dx) \
  X(uint, outputs) X(uint, inputs) X(uint, rows) X(uint, dy_stride) X(uint, dx_stride)
#include "operands.glsl"
const uint kSide = 16, kFolded = 8;  // inputs and rows of a group; sums that are folded at once
// Four lanes are stored at once and one read: neighbouring threads meet different banks both times.
shared vec4 ws[2][kSide * 16];  // [input][lane / 4]
shared vec4 ds[2][kSide * 16];  // [row][lane / 4]
shared float lanes[kFolded][256];

vec4 fetch_weights(uint o, uint k) {
  uint id = gl_LocalInvocationID.x, p = o / 16 + id % 16 / 4;
  k += id / 16;
  return k < inputs && p * 16 < outputs ? weight_quad(Weight(w, scales, zeros, inputs), p, k, id % 4) : vec4(0.0);
}

vec4 fetch_errors(uint o, uint row) {
  uint id = gl_LocalInvocationID.x;
  row += id / 16;
  o += id % 16 * 4;
  vec4 values = vec4(0.0);
  if (row >= rows) return values;
  if (ALIGNED && o + 4 <= outputs) return operand(Quads(dy + (uint64_t(row) * dy_stride + o) * 4ul).at[0]);
  Floats from = row_at(dy, row, dy_stride);
  [[unroll]] for (uint i = 0; i < 4; ++i)
    if (o + i < outputs) values[i] = operand(from.at[o + i]);
  return values;
}

void main() {
  load_operands();
  uint id = gl_LocalInvocationID.x, lane = id >> 6 << 4 | id & 15, column = id >> 4 & 3;
  for (uint row = gl_WorkGroupID.y * kSide; row < rows; row += gl_NumWorkGroups.y * kSide)
    for (uint first = gl_WorkGroupID.x * kSide; first < inputs; first += gl_NumWorkGroups.x * kSide) {
      vec4 sum[kSide];  // by row, the four inputs of the thread
      [[unroll]] for (uint r = 0; r < kSide; ++r) sum[r] = vec4(0.0);
      vec4 weights = fetch_weights(0, first), errors = fetch_errors(0, row);
      uint half_ = 0;
      barrier();
      for (uint o = 0; o < outputs; o += 64) {
        ws[half_][id] = weights;
        ds[half_][id] = errors;
        barrier();
        weights = fetch_weights(o + 64, first);
        errors = fetch_errors(o + 64, row);
        if (o + lane < outputs) {
          vec4 own;
          [[unroll]] for (uint i = 0; i < 4; ++i) own[i] = ws[half_][(column + i * 4) * 16 + lane / 4][lane % 4];
          WEFT_UNROLL for (uint r = 0; r < kSide; ++r)
            sum[r] = fused(own, ds[half_][r * 16 + lane / 4][lane % 4], sum[r]);
        }
        half_ ^= 1;
      }
      // Two rows at once: eight sums of a thread.
      WEFT_UNROLL for (uint part = 0; part < kSide / 2; ++part) {
        barrier();
        [[unroll]] for (uint i = 0; i < kFolded; ++i) lanes[i][lane * 4 + column] = sum[part * 2 + i / 4][i % 4];
        for (uint left = 32; left > 0; left /= 2) {
          barrier();
          if (lane < left)
            [[unroll]] for (uint i = 0; i < kFolded; ++i)
              lanes[i][lane * 4 + column] = add(lanes[i][lane * 4 + column], lanes[i][(lane + left) * 4 + column]);
        }
        barrier();
        if (lane < kFolded) {
          uint r = row + part * 2 + lane / 4, k = first + column + lane % 4 * 4;
          if (k < inputs && r < rows) row_at(dx, r, dx_stride).at[k] = lanes[lane][column];
        }
      }
    }
}
