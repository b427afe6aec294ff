// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) for a middling number of rows: tiles of 64 outputs by 64 rows, four chunks at once, each
// by 64 threads with 8 by 8 sums each. Then each thread adds the chunks' sums, in order, to the totals of four quads.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 256) in;
#include "linear_operands.glsl"

const uint kTile = 64, kQuads = kTile / 4, kStep = 8, kSets = 4;
const uint kOutputs = kTile / kMatrices;  // of a tile, of each matrix
// Halves of a set's quads of weights and of values at each input of a step. Row quad R of input k stands at
// R ^ k / 4 * 4. Between rounds: sums of two sets.
const uint kSetQuads = kStep * kQuads, kHalf = kSets * kSetQuads;
shared vec4 pool[4 * kHalf];
uint weights_at(uint half_) { return half_ * kHalf; }
uint values_at(uint half_) { return (2 + half_) * kHalf; }
uint row_place(uint k, uint quad) { return k * kQuads + (quad ^ k / 4 * 4); }

// A thread's part of a step: two quads of either side, of two sets. k: from the round's first input on.
Weight w_from;
uint64_t x_from;
uint w_k, w_quad, w_to, x_k, x_row, x_set;
StoredQuad fetched_w[2];
vec4 fetched_x[2];

void begin_tile(uint row, uint tile) {
  uint id = gl_LocalInvocationID.x, place = id / 32 % 4;
  uint m = kMatrices == 1 ? 0 : place / 2, panel = kMatrices == 1 ? place : place % 2;
  w_from = panel_of(weight(m), min(tile * (kOutputs / 16) + panel, (outputs - 1) / 16));
  w_quad = id % 4, w_k = id % 32 / 4 + id / 128 * kChunk;
  w_to = id / 128 * kSetQuads + id % 32 / 4 * kQuads + place * 4 + w_quad;
  x_row = id / 2 % 64, x_set = id / 128, x_k = id % 2 * 4;
  x_from = x + (uint64_t(min(row + x_row, rows - 1)) * x_stride + x_set * kChunk + x_k) * 4ul;
}
// As in linear_large.comp. `next`: from this step's first input to the next one's.
void fetch(uint k, uint next) {
  [[unroll]] for (uint l = 0; l < 2; ++l) {
    if (DTYPE == kFloat32)
      fetched_w[l] = stored_quad(w_from, 0, w_k + l * 2 * kChunk, w_quad);
    else
      fetched_w[l] = stored_quad(w_from, 0, min(k + w_k + l * 2 * kChunk, inputs - 1), w_quad);
    uint64_t from = x_from + l * 2 * kChunk * 4;
    if (ALIGNED) fetched_x[l] = Quads(from).at[0];
    else
      [[unroll]] for (uint i = 0; i < 4; ++i) fetched_x[l][i] = Floats(from).at[i];
  }
  if (DTYPE == kFloat32) w_from.codes += next * 64;
  x_from += next * 4;
}
void keep(uint half_, uint k) {
  [[unroll]] for (uint l = 0; l < 2; ++l) {
    pool[weights_at(half_) + w_to + l * 2 * kSetQuads] =
        quad_of(fetched_w[l], min(k + w_k + l * 2 * kChunk, inputs - 1));
    [[unroll]] for (uint i = 0; i < 4; ++i)
      pool[values_at(half_) + (x_set + l * 2) * kSetQuads + row_place(x_k + i, x_row / 4)][x_row % 4] =
          operand(fetched_x[l][i]);
  }
}

uint set, w_first, x_first;  // quads of a thread: w_first + 8 g, x_first + 8 h
vec4 sum[8][2];
void add_input(uint half_, uint k) {
  vec4 wf[2], xf[2];
  [[unroll]] for (uint g = 0; g < 2; ++g)
    wf[g] = pool[weights_at(half_) + set * kSetQuads + k * kQuads + w_first + g * 8];
  [[unroll]] for (uint h = 0; h < 2; ++h)
    xf[h] = pool[values_at(half_) + set * kSetQuads + row_place(k, x_first + h * 8)];
  [[unroll]] for (uint r = 0; r < 8; ++r)
    [[unroll]] for (uint g = 0; g < 2; ++g) sum[r][g] = fused(wf[g], xf[r / 4][r % 4], sum[r][g]);
}

