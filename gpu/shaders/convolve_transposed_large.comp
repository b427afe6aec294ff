// SPDX-License-Identifier: Apache-2.0
// convolve_transposed.comp for large images: elements as rows of a product with each tap's weights by rule R1 over
// outputs, taps descending. Elements of one phase of the strides are together, so that a tap is there for all of them,
// borders aside; what is not there is taken for +0. WEFT_QUADS_OUT by WEFT_QUADS_ROWS quads of sums a thread, of
// channels by elements; WEFT_ACROSS subgroups side by side over channels, of
// WEFT_THREADS threads.
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
layout(constant_id = 2) const bool ONE_CHUNK = false;  // a group has at most 64 outputs
layout(constant_id = 3) const bool ALIGNED = false;    // strides of 1, and quads of elements stand aligned in z and y
#include "activations.glsl"
#include "weights.glsl"
#include "window.glsl"
#include "window_operands.inc"
#define WEFT_OPERANDS WEFT_CONVOLVE_OPERANDS
#include "operands.glsl"

const uint kG = WEFT_QUADS_OUT, kH = WEFT_QUADS_ROWS, kDown = WEFT_THREADS / 32 / WEFT_ACROSS;
const uint kOutQuads = 8 * kG * WEFT_ACROSS, kRowQuads = 4 * kH * kDown;  // of a tile
const uint kChannels = 4 * kOutQuads, kRows = 4 * kRowQuads;
const uint kStep = 16, kChunk = 64;
// Quads of channels, and of elements, at each output of a step. Channel quad Q of output o stands at Q ^ o / 4 * 2: so
// stores of single floats and reads of quads meet different banks.
shared vec4 ws[2][kStep * kOutQuads];
shared vec4 xs[2][kStep * kRowQuads];
uint w_place(uint o, uint quad) { return o * kOutQuads + (quad ^ o / 4 * 2); }

// A group's part: its elements' phase, how many there are on each axis, its channels and outputs.
uint phase[3], extent[3], stride_of[3];
uint taps, columns, positions, of_group, first_output, count;

// A thread fetches kW quads of outputs, each at one channel, and kX outputs at one element, kApart outputs apart.
const uint kW = kStep * kOutQuads / WEFT_THREADS, kX = kStep * kRows / WEFT_THREADS, kApart = WEFT_THREADS / kRows;
uint w_channel, w_quad, x_o, x_row;
uint64_t x_from;
uint element[3];  // of its phase
StoredQuad fetched_w[kW];
float fetched_x[kX];
uint is_there;  // bits of fetched_x

// The step that is fetched next: outputs `next_o` on, of tap `next_tap`; where the thread's element is for it.
uint next_tap, next_o, next_place;
bool next_is_there;

// True where the tap meets the elements of this phase; then where it is for the thread's element.
bool find_tap(Geometry g, uint t) {
  uvec3 tap = split(t, g.kernel);
  uint at = 0;
  bool is_in = true;
  [[unroll]] for (uint a = 0; a < 3; ++a) {
    uint offset = tap[a] * g.dilation[a], from = phase[a] + g.padding[a];
    if ((from + (stride_of[a] - 1) * offset) % stride_of[a] != 0) return false;
    int p = int(element[a]) + (int(from) - int(offset)) / int(stride_of[a]);
    is_in = is_in && p >= 0 && p < int(g.windows[a]);
    at = at * g.windows[a] + uint(p);
  }
  next_tap = t, next_o = 0;
  next_place = is_in ? at : 0, next_is_there = is_in;
  return true;
}
// To the tap before `t` that is there; past the last one, it stays.
void find_before(Geometry g, uint t) {
  while (t > 0)
    if (find_tap(g, --t)) return;
}
void step_on(Geometry g) {
  next_o += kStep;
  if (next_o >= count) find_before(g, next_tap);
}

