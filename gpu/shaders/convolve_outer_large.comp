// SPDX-License-Identifier: Apache-2.0
// convolve_outer.comp by tiles: windows of all samples one after the other, as samples of outer_accumulate_large.comp,
// which are gathered while they are fetched. WEFT_QUADS_OUT by WEFT_QUADS_COLUMNS quads of weights a thread, of outputs
// by columns; WEFT_THREADS, of which WEFT_ACROSS subgroups stand side by side over outputs; WEFT_STEP windows at once.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#ifndef WEFT_ACROSS
#define WEFT_THREADS 256
#define WEFT_ACROSS 2
#define WEFT_QUADS_OUT 2
#define WEFT_QUADS_COLUMNS 2
#define WEFT_STEP 16
#endif
layout(local_size_x = WEFT_THREADS) in;
#include "exact.glsl"
#include "window_tables.glsl"
#define WEFT_OPERANDS WEFT_CONVOLVE_OUTER_OPERANDS
#include "operands.glsl"

const uint kG = WEFT_QUADS_OUT, kH = WEFT_QUADS_COLUMNS, kDown = WEFT_THREADS / 32 / WEFT_ACROSS;
const uint kOutQuads = 8 * kG * WEFT_ACROSS, kColumnQuads = 4 * kH * kDown;  // of a tile
const uint kOutputs = 4 * kOutQuads, kColumns = 4 * kColumnQuads;
const uint kStep = WEFT_STEP, kOwn = kStep / 8;  // windows, and those that a thread fetches
// Quads of outputs, and of columns, at each window of a step. Quad Q of window s stands at Q ^ s % 8: so stores of
// single floats and reads of quads meet different banks.
shared vec4 ds[2][kStep * kOutQuads];
shared vec4 xs[2][kStep * kColumnQuads];
uint d_place(uint s, uint quad) { return s * kOutQuads + (quad ^ s % 8); }
uint x_place(uint s, uint quad) { return s * kColumnQuads + (quad ^ s % 8); }

// A thread fetches windows own_window + 8 h of a step: of kD outputs and kX columns, kApart apart.
const uint kApart = WEFT_THREADS / 8, kD = kOutputs / kApart, kX = kColumns / kApart;
uint positions, own_window, own_row;
uint d_output[kD], column[kX];
uint64_t x_channels;
// The windows that are fetched next, and the samples they are of.
uint next_p[kOwn], next_b[kOwn];
WindowPlace place[kOwn];
float fetched_d[kOwn][kD], fetched_x[kOwn][kX];
uint is_inside, is_there;  // bits of fetched_x, and of its windows

void look_up() {
  [[unroll]] for (uint h = 0; h < kOwn; ++h) place[h] = window_place(window_table(geometry), next_p[h]);
}
// Nothing of it depends on a condition (linear_large.comp). A window past the last one adds -0 times +0, which changes
// no sum: +0 would turn -0 into +0.
void fetch() {
  is_inside = is_there = 0;
  [[unroll]] for (uint h = 0; h < kOwn; ++h) {
    uint b = min(next_b[h], rows - 1);
    uint64_t d_from = dy + (uint64_t(b) * dy_stride + next_p[h]) * 4ul;
    uint64_t x_from = x_channels + uint64_t(b) * x_stride * 4ul;
    [[unroll]] for (uint j = 0; j < kD; ++j) fetched_d[h][j] = Floats(d_from + uint64_t(d_output[j]) * 4ul).at[0];
    [[unroll]] for (uint j = 0; j < kX; ++j) {
      bool is_in = next_b[h] < rows && has_tap(place[h].taps, column[j]);
      fetched_x[h][j] = Floats(x_from + int64_t(is_in ? place[h].begin + offset_of(column[j]) : 0) * 4l).at[0];
      is_inside |= is_in ? 1u << h * kX + j : 0u;
    }
    is_there |= next_b[h] < rows ? 1u << h : 0u;
  }
}
void step_on() {
  [[unroll]] for (uint h = 0; h < kOwn; ++h) {
    next_p[h] += kStep;
    while (next_p[h] >= positions) next_p[h] -= positions, ++next_b[h];
  }
}
void keep(uint half_) {
  [[unroll]] for (uint h = 0; h < kOwn; ++h) {
    uint s = own_window + h * 8;
    [[unroll]] for (uint j = 0; j < kD; ++j) {
      uint o = own_row + j * kApart;
      ds[half_][d_place(s, o / 4)][o % 4] =
          (is_there >> h & 1u) != 0u ? operand(fetched_d[h][j]) : from_bits(kSignBit);
    }
    [[unroll]] for (uint j = 0; j < kX; ++j) {
      uint k = own_row + j * kApart;
      xs[half_][x_place(s, k / 4)][k % 4] = (is_inside >> h * kX + j & 1u) != 0u ? operand(fetched_x[h][j]) : 0.0;
    }
  }
}

