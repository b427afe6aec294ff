// SPDX-License-Identifier: Apache-2.0
// outer_accumulate.comp for large matrices: 8 by 8 weights a thread over tiles of 128 outputs by 128 inputs.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const bool ALIGNED = false;  // rows of dy and x begin at multiples of 16 bytes
#include "linear_operands.inc"
#define WEFT_OPERANDS WEFT_OUTER_OPERANDS
#include "operands.glsl"
const uint kTile = 128, kQuads = kTile / 4, kStep = 8;  // kStep: samples
shared vec4 ds[2][kStep * kQuads];
shared vec4 xs[2][kStep * kQuads];

// Bytes from where the operands begin, fewer than 2^32: with addresses of 64 bits there were too many registers for two
// groups on a multiprocessor.
uint d_from, x_from;
vec4 fetched_d, fetched_x;
vec4 fetch_quad(uint64_t from) {
  if (ALIGNED) return Quads(from).at[0];
  vec4 values;
  [[unroll]] for (uint i = 0; i < 4; ++i) values[i] = Floats(from).at[i];
  return values;
}
// As in linear_large.comp: nothing depends on a condition.
void fetch(uint b) {
  uint at = min(b + gl_LocalInvocationID.x / kQuads, rows - 1);
  fetched_d = fetch_quad(dy + uint64_t(d_from + at * (dy_stride * 4)));
  fetched_x = fetch_quad(x + uint64_t(x_from + at * (x_stride * 4)));
}
void keep(uint half_) {
  ds[half_][gl_LocalInvocationID.x] = operand(fetched_d);
  xs[half_][gl_LocalInvocationID.x] = operand(fetched_x);
}

uint d_first, x_first;  // quads of a thread: outputs d_first + 8 g, inputs x_first + 4 h
vec4 sum[8][2];
void add_sample(uint half_, uint s) {
  vec4 df[2], xf[2];
  [[unroll]] for (uint g = 0; g < 2; ++g) df[g] = ds[half_][s * kQuads + d_first + g * 8];
  [[unroll]] for (uint h = 0; h < 2; ++h) xf[h] = xs[half_][s * kQuads + x_first + h * 4];
  [[unroll]] for (uint i = 0; i < 8; ++i)
    [[unroll]] for (uint g = 0; g < 2; ++g) sum[i][g] = fused(df[g], xf[i / 4][i % 4], sum[i][g]);
}

void add_all() {
  uint half_ = 0, b = 0;
  fetch(0);
  barrier();
  keep(0);
  for (uint steps = rows / kStep; steps > 0; --steps) {
    barrier();
    b += kStep;
    fetch(b);
    subgroupMemoryBarrier();
    WEFT_UNROLL for (uint s = 0; s < kStep; ++s) add_sample(half_, s);
    half_ ^= 1;
    keep(half_);
  }
  if (b == rows) return;
  barrier();
  [[dont_unroll]] for (uint s = 0; s < rows - b; ++s) add_sample(half_, s);  // a step of +0 would turn -0 into +0
}

// A tile a group: a loop over tiles costs registers.
void main() {
  load_operands();
  uint id = gl_LocalInvocationID.x, thread = id % 32, warp = id / 32;
  uint o0 = gl_WorkGroupID.y * kTile, k0 = gl_WorkGroupID.x * kTile;
  d_first = warp % 2 * 16 + (thread >> 1 & 7);
  x_first = warp / 2 * 8 + (thread & 1 | thread >> 4 << 1);
  d_from = min(o0 + id % kQuads * 4, outputs - 1 & ~3u) * 4;
  x_from = min(k0 + id % kQuads * 4, inputs - 1 & ~3u) * 4;
  [[unroll]] for (uint i = 0; i < 8; ++i)
    [[unroll]] for (uint g = 0; g < 2; ++g) {
      uint o = min(o0 + (d_first + g * 8) * 4, outputs - 1);
      uint k = min(k0 + (x_first + i / 4 * 4) * 4 + i % 4, inputs - 1);
      sum[i][g] = operand(panel_at(dw, o / 16, inputs).at[k * 4 + o / 4 % 4]);
    }
  add_all();
  [[unroll]] for (uint i = 0; i < 8; ++i)
    [[unroll]] for (uint g = 0; g < 2; ++g) {
      uint o = o0 + (d_first + g * 8) * 4, k = k0 + (x_first + i / 4 * 4) * 4 + i % 4;
      if (o >= outputs || k >= inputs) continue;
      Quads panel = panel_at(dw, o / 16, inputs);
      uint at = k * 4 + o / 4 % 4;
      // Lanes past the last output keep what they hold.
      if (o + 4 <= outputs)
        panel.at[at] = sum[i][g];
      else
        [[unroll]] for (uint j = 0; j < 4; ++j)
          if (o + j < outputs) panel.at[at][j] = sum[i][g][j];
    }
}
