// SPDX-License-Identifier: Apache-2.0
// dw[o][k] = fma(dy[b][o], x[b][k], dw[o][k]) for b ascending: 4 outputs by 4 inputs a thread over tiles of 64 by 64,
// samples streaming by (WEFT_SMALL: groups of 128 threads, 4 by 8).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

#ifdef WEFT_SMALL
#define WEFT_THREADS 128
#else
#define WEFT_THREADS 256
#endif
layout(local_size_x = WEFT_THREADS) in;
layout(constant_id = 2) const bool ALIGNED = false;  // rows of dy and x begin at multiples of 16 bytes
#include "linear_operands.inc"
#define WEFT_OPERANDS WEFT_OUTER_OPERANDS
#include "operands.glsl"
// Samples of a step: each thread fetches four values of either side.
const uint kStep = WEFT_THREADS / 16, kTile = 64, kQuads = kTile / 4;
const uint kOwn = 1024 / WEFT_THREADS;  // inputs of a thread: quads, kTile * 4 / kOwn inputs apart
shared vec4 ds[2][WEFT_THREADS];
shared vec4 xs[2][WEFT_THREADS];
uint input_of(uint down, uint i) { return down * 4 + i / 4 * (kTile * 4 / kOwn) + i % 4; }

vec4 fetch(uint64_t matrix, uint stride, uint count, uint b, uint first) {
  vec4 values = vec4(0.0);
  if (b >= rows) return values;
  if (ALIGNED && first + 4 <= count) return operand(Quads(matrix + (uint64_t(b) * stride + first) * 4ul).at[0]);
  Floats from = row_at(matrix, b, stride);
  [[unroll]] for (uint i = 0; i < 4; ++i)
    if (first + i < count) values[i] = operand(from.at[first + i]);
  return values;
}

void main() {
  load_operands();
  uint id = gl_LocalInvocationID.x, across = id % 16, down = id / 16;
  uint step_row = id / kQuads, step_quad = id % kQuads;
  for (uint o0 = gl_WorkGroupID.y * kTile; o0 < outputs; o0 += gl_NumWorkGroups.y * kTile)
    for (uint k0 = gl_WorkGroupID.x * kTile; k0 < inputs; k0 += gl_NumWorkGroups.x * kTile) {
      vec4 sum[kOwn];
      uint o = o0 + across * 4;
      [[unroll]] for (uint i = 0; i < kOwn; ++i) {
        uint k = k0 + input_of(down, i);
        sum[i] = vec4(0.0);
        if (o < outputs && k < inputs) sum[i] = operand(panel_at(dw, o / 16, inputs).at[k * 4 + o / 4 % 4]);
      }
      vec4 d = fetch(dy, dy_stride, outputs, step_row, o0 + step_quad * 4),
           v = fetch(x, x_stride, inputs, step_row, k0 + step_quad * 4);
      uint half_ = 0;
      barrier();
      for (uint b = 0; b < rows; b += kStep) {
        ds[half_][id] = d;
        xs[half_][id] = v;
        barrier();
        d = fetch(dy, dy_stride, outputs, b + kStep + step_row, o0 + step_quad * 4);
        v = fetch(x, x_stride, inputs, b + kStep + step_row, k0 + step_quad * 4);
        uint count = min(kStep, rows - b);
        WEFT_UNROLL for (uint s = 0; s < kStep; ++s) {
          if (s >= count) break;  // a step of +0 would turn -0 into +0
          vec4 d4 = ds[half_][s * kQuads + across];
          [[unroll]] for (uint q = 0; q < kOwn / 4; ++q) {
            vec4 x4 = xs[half_][s * kQuads + input_of(down, q * 4) / 4];
            [[unroll]] for (uint i = 0; i < 4; ++i) sum[q * 4 + i] = fused(d4, x4[i], sum[q * 4 + i]);
          }
        }
        half_ ^= 1;
      }
      [[unroll]] for (uint i = 0; i < kOwn; ++i) {
        uint k = k0 + input_of(down, i);
        if (o >= outputs || k >= inputs) continue;
        Quads panel = panel_at(dw, o / 16, inputs);
        uint at = k * 4 + o / 4 % 4;
        // Lanes past the last output keep what they hold.
        if (o + 4 <= outputs)
          panel.at[at] = sum[i];
        else
          [[unroll]] for (uint j = 0; j < 4; ++j)
            if (o + j < outputs) panel.at[at][j] = sum[i][j];
      }
    }
}