// Nothing of it depends on a condition (linear_large.comp).
void fetch() {
  [[unroll]] for (uint l = 0; l < kW; ++l) {
    uint k = min(w_channel + l * (WEFT_THREADS / 4), of_group - 1) * taps + next_tap;
    uint panel = min((first_output + next_o) / 16, (outputs - 1) / 16);
    if (DTYPE == kFloat32)
      fetched_w[l].codes = WordQuads(w + ((uint64_t(panel) * columns + k) * 16ul + w_quad * 4) * 4ul).at[0];
    else
      fetched_w[l] = stored_quad(Weight(w, scales, zero_points, columns), panel, k, w_quad);
  }
  is_there = 0;
  [[unroll]] for (uint j = 0; j < kX; ++j) {
    uint o = next_o + x_o + j * kApart;
    fetched_x[j] = Floats(x_from + uint64_t(min(o, count - 1) * positions + next_place) * 4ul).at[0];
    is_there |= next_is_there && o < count ? 1u << j : 0u;
  }
}
void keep(uint half_, uint tap) {
  [[unroll]] for (uint l = 0; l < kW; ++l) {
    uint c = gl_LocalInvocationID.x / 4 + l * (WEFT_THREADS / 4);
    vec4 weights = quad_of(fetched_w[l], min(w_channel + l * (WEFT_THREADS / 4), of_group - 1) * taps + tap);
    [[unroll]] for (uint i = 0; i < 4; ++i) ws[half_][w_place(w_quad * 4 + i, c / 4)][c % 4] = weights[i];
  }
  [[unroll]] for (uint j = 0; j < kX; ++j)
    xs[half_][(x_o + j * kApart) * kRowQuads + x_row / 4][x_row % 4] =
        (is_there >> j & 1u) != 0u ? operand(fetched_x[j]) : 0.0;
}

uint w_first, x_first;  // quads of a thread: channels w_first + 8 g, elements x_first + 4 h
vec4 sum[4 * kH][kG], total[4 * kH][kG];
void add_output(uint half_, uint o) {
  vec4 wf[kG], xf[kH];
  [[unroll]] for (uint g = 0; g < kG; ++g) wf[g] = ws[half_][w_place(o, w_first + g * 8)];
  [[unroll]] for (uint h = 0; h < kH; ++h) xf[h] = xs[half_][o * kRowQuads + x_first + h * 4];
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

// Sums of taps that are done, where a tap has several chunks: in memory, since registers hold two sets of sums. An
// index that no compiler knows keeps them there.
vec4 done[4 * kH * kG];
uint zero;
void end_tap() {
  [[unroll]] for (uint i = 0; i < 4 * kH * kG; ++i) {
    done[i + zero] = add(done[i + zero], total[i / kG][i % kG]);
    total[i / kG][i % kG] = vec4(0.0);
  }
}

void add_all(Geometry g) {
  uint half_ = 0, steps = (count + kStep - 1) / kStep;
  fetch();
  keep(0, next_tap);
  for (uint t = taps; t > 0;) {
    // The taps of this phase one after the other, as find_before goes over them.
    t = next_tap;
    [[dont_unroll]] for (uint step_ = 1; step_ <= steps; ++step_) {
      step_on(g);
      barrier();
      fetch();
      subgroupMemoryBarrier();  // so that loads are under way while this computes
      WEFT_UNROLL for (uint o = 0; o < kStep; ++o) add_output(half_, o);
      half_ ^= 1;
      keep(half_, next_tap);
      if (step_ % (kChunk / kStep) == 0 || step_ == steps) end_chunk();
    }
    if (!ONE_CHUNK) end_tap();
    if (next_tap == t) break;
  }
}

// Four elements of a channel, `there` of them in the image; `in_phase`: elements of the phase.
void finish(Geometry g, vec4 totals, uint c, uint row, uint there, uint in_phase) {
  vec4 activated;
  // A sum of zeros is +0, whatever their signs.
  totals = add(totals, vec4(0.0));
  if (bias != 0ul) totals = add(totals, vec4(operand(Floats(bias).at[c])));
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) activated[i] = activate(totals[i]);
  uint plane = volume(g.image), b = row / in_phase, e = row - b * in_phase;
  if (ALIGNED) {
    uint64_t behind = (uint64_t(c) * plane + e) * 4ul;
    if (z != 0ul) Quads(z + uint64_t(b) * z_stride * 4ul + behind).at[0] = totals;
    Quads(y + uint64_t(b) * y_stride * 4ul + behind).at[0] = activated;
    return;
  }
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) {
    if (i < there) {
      uvec3 at = split(e, extent);
      uint place = 0;
      [[unroll]] for (uint a = 0; a < 3; ++a) place = place * g.image[a] + at[a] * stride_of[a] + phase[a];
      if (z != 0ul) row_at(z, b, z_stride).at[c * plane + place] = totals[i];
      row_at(y, b, y_stride).at[c * plane + place] = activated[i];
    }
    if (++e == in_phase) e = 0, ++b;
  }
}

