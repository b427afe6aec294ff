// SPDX-License-Identifier: Apache-2.0
// dx = dy w by rule R2 for many rows: a group has 64 lanes for 16 inputs and 16 rows (WEFT_SMALL: 8 and 8, of
// 128 threads); each thread is a lane, for 4 inputs and all rows. What the lanes of a step need is fetched together, and worked through from shared memory.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "weights.glsl"

#ifdef WEFT_SMALL
#define WEFT_THREADS 128
#else
#define WEFT_THREADS 256
#endif
layout(local_size_x = WEFT_THREADS) in;
layout(constant_id = 2) const bool ALIGNED = false;  // rows of dy begin at multiples of 16 bytes
#include "linear_operands.inc"
#define WEFT_OPERANDS WEFT_TRANSPOSED_OPERANDS
#include "operands.glsl"
const uint kSide = WEFT_THREADS / 16, kColumns = kSide / 4;  // inputs and rows of a group; its columns of lanes
// First two halves of weights, [input][lane / 4], and of errors, [row][lane / 4]: four lanes are stored at once and one
// is read, so that neighbouring threads meet different banks both times. Then the lanes of four rows' sums, and four to
// spare each.
const uint kWeights = 0, kHalf = WEFT_THREADS, kErrors = 2 * kHalf, kFolded = 4 * kSide, kLanes = 68;
shared vec4 pool[kFolded * kLanes / 4];
void keep_lane(uint place, float value) { pool[place / 4][place % 4] = value; }
float kept_lane(uint place) { return pool[place / 4][place % 4]; }

vec4 fetch_weights(uint o, uint k) {
  uint id = gl_LocalInvocationID.x, p = o / 16 + id % 16 / 4;
  k += id / 16;
  return k < inputs && p * 16 < outputs ? weight_quad(Weight(w, scales, zero_points, inputs), p, k, id % 4) : vec4(0.0);
}

vec4 fetch_errors(uint o, uint row) {
  uint id = gl_LocalInvocationID.x;
  row += id / 16;
  o += id % 16 * 4;
  vec4 values = vec4(0.0);
  if (row >= rows) return values;
  if (ALIGNED && o + 4 <= outputs) return operand(Quads(dy + (uint64_t(row) * dy_stride + o) * 4ul).at[0]);
  Floats from = row_at(dy, row, dy_stride);
  [[unroll]] for (uint i = 0; i < 4; ++i) if (o + i < outputs) values[i] = operand(from.at[o + i]);
  return values;
}

void main() {
  load_operands();
  uint id = gl_LocalInvocationID.x, lane = id / (16 * kColumns) * 16 + id % 16, column = id / 16 % kColumns;
  for (uint row = gl_WorkGroupID.y * kSide; row < rows; row += gl_NumWorkGroups.y * kSide)
    for (uint first = gl_WorkGroupID.x * kSide; first < inputs; first += gl_NumWorkGroups.x * kSide) {
      vec4 sum[kSide];  // by row, the four inputs of the thread
      [[unroll]] for (uint r = 0; r < kSide; ++r) sum[r] = vec4(0.0);
      vec4 weights = fetch_weights(0, first), errors = fetch_errors(0, row);
      uint half_ = 0;
      barrier();
      for (uint o = 0; o < outputs; o += 64) {
        pool[kWeights + half_ + id] = weights;
        pool[kErrors + half_ + id] = errors;
        barrier();
        weights = fetch_weights(o + 64, first);
        errors = fetch_errors(o + 64, row);
        if (o + lane < outputs) {
          vec4 own;
          [[unroll]] for (uint i = 0; i < 4; ++i) own[i] =
              pool[kWeights + half_ + (column + i * kColumns) * 16 + lane / 4][lane % 4];
          WEFT_UNROLL for (uint r = 0; r < kSide; ++r) sum[r] =
              fused(own, pool[kErrors + half_ + r * 16 + lane / 4][lane % 4], sum[r]);
        }
        half_ ^= kHalf;
      }
      // Four rows at once. Four threads fold a sum's lanes: each those of one remainder by four, then one the rest.
      WEFT_UNROLL for (uint part = 0; part < kSide / 4; ++part) {
        barrier();
        [[unroll]] for (uint i = 0; i < 16; ++i)
            keep_lane((i / 4 * kSide + i % 4 * kColumns + column) * kLanes + lane, sum[part * 4 + i / 4][i % 4]);
        barrier();
        uint of = id / 4, own = of * kLanes + id % 4;
        float folded[16];
        [[unroll]] for (uint j = 0; j < 16; ++j) folded[j] = kept_lane(own + 4 * j);
        [[unroll]] for (uint left = 8; left > 0; left /= 2) WEFT_UNROLL for (uint j = 0; j < left; ++j) folded[j] =
            add(folded[j], folded[j + left]);
        barrier();
        keep_lane(own, folded[0]);
        barrier();
        uint r = row + part * 4 + of / kSide, k = first + of % kSide;
        if (id % 4 == 0 && k < inputs && r < rows)
          row_at(dx, r, dx_stride).at[k] =
              add(add(kept_lane(own), kept_lane(own + 2)), add(kept_lane(own + 1), kept_lane(own + 3)));
      }
    }
}
