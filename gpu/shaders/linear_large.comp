// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) for many rows: tiles of 128 outputs by 128 rows, 8 by 8 sums a thread. A gated pair has
// 64 outputs from each matrix in a tile.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 256) in;
#include "linear_operands.glsl"

// Tiles of rows in a band: neighbouring groups share weights and values in the cache.
const uint kTile = 128, kQuads = kTile / 4, kStep = 16, kBand = 4;
const uint kOutputs = kTile / kMatrices;  // of a tile, of each matrix
// Quads of outputs, and of rows, at each input of a step. Row quad R of input k stands at R ^ k / 4 * 2: so stores of
// single floats and reads of quads meet different banks.
shared vec4 ws[2][kStep * kQuads];
shared vec4 xs[2][kStep * kQuads];
uint row_place(uint k, uint quad) { return k * kQuads + (quad ^ k / 4 * 2); }

// A thread fetches two quads of either side for a step, each from one panel or row throughout.
Weight w_from[2];
uint64_t x_from[2];
uint w_k, w_quad, x_k, x_row, w_to;
StoredQuad fetched_w[2];
vec4 fetched_x[2];

// Panel `place` of the eight of a tile. Of a gated pair a thread's two quads of outputs are the same of both matrices.
Weight panel_at_place(uint tile, uint place) {
  uint m = kMatrices == 1 ? 0 : place / 2 % 2, panel = kMatrices == 1 ? place : place / 4 * 2 + place % 2;
  return panel_of(weight(m), min(tile * (kOutputs / 16) + panel, (outputs - 1) / 16));
}

void begin_tile(uint row, uint tile) {
  uint id = gl_LocalInvocationID.x;
  w_k = id % 64 / 4, w_quad = id % 4, w_to = w_k * kQuads + id / 64 * 4 + w_quad;
  x_k = id % 4 * 4, x_row = id / 4;
  [[unroll]] for (uint l = 0; l < 2; ++l) {
    w_from[l] = panel_at_place(tile, id / 64 + l * 4);
    // Rows past the last one only feed outputs that are not stored.
    x_from[l] = x + uint64_t(min(row + x_row + l * 64, rows - 1)) * x_stride * 4ul + x_k * 4;
  }
}

// Nothing of it depends on a condition: loads that do are waited for at once (NVIDIA's compiler moves their results).
// Memory behind a panel or row may be read (gpu/internal/heap.cpp), and is not added.
void fetch(uint k) {
  [[unroll]] for (uint l = 0; l < 2; ++l)
    if (DTYPE == kFloat32) {
      fetched_w[l] = stored_quad(w_from[l], 0, w_k, w_quad);
      w_from[l].codes += kStep * 64;
    } else {
      fetched_w[l] = stored_quad(w_from[l], 0, min(k + w_k, inputs - 1), w_quad);
    }
  [[unroll]] for (uint l = 0; l < 2; ++l) {
    if (ALIGNED) fetched_x[l] = Quads(x_from[l]).at[0];
    else
      [[unroll]] for (uint i = 0; i < 4; ++i) fetched_x[l][i] = Floats(x_from[l]).at[i];
    x_from[l] += kStep * 4;
  }
}
void keep(uint half_, uint k) {
  [[unroll]] for (uint l = 0; l < 2; ++l) ws[half_][w_to + l * 16] = quad_of(fetched_w[l], min(k + w_k, inputs - 1));
  [[unroll]] for (uint l = 0; l < 2; ++l)
    [[unroll]] for (uint i = 0; i < 4; ++i)
      xs[half_][row_place(x_k + i, (x_row + l * 64) / 4)][x_row % 4] = operand(fetched_x[l][i]);
}

// Quads of a thread: outputs 4 (w_first + 8 g) of a tile by rows 4 (x_first + 4 h). Lanes of a subgroup are
// interleaved: eight quads of outputs by four of rows.
uint w_first, x_first;
vec4 sum[8][2], total[8][2];