void main() {
  load_operands();
  Geometry g = Geometry(geometry);
  taps = volume(g.kernel), of_group = g.channels / g.groups, columns = of_group * taps, positions = volume(g.windows);
  count = outputs / g.groups, zero = rows >> 31;
  uint of_phase = gl_WorkGroupID.y;
  [[unroll]] for (uint a = 3; a-- > 0;) {
    stride_of[a] = g.stride[a], phase[a] = of_phase % g.stride[a], of_phase /= g.stride[a];
    extent[a] = phase[a] < g.image[a] ? (g.image[a] - phase[a] + g.stride[a] - 1) / g.stride[a] : 0;
  }
  uint in_phase = volume(extent), all_rows = rows * in_phase;
  uint tiles = (of_group + kChannels - 1) / kChannels, tile = gl_WorkGroupID.x % (tiles * g.groups);
  uint group = tile / tiles, first_channel = tile % tiles * kChannels;
  uint first_row = gl_WorkGroupID.x / (tiles * g.groups) * kRows;
  if (first_row >= all_rows) return;
  uint id = gl_LocalInvocationID.x, lane = id % 32, warp = id / 32;
  w_first = warp % WEFT_ACROSS * (8 * kG) + (lane >> 1 & 7);
  x_first = warp / WEFT_ACROSS * (4 * kH) + (lane & 1 | lane >> 4 << 1);
  first_output = group * count, w_channel = first_channel + id / 4, w_quad = id % 4;
  x_o = id / kRows, x_row = id % kRows;
  // Elements past the last one only feed sums that are not stored.
  uint row = min(first_row + x_row, all_rows - 1), b = row / in_phase;
  uvec3 at = split(row - b * in_phase, extent);
  [[unroll]] for (uint a = 0; a < 3; ++a) element[a] = at[a];
  x_from = x + (uint64_t(b) * x_stride + uint64_t(first_output) * positions) * 4ul;
  next_tap = taps, next_o = 0, next_place = 0, next_is_there = false;
  [[unroll]] for (uint r = 0; r < 4 * kH; ++r)
    [[unroll]] for (uint q = 0; q < kG; ++q) total[r][q] = sum[r][q] = vec4(0.0);
  if (!ONE_CHUNK)
    [[unroll]] for (uint i = 0; i < 4 * kH * kG; ++i) done[i + zero] = vec4(0.0);
  find_before(g, taps);
  if (next_tap < taps) add_all(g);
  if (!ONE_CHUNK)
    [[unroll]] for (uint i = 0; i < 4 * kH * kG; ++i) total[i / kG][i % kG] = done[i + zero];
  load_operands();
  [[unroll]] for (uint q = 0; q < kG; ++q)
    [[unroll]] for (uint h = 0; h < kH; ++h)
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        uint c = first_channel + (w_first + q * 8) * 4 + i, row = first_row + (x_first + h * 4) * 4;
        if (c >= of_group || row >= all_rows) continue;
        vec4 of_channel;
        [[unroll]] for (uint r = 0; r < 4; ++r) of_channel[r] = total[h * 4 + r][q][i];
        finish(g, of_channel, group * of_group + c, row, min(all_rows - row, 4), in_phase);
      }
}
