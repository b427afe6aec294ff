// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) for many rows: 4 by 4 sums a thread over tiles of 64 outputs by 64 rows, or 8 by 8 over
// tiles of 128. What a tile reads past the edges is +0, whose steps leave every total as it is (a total is never -0, so
// a chunk sum's zero has no sign that counts). A gated pair has half of a tile's outputs from each matrix: 32 and 32,
// or 64 and 64.
#version 460
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 256) in;
#include "linear_operands.glsl"

layout(constant_id = 2) const bool LARGE = false;
// A step is so many inputs that each thread fetches four weights and four values; while they are worked through, it
// fetches the next ones.
const uint kStep = LARGE ? 8 : 16, kHalves = LARGE ? 2 : 1, kTile = 64 * kHalves;
const uint kOutputs = kTile / kMatrices;  // of a tile, of each matrix
const uint kPadded = 16 * kHalves + 1;  // quads of rows at one input
shared vec4 ws[2][256];
shared vec4 xs[2][272];

// Part of a tile's weights that a thread fetches: of one panel throughout.
struct Share {
  Weight from;
  uint panel;
};
Share share_of(uint tile) {
  const uint kPanels = kOutputs / 16;
  uint of_both = gl_LocalInvocationID.x / (kStep * 4);
  return Share(weight(of_both / kPanels), tile * kPanels + of_both % kPanels);
}

vec4 fetch_weights(Share share_, uint k) {
  uint id = gl_LocalInvocationID.x, at = k + id % (kStep * 4) / 4;
  return share_.panel * 16 < outputs && at < inputs ? weight_quad(share_.from, share_.panel, at, id % 4) : vec4(0.0);
}

vec4 fetch_values(uint row, uint k) {
  uint id = gl_LocalInvocationID.x, r = row + id / (kStep / 4), at = k + id % (kStep / 4) * 4;
  vec4 values = vec4(0.0);
  if (r >= rows) return values;
  if (ALIGNED && at + 4 <= inputs) return operand(Quads(x + (uint64_t(r) * x_stride + at) * 4ul).at[0]);
  Floats from = row_at(x, r, x_stride);
  [[unroll]] for (uint i = 0; i < 4; ++i)
    if (at + i < inputs) values[i] = operand(from.at[at + i]);
  return values;
}

void keep(uint half_, vec4 weights, vec4 values) {
  uint id = gl_LocalInvocationID.x;
  ws[half_][id % (kStep * 4) / 4 * 16 * kHalves + id / (kStep * 4) * 4 + id % 4] = weights;
  uint r = id / (kStep / 4), first = id % (kStep / 4) * 4;
  [[unroll]] for (uint i = 0; i < 4; ++i) xs[half_][(first + i) * kPadded + r / 4][r % 4] = values[i];
}

vec4 total[2][2][4];

#ifdef WEFT_GATED
// A thread of a large tile has both sums of a product; in a small one another thread has the gate's.
void finish_pairs(uint row, uint tile) {
  uint across = gl_LocalInvocationID.x % 16, down = gl_LocalInvocationID.x / 16, m = LARGE ? 0 : across / 8;
  uint o = tile * kOutputs + (LARGE ? across : across % 8) * 4;
  if (LARGE) {
    vec4 biases = bias_quad(0, o), up_biases = bias_quad(1, o);
    [[unroll]] for (uint h = 0; h < 2; ++h)
      [[unroll]] for (uint r = 0; r < 4; ++r) {
        uint at = row + h * 64 + down * 4 + r;
        if (at >= rows) continue;
        vec4 gate = finish_gate(total[h][0][r], biases, at, o);
        finish_up(total[h][1][r], up_biases, gate, at, o);
      }
    return;
  }
  vec4 biases = bias_quad(m, o);
  barrier();
  [[unroll]] for (uint r = 0; r < 4; ++r) {
    uint at = row + down * 4 + r, place = (down * 4 + r) * 8 + across % 8;
    if (m == 0 && at < rows) ws[place / 256][place % 256] = finish_gate(total[0][0][r], biases, at, o);
  }
  barrier();
  [[unroll]] for (uint r = 0; r < 4; ++r) {
    uint at = row + down * 4 + r, place = (down * 4 + r) * 8 + across % 8;
    if (m == 1 && at < rows) finish_up(total[0][0][r], biases, ws[place / 256][place % 256], at, o);
  }
}
#endif

void main() {
  load_operands();
  uint across = gl_LocalInvocationID.x % 16, down = gl_LocalInvocationID.x / 16;
  uint tiles = (outputs + kOutputs - 1) / kOutputs;
  for (uint row = gl_WorkGroupID.y * kTile; row < rows; row += gl_NumWorkGroups.y * kTile)
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
      vec4 sum[2][2][4];
      [[unroll]] for (uint h = 0; h < kHalves; ++h)
        [[unroll]] for (uint g = 0; g < kHalves; ++g)
          [[unroll]] for (uint r = 0; r < 4; ++r) total[h][g][r] = sum[h][g][r] = vec4(0.0);
      Share share_ = share_of(tile);
      barrier();
      keep(0, fetch_weights(share_, 0), fetch_values(row, 0));
      uint half_ = 0;
      for (uint k = 0; k < inputs; k += kStep) {
        barrier();
        vec4 weights = fetch_weights(share_, k + kStep), values = fetch_values(row, k + kStep);
        WEFT_UNROLL for (uint i = 0; i < kStep; ++i) {
          [[unroll]] for (uint g = 0; g < kHalves; ++g) {
            vec4 w4 = ws[half_][i * 16 * kHalves + g * 16 + across];
            [[unroll]] for (uint h = 0; h < kHalves; ++h) {
              vec4 x4 = xs[half_][i * kPadded + h * 16 + down];
              [[unroll]] for (uint r = 0; r < 4; ++r) sum[h][g][r] = fused(w4, x4[r], sum[h][g][r]);
            }
          }
        }
        half_ ^= 1;
        keep(half_, weights, values);
        if ((k + kStep) % kChunk == 0 || k + kStep >= inputs) {
          [[unroll]] for (uint h = 0; h < kHalves; ++h)
            [[unroll]] for (uint g = 0; g < kHalves; ++g)
              [[unroll]] for (uint r = 0; r < 4; ++r) {
                total[h][g][r] = add(total[h][g][r], sum[h][g][r]);
                sum[h][g][r] = vec4(0.0);
              }
        }
      }
#ifdef WEFT_GATED
      finish_pairs(row, tile);
#else
      [[unroll]] for (uint h = 0; h < kHalves; ++h)
        [[unroll]] for (uint g = 0; g < kHalves; ++g)
          [[unroll]] for (uint r = 0; r < 4; ++r) {
            uint at = row + h * 64 + down * 4 + r;
            uint o = tile * kTile + g * 64 + across * 4;
            if (at < rows) finish(total[h][g][r], bias_quad(0, o), at, o);
          }
#endif
    }
}