uint d_first, x_first;  // quads of a thread: outputs d_first + 8 g, columns x_first + 4 h
vec4 sum[4 * kH][kG];
void add_window(uint half_, uint s) {
  vec4 df[kG], xf[kH];
  [[unroll]] for (uint g = 0; g < kG; ++g) df[g] = ds[half_][d_place(s, d_first + g * 8)];
  [[unroll]] for (uint h = 0; h < kH; ++h) xf[h] = xs[half_][x_place(s, x_first + h * 4)];
  [[unroll]] for (uint i = 0; i < 4 * kH; ++i)
    [[unroll]] for (uint g = 0; g < kG; ++g) sum[i][g] = fused(df[g], xf[i / 4][i % 4], sum[i][g]);
}

void add_all() {
  uint half_ = 0;
  look_up();
  fetch();
  step_on();
  look_up();
  keep(0);
  // As many steps as there are windows for; the last one may go beyond them.
  for (uint steps = (rows * positions + kStep - 1) / kStep; steps > 0; --steps) {
    barrier();
    fetch();
    step_on();
    look_up();
    subgroupMemoryBarrier();  // so that loads are under way while this computes
    WEFT_UNROLL for (uint s = 0; s < kStep; ++s) add_window(half_, s);
    half_ ^= 1;
    keep(half_);
  }
}

void main() {
  load_operands();
  Geometry g = Geometry(geometry);
  uint of_group = g.channels / g.groups, outputs_each = outputs / g.groups, columns = of_group * volume(g.kernel);
  positions = volume(g.windows);
  uint across = (outputs_each + kOutputs - 1) / kOutputs, group = gl_WorkGroupID.y / across;
  uint o0 = group * outputs_each + gl_WorkGroupID.y % across * kOutputs, end = (group + 1) * outputs_each;
  uint k0 = gl_WorkGroupID.x * kColumns;
  uint id = gl_LocalInvocationID.x, lane = id % 32, warp = id / 32;
  d_first = warp % WEFT_ACROSS * (8 * kG) + (lane >> 1 & 7);
  x_first = warp / WEFT_ACROSS * (4 * kH) + (lane & 1 | lane >> 4 << 1);
  own_window = id % 8, own_row = id / 8;
  [[unroll]] for (uint j = 0; j < kD; ++j) d_output[j] = min(o0 + own_row + j * kApart, outputs - 1) * positions;
  [[unroll]] for (uint j = 0; j < kX; ++j)
    column[j] = column_table(geometry, positions).at[min(k0 + own_row + j * kApart, columns - 1)];
  x_channels = x + uint64_t(group) * of_group * volume(g.image) * 4ul;
  [[unroll]] for (uint h = 0; h < kOwn; ++h) {
    next_p[h] = own_window + h * 8, next_b[h] = 0;
    while (next_p[h] >= positions) next_p[h] -= positions, ++next_b[h];
  }
  [[unroll]] for (uint i = 0; i < 4 * kH; ++i)
    [[unroll]] for (uint q = 0; q < kG; ++q) {
      uint o = min(o0 + (d_first + q * 8) * 4, outputs - 1);
      uint k = min(k0 + (x_first + i / 4 * 4) * 4 + i % 4, columns - 1);
      sum[i][q] = operand(panel_at(dw, o / 16, columns).at[k * 4 + o / 4 % 4]);
    }
  add_all();
  [[unroll]] for (uint i = 0; i < 4 * kH; ++i)
    [[unroll]] for (uint q = 0; q < kG; ++q) {
      uint o = o0 + (d_first + q * 8) * 4, k = k0 + (x_first + i / 4 * 4) * 4 + i % 4;
      if (o >= end || k >= columns) continue;
      Quads panel = panel_at(dw, o / 16, columns);
      uint at = k * 4 + o / 4 % 4;
      // Lanes past the last output keep what they hold.
      if (o + 4 <= end)
        panel.at[at] = sum[i][q];
      else
        [[unroll]] for (uint j = 0; j < 4; ++j)
          if (o + j < end) panel.at[at][j] = sum[i][q][j];
    }
}
