// SPDX-License-Identifier: Apache-2.0
// y[o][p] = sum over columns k of w[o][k] x(p, k) + bias[o] by rule R1 for many windows: linear_large.comp on windows
// as rows, which are gathered while they are fetched. WEFT_QUADS_OUT by WEFT_QUADS_ROWS quads of sums a thread, of
// outputs by windows; WEFT_ACROSS subgroups side by side over outputs, of WEFT_THREADS
// threads.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#ifndef WEFT_THREADS
#define WEFT_THREADS 256
#endif
#ifndef WEFT_ACROSS
#define WEFT_ACROSS 2
#define WEFT_QUADS_OUT 2
#define WEFT_QUADS_ROWS 2
#endif
layout(local_size_x = WEFT_THREADS) in;
layout(constant_id = 3) const bool ALIGNED = false;  // four windows in a row stand at multiples of 16 bytes in z and y
#include "activations.glsl"
#include "weights.glsl"
#include "window_tables.glsl"
#define WEFT_OPERANDS WEFT_CONVOLVE_OPERANDS
#include "operands.glsl"

const uint kG = WEFT_QUADS_OUT, kH = WEFT_QUADS_ROWS, kDown = WEFT_THREADS / 32 / WEFT_ACROSS;
const uint kOutQuads = 8 * kG * WEFT_ACROSS, kRowQuads = 4 * kH * kDown;  // of a tile
const uint kOutputs = 4 * kOutQuads, kRows = 4 * kRowQuads;
const uint kStep = 16, kChunk = 64;
// Quads of outputs, and of windows, at each column of a step.
shared vec4 ws[2][kStep * kOutQuads];
shared vec4 xs[2][kStep * kRowQuads];

// A thread fetches kW quads of weights, and kX columns of one window, kApart columns apart.
const uint kW = kStep * kOutQuads / WEFT_THREADS, kX = kStep * kRows / WEFT_THREADS, kApart = WEFT_THREADS / kRows;
const uint kPanelsOfALoad = WEFT_THREADS / 64;
uint columns, positions;
Weight w_from[kW];
uint w_k, w_quad, x_k, x_row;
uint64_t x_from;
WindowPlace place;
Words columns_from;
StoredQuad fetched_w[kW];
float fetched_x[kX];
uint column[kX];  // of the next step
uint is_inside;   // bits of fetched_x

void look_up(uint k) {
  [[unroll]] for (uint j = 0; j < kX; ++j) column[j] = columns_from.at[k + x_k + j * kApart];
}
// Nothing of it depends on a condition (linear_large.comp). The table of columns goes two steps further than they.
void fetch(uint k) {
  [[unroll]] for (uint l = 0; l < kW; ++l)
    if (DTYPE == kFloat32) {
      fetched_w[l] = stored_quad(w_from[l], 0, w_k, w_quad);
      w_from[l].codes += kStep * 64;
    } else {
      fetched_w[l] = stored_quad(w_from[l], 0, min(k + w_k, columns - 1), w_quad);
    }
  is_inside = 0;
  [[unroll]] for (uint j = 0; j < kX; ++j) {
    bool is_in = has_tap(place.taps, column[j]);
    fetched_x[j] = Floats(x_from + int64_t(is_in ? place.begin + offset_of(column[j]) : 0) * 4l).at[0];
    is_inside |= is_in ? 1u << j : 0u;
  }
}
void keep(uint half_, uint k) {
  [[unroll]] for (uint l = 0; l < kW; ++l)
    ws[half_][w_k * kOutQuads + (gl_LocalInvocationID.x / 64 + l * kPanelsOfALoad) * 4 + w_quad] =
        quad_of(fetched_w[l], min(k + w_k, columns - 1));
  [[unroll]] for (uint j = 0; j < kX; ++j)
    xs[half_][(x_k + j * kApart) * kRowQuads + x_row / 4][x_row % 4] =
        (is_inside >> j & 1u) != 0u ? operand(fetched_x[j]) : 0.0;
}

void begin_tile(Geometry g, uint first_row, uint group, uint first_output) {
  uint id = gl_LocalInvocationID.x;
  w_k = id % 64 / 4, w_quad = id % 4, x_k = id / kRows, x_row = id % kRows;
  Weight all = Weight(w, scales, zero_points, columns);
  [[unroll]] for (uint l = 0; l < kW; ++l)
    w_from[l] = panel_of(all, min(first_output / 16 + id / 64 + l * kPanelsOfALoad, (outputs - 1) / 16));
  // Windows past the last one only feed outputs that are not stored.
  uint row = min(first_row + x_row, rows * positions - 1), b = row / positions;
  place = window_place(window_table(geometry), row - b * positions);
  uint first_channel = group * (g.channels / g.groups);
  x_from = x + (uint64_t(b) * x_stride + uint64_t(first_channel) * volume(g.image)) * 4ul;
  columns_from = column_table(geometry, positions);
}