// The four quads whose totals a thread has: of rows `own_row + own_rows * j`; of a gated pair two of each matrix.
const uint kOwnQuads = kQuads / kMatrices, kOwnRows = 256 / kOwnQuads;
vec4 total[kMatrices][4 / kMatrices];
uint sum_place(uint row, uint quad) { return row * kQuads + (quad ^ row / 4 % 2 * 4); }
void put_sums(uint at) {
  [[unroll]] for (uint r = 0; r < 8; ++r)
    [[unroll]] for (uint g = 0; g < 2; ++g) {
      pool[at + sum_place((x_first + r / 4 * 8) * 4 + r % 4, w_first + g * 8)] = sum[r][g];
      sum[r][g] = vec4(0.0);
    }
}
void take_sums(uint at) {
  uint id = gl_LocalInvocationID.x;
  [[unroll]] for (uint m = 0; m < kMatrices; ++m)
    [[unroll]] for (uint j = 0; j < 4 / kMatrices; ++j)
    {
      uint place = sum_place(id / kOwnQuads + j * kOwnRows, id % kOwnQuads + m * kOwnQuads);
      total[m][j] = add(total[m][j], pool[at + place]);
    }
}
void end_round() {
  const uint kSums = kTile * kQuads;
  [[unroll]] for (uint pair = 0; pair < 2; ++pair) {
    barrier();
    if (set / 2 == pair) put_sums(set % 2 * kSums);
    barrier();
    take_sums(0);
    take_sums(kSums);
  }
  barrier();
}

void add_all() {
  // Inputs of a round, and from its last step to the next one's first.
  const uint kInputs = kSets * kChunk, kOver = kInputs - kChunk + kStep;
  uint half_ = 0, first = 0;
  fetch(0, kStep);
  keep(0, 0);
  for (; first + kInputs <= inputs; first += kInputs) {
    half_ = 0;
    [[dont_unroll]] for (uint k = kStep; k <= kChunk; k += kStep) {
      barrier();
      fetch(k < kChunk ? first + k : first + kInputs, k + kStep == kChunk ? kOver : kStep);
      subgroupMemoryBarrier();
      WEFT_UNROLL for (uint i = 0; i < kStep; ++i) add_input(half_, i);
      half_ ^= 1;
      if (k < kChunk) keep(half_, first + k);
    }
    end_round();
    keep(0, first + kInputs);
  }
  if (first == inputs) return;
  half_ = 0;
  // Of each set's chunk what is left of it, or nothing.
  uint own = first + set * kChunk < inputs ? min(inputs - first - set * kChunk, kChunk) : 0;
  for (uint k = 0; k < min(inputs - first, kChunk); k += kStep) {
    barrier();
    fetch(first + k + kStep, kStep);
    uint count = own > k ? min(own - k, kStep) : 0;
    [[dont_unroll]] for (uint i = 0; i < count; ++i) add_input(half_, i);
    half_ ^= 1;
    keep(half_, first + k + kStep);
  }
  end_round();
}

void finish_tile(uint row, uint tile) {
  uint id = gl_LocalInvocationID.x, o = tile * kOutputs + id % kOwnQuads * 4;
  if (o >= outputs) return;
  vec4 biases = bias_quad(0, o);
#ifdef WEFT_GATED
  vec4 up_biases = bias_quad(1, o);
#endif
  [[unroll]] for (uint j = 0; j < 4 / kMatrices; ++j) {
    uint at = row + id / kOwnQuads + j * kOwnRows;
    if (at >= rows) continue;
#ifdef WEFT_GATED
    vec4 gate = finish_gate(total[0][j], biases, at, o);
    finish_up(total[1][j], up_biases, gate, at, o);
#else
    finish(total[0][j], biases, at, o);
#endif
  }
}

void main() {
  load_operands();
  uint id = gl_LocalInvocationID.x, lane = id % 32;
  set = id / 64;
  w_first = lane >> 1 & 7;
  x_first = id / 32 % 2 * 4 + (lane & 1 | lane >> 4 << 1);
  uint across = (outputs + kOutputs - 1) / kOutputs;
  for (uint row = gl_WorkGroupID.y * kTile; row < rows; row += gl_NumWorkGroups.y * kTile)
    for (uint tile = gl_WorkGroupID.x; tile < across; tile += gl_NumWorkGroups.x) {
      [[unroll]] for (uint m = 0; m < kMatrices; ++m)
        [[unroll]] for (uint j = 0; j < 4 / kMatrices; ++j) total[m][j] = vec4(0.0);
      [[unroll]] for (uint r = 0; r < 8; ++r)
        [[unroll]] for (uint g = 0; g < 2; ++g) sum[r][g] = vec4(0.0);
      begin_tile(row, tile);
      barrier();
      add_all();
      finish_tile(row, tile);
    }
}