void add_input(uint half_, uint k) {
  vec4 wf[2], xf[2];
  [[unroll]] for (uint g = 0; g < 2; ++g) wf[g] = ws[half_][k * kQuads + w_first + g * 8];
  [[unroll]] for (uint h = 0; h < 2; ++h) xf[h] = xs[half_][row_place(k, x_first + h * 4)];
  [[unroll]] for (uint r = 0; r < 8; ++r)
    [[unroll]] for (uint g = 0; g < 2; ++g) sum[r][g] = fused(wf[g], xf[r / 4][r % 4], sum[r][g]);
}
void end_chunk() {
  [[unroll]] for (uint r = 0; r < 8; ++r)
    [[unroll]] for (uint g = 0; g < 2; ++g) {
      total[r][g] = add(total[r][g], sum[r][g]);
      sum[r][g] = vec4(0.0);
    }
}

void add_all() {
  uint half_ = 0, k = 0;
  fetch(0);
  keep(0, 0);
  for (uint chunk = inputs / kChunk; chunk > 0; --chunk) {
    [[dont_unroll]] for (uint step_ = 0; step_ < kChunk / kStep; ++step_) {
      barrier();
      k += kStep;
      fetch(k);
      subgroupMemoryBarrier();  // so that loads are under way while this computes
      WEFT_UNROLL for (uint i = 0; i < kStep; ++i) add_input(half_, i);
      half_ ^= 1;
      keep(half_, k);
    }
    end_chunk();
  }
  if (k == inputs) return;
  while (k < inputs) {
    barrier();
    uint count = min(kStep, inputs - k);
    k += kStep;
    fetch(k);
    [[dont_unroll]] for (uint i = 0; i < count; ++i) add_input(half_, i);
    half_ ^= 1;
    keep(half_, k);
  }
  end_chunk();
}

void finish_tile(uint row, uint tile) {
#ifdef WEFT_GATED
  uint o = tile * kOutputs + (w_first / 16 * 8 + w_first % 16) * 4;
  vec4 biases = bias_quad(0, o), up_biases = bias_quad(1, o);
  [[unroll]] for (uint r = 0; r < 8; ++r) {
    uint at = row + (x_first + r / 4 * 4) * 4 + r % 4;
    if (at >= rows || o >= outputs) continue;
    vec4 gate = finish_gate(total[r][0], biases, at, o);
    finish_up(total[r][1], up_biases, gate, at, o);
  }
#else
  [[unroll]] for (uint g = 0; g < 2; ++g) {
    uint o = tile * kOutputs + (w_first + g * 8) * 4;
    vec4 biases = bias_quad(0, o);
    [[unroll]] for (uint r = 0; r < 8; ++r) {
      uint at = row + (x_first + r / 4 * 4) * 4 + r % 4;
      if (at < rows && o < outputs) finish(total[r][g], biases, at, o);
    }
  }
#endif
}

void main() {
  load_operands();
  uint id = gl_LocalInvocationID.x, lane = id % 32, warp = id / 32;
  w_first = warp % 2 * 16 + (lane >> 1 & 7);
  x_first = warp / 2 * 8 + (lane & 1 | lane >> 4 << 1);
  uint across = (outputs + kOutputs - 1) / kOutputs, down = (rows + kTile - 1) / kTile;
  uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
  for (uint i = group; i < across * down; i += gl_NumWorkGroups.x * gl_NumWorkGroups.y) {
    uint band = i / (kBand * across), in_band = i - band * kBand * across, depth = min(kBand, down - band * kBand);
    uint row = (band * kBand + in_band % depth) * kTile, tile = in_band / depth;
    [[unroll]] for (uint r = 0; r < 8; ++r)
      [[unroll]] for (uint g = 0; g < 2; ++g) total[r][g] = sum[r][g] = vec4(0.0);
    begin_tile(row, tile);
    barrier();
    add_all();
    finish_tile(row, tile);
  }
}
