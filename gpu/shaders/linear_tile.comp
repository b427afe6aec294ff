// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) for several rows and few inputs: 4 by 4 sums a thread over tiles of 64 outputs by 64
// rows (WEFT_SMALL: groups of 128 threads, 4 by 8 sums each). What a tile reads past the edges is +0, whose steps leave every total as it is (a total is never -0, so a chunk
// sum's zero has no sign that counts). A gated pair has half of a tile's outputs from each matrix.
#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef WEFT_SMALL
#define WEFT_THREADS 128
#else
#define WEFT_THREADS 256
#endif
layout(local_size_x = WEFT_THREADS) in;
#include "linear_operands.glsl"

// A step is so many inputs that each thread fetches four weights and four values; while they are worked through, it
// fetches the next ones.
const uint kStep = WEFT_THREADS / 16, kTile = 64, kQuads = 256 / WEFT_THREADS;  // quads of rows of a thread
const uint kOutputs = kTile / kMatrices;  // of a tile, of each matrix
const uint kPadded = kTile / 4 + 1;  // quads of rows at one input
shared vec4 ws[2][kStep * kTile / 4];
shared vec4 xs[2][kStep * kPadded];

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
  ws[half_][id % (kStep * 4) / 4 * 16 + id / (kStep * 4) * 4 + id % 4] = weights;
  uint r = id / (kStep / 4), first = id % (kStep / 4) * 4;
  [[unroll]] for (uint i = 0; i < 4; ++i) xs[half_][(first + i) * kPadded + r / 4][r % 4] = values[i];
}

vec4 total[4 * kQuads];
const uint kQuadRows = kTile / kQuads;  // from a thread's quad of rows to its next one

#ifdef WEFT_GATED
// Another thread has the gate's sum of a product.
void finish_pairs(uint row, uint tile) {
  uint across = gl_LocalInvocationID.x % 16, down = gl_LocalInvocationID.x / 16, m = across / 8;
  uint o = tile * kOutputs + across % 8 * 4;
  vec4 biases = bias_quad(m, o);
  const uint kHalf = kStep * kTile / 4;
  [[unroll]] for (uint q = 0; q < kQuads; ++q) {
    barrier();
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      uint at = row + q * kQuadRows + down * 4 + r, place = (down * 4 + r) * 8 + across % 8;
      if (m == 0 && at < rows) ws[place / kHalf][place % kHalf] = finish_gate(total[q * 4 + r], biases, at, o);
    }
    barrier();
    [[unroll]] for (uint r = 0; r < 4; ++r) {
      uint at = row + q * kQuadRows + down * 4 + r, place = (down * 4 + r) * 8 + across % 8;
      if (m == 1 && at < rows) finish_up(total[q * 4 + r], biases, ws[place / kHalf][place % kHalf], at, o);
    }
  }
}
#endif

void main() {
  load_operands();
  uint across = gl_LocalInvocationID.x % 16, down = gl_LocalInvocationID.x / 16;
  uint tiles = (outputs + kOutputs - 1) / kOutputs;
  for (uint row = gl_WorkGroupID.y * kTile; row < rows; row += gl_NumWorkGroups.y * kTile)
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
      vec4 sum[4 * kQuads];
      [[unroll]] for (uint r = 0; r < 4 * kQuads; ++r) total[r] = sum[r] = vec4(0.0);
      Share share_ = share_of(tile);
      barrier();
      keep(0, fetch_weights(share_, 0), fetch_values(row, 0));
      uint half_ = 0;
      for (uint k = 0; k < inputs; k += kStep) {
        barrier();
        vec4 weights = fetch_weights(share_, k + kStep), values = fetch_values(row, k + kStep);
        WEFT_UNROLL for (uint i = 0; i < kStep; ++i) {
          vec4 w4 = ws[half_][i * 16 + across];
          [[unroll]] for (uint q = 0; q < kQuads; ++q) {
            vec4 x4 = xs[half_][i * kPadded + q * kQuadRows / 4 + down];
            [[unroll]] for (uint r = 0; r < 4; ++r) sum[q * 4 + r] = fused(w4, x4[r], sum[q * 4 + r]);
          }
        }
        half_ ^= 1;
        keep(half_, weights, values);
        if ((k + kStep) % kChunk == 0 || k + kStep >= inputs) {
          [[unroll]] for (uint r = 0; r < 4 * kQuads; ++r) {
            total[r] = add(total[r], sum[r]);
            sum[r] = vec4(0.0);
          }
        }
      }
#ifdef WEFT_GATED
      finish_pairs(row, tile);
#else
      uint o = tile * kTile + across * 4;
      [[unroll]] for (uint r = 0; r < 4 * kQuads; ++r) {
        uint at = row + r / 4 * kQuadRows + down * 4 + r % 4;
        if (at < rows) finish(total[r], bias_quad(0, o), at, o);
      }
#endif
    }
}