uint w_first, x_first;  // quads of a thread: outputs w_first + 8 g, windows x_first + 4 h
vec4 sum[4 * kH][kG], total[4 * kH][kG];
void add_column(uint half_, uint k) {
  vec4 wf[kG], xf[kH];
  [[unroll]] for (uint g = 0; g < kG; ++g) wf[g] = ws[half_][k * kOutQuads + w_first + g * 8];
  [[unroll]] for (uint h = 0; h < kH; ++h) xf[h] = xs[half_][k * kRowQuads + x_first + h * 4];
  [[unroll]] for (uint r = 0; r < 4 * kH; ++r)
    [[unroll]] for (uint g = 0; g < kG; ++g) sum[r][g] = fused(wf[g], xf[r / 4][r % 4], sum[r][g]);
}
void end_chunk() {
  [[unroll]] for (uint r = 0; r < 4 * kH; ++r)
    [[unroll]] for (uint g = 0; g < kG; ++g) {
      total[r][g] = add(total[r][g], sum[r][g]);
      sum[r][g] = vec4(0.0);
    }
}

void add_all() {
  uint half_ = 0, k = 0;
  look_up(0);
  fetch(0);
  look_up(kStep);
  keep(0, 0);
  for (uint chunk = columns / kChunk; chunk > 0; --chunk) {
    [[dont_unroll]] for (uint step_ = 0; step_ < kChunk / kStep; ++step_) {
      barrier();
      k += kStep;
      fetch(k);
      look_up(k + kStep);
      subgroupMemoryBarrier();  // so that loads are under way while this computes
      WEFT_UNROLL for (uint i = 0; i < kStep; ++i) add_column(half_, i);
      half_ ^= 1;
      keep(half_, k);
    }
    end_chunk();
  }
  if (k == columns) return;
  while (k < columns) {
    barrier();
    uint count = min(kStep, columns - k);
    k += kStep;
    fetch(k);
    look_up(k + kStep);
    [[dont_unroll]] for (uint i = 0; i < count; ++i) add_column(half_, i);
    half_ ^= 1;
    keep(half_, k);
  }
  end_chunk();
}

// Four windows of an output, `count` of them there.
void finish(vec4 totals, uint o, uint row, uint count) {
  vec4 activated;
  if (bias != 0ul) totals = add(totals, vec4(operand(Floats(bias).at[o])));
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) activated[i] = activate(totals[i]);
  uint b = row / positions, p = row - b * positions;
  if (ALIGNED) {
    uint64_t behind = (uint64_t(o) * positions + p) * 4ul;
    if (z != 0ul) Quads(z + uint64_t(b) * z_stride * 4ul + behind).at[0] = totals;
    Quads(y + uint64_t(b) * y_stride * 4ul + behind).at[0] = activated;
    return;
  }
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) {
    if (i < count) {
      if (z != 0ul) row_at(z, b, z_stride).at[o * positions + p] = totals[i];
      row_at(y, b, y_stride).at[o * positions + p] = activated[i];
    }
    if (++p == positions) p = 0, ++b;
  }
}

void main() {
  load_operands();
  Geometry g = Geometry(geometry);
  columns = g.channels / g.groups * volume(g.kernel), positions = volume(g.windows);
  uint id = gl_LocalInvocationID.x, lane = id % 32, warp = id / 32;
  w_first = warp % WEFT_ACROSS * (8 * kG) + (lane >> 1 & 7);
  x_first = warp / WEFT_ACROSS * (4 * kH) + (lane & 1 | lane >> 4 << 1);
  uint of_group = outputs / g.groups, tiles = (of_group + kOutputs - 1) / kOutputs;
  uint tile = gl_WorkGroupID.x % (tiles * g.groups), group = tile / tiles;
  uint first_row = gl_WorkGroupID.x / (tiles * g.groups) * kRows, all_rows = rows * positions;
  uint first = group * of_group + tile % tiles * kOutputs, end = (group + 1) * of_group;
  [[unroll]] for (uint r = 0; r < 4 * kH; ++r)
    [[unroll]] for (uint q = 0; q < kG; ++q) total[r][q] = sum[r][q] = vec4(0.0);
  begin_tile(g, first_row, group, first);
  add_all();
  load_operands();
  [[unroll]] for (uint q = 0; q < kG; ++q)
    [[unroll]] for (uint h = 0; h < kH; ++h)
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        uint o = first + (w_first + q * 8) * 4 + i, row = first_row + (x_first + h * 4) * 4;
        if (o >= end || row >= all_rows) continue;
        vec4 of_output;
        [[unroll]] for (uint r = 0; r < 4; ++r) of_output[r] = total[h * 4 + r][q][i];
        finish(of_output, o, row, min(all_rows - row, 4));
      }
}
