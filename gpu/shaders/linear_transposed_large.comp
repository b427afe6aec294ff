// SPDX-License-Identifier: Apache-2.0
// dx = dy w by rule R2 for many rows and outputs: tiles of 32 inputs by 32 rows. Sixteen of the 64 lanes at once, 32
// threads each, which have 8 by 4 sums; lanes whose sums are added first come one after the other in a thread.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "weights.glsl"

layout(local_size_x = 512) in;
layout(constant_id = 2) const bool ALIGNED = false;  // rows of dy begin at multiples of 16 bytes
#include "linear_operands.inc"
#define WEFT_OPERANDS WEFT_TRANSPOSED_OPERANDS
#include "operands.glsl"

const uint kSide = 32, kQuads = kSide / 4, kLanes = 16;
const uint kSteps = 4;  // outputs of each lane that are fetched at once
// Halves of [step][lane][quad] of weights, and of errors. Quad Q of lane l stands at Q ^ l / 4 * 2: so stores of single
// floats and reads of quads meet different banks. At last the sums of the lanes.
const uint kHalf = kSteps * kLanes * kQuads;
shared vec4 pool[4 * kHalf];
uint place_of(uint step_, uint lane, uint quad) { return (step_ * kLanes + lane) * kQuads + (quad ^ lane / 4 * 2); }

// A thread fetches four lanes of an input, and of a row, at one step. Lanes of a pass are a panel's outputs; panels of
// the following steps lie four further each.
uint input_of, quad, own_step, last_panel;
uint64_t w_from, dy_from;
StoredQuad fetched_w;
vec4 fetched_dy;
uint fetched_panel;

void fetch(uint panel) {
  fetched_panel = panel;
  uint p = min(panel + own_step * 4, last_panel);
  if (DTYPE == kFloat32)
    fetched_w.codes = WordQuads(w_from + uint64_t(p) * (inputs * 64)).at[0];
  else
    fetched_w = stored_quad(Weight(w, scales, zero_points, inputs), p, input_of, quad);
  uint64_t from = dy_from + p * 64ul;
  if (ALIGNED) fetched_dy = Quads(from).at[0];
  else
    [[unroll]] for (uint i = 0; i < 4; ++i) fetched_dy[i] = Floats(from).at[i];
}
void keep(uint half_) {
  uint own = gl_LocalInvocationID.x % 128 / 4;
  vec4 weights = quad_of(fetched_w, input_of), errors = operand(fetched_dy);
  // A lane without an output adds -0, which changes no sum: +0 would turn -0 into +0.
  if ((fetched_panel + kSteps * 4 - 4) * 16 + 16 > outputs)
    [[unroll]] for (uint i = 0; i < 4; ++i)
      if ((fetched_panel + own_step * 4) * 16 + quad * 4 + i >= outputs)
        weights[i] = 0.0, errors[i] = from_bits(kSignBit);
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    uint at = half_ * kHalf + place_of(own_step, quad * 4 + i, own / 4);
    pool[at][own % 4] = weights[i];
    pool[2 * kHalf + at][own % 4] = errors[i];
  }
}

uint lane, w_first, dy_first;  // quads of a thread: w_first, dy_first + 4 h
vec4 sum[8];                   // by row, of a quad of inputs
void add_step(uint half_, uint step_) {
  vec4 wf = pool[half_ * kHalf + place_of(step_, lane, w_first)], df[2];
  [[unroll]] for (uint h = 0; h < 2; ++h)
    df[h] = pool[2 * kHalf + half_ * kHalf + place_of(step_, lane, dy_first + h * 4)];
  [[unroll]] for (uint r = 0; r < 8; ++r) sum[r] = fused(wf, df[r / 4][r % 4], sum[r]);
}

// Outputs of the panels `panel` + 4 i; `after`: the first panel of the next pass.
const uint kTurn = kSteps * 4;  // panels of a turn
uint half_now;
void add_pass(uint panel, uint after) {
  [[unroll]] for (uint r = 0; r < 8; ++r) sum[r] = vec4(0.0);
  uint turns = ((outputs + 15) / 16 + kTurn - 1) / kTurn;
  [[dont_unroll]] for (uint turn = 1; turn <= turns; ++turn) {
    barrier();
    panel += kTurn;
    fetch(turn < turns ? panel : after);
    WEFT_UNROLL for (uint i = 0; i < kSteps; ++i) add_step(half_now, i);
    half_now ^= 1;
    keep(half_now);
  }
}

void main() {
  load_operands();
  uint id = gl_LocalInvocationID.x;
  lane = id / 32, w_first = id >> 1 & 7, dy_first = id & 1 | (id >> 4 & 1) << 1;
  quad = id % 4, own_step = id / 128, last_panel = (outputs - 1) / 16;
  for (uint row = gl_WorkGroupID.y * kSide; row < rows; row += gl_NumWorkGroups.y * kSide)
    for (uint first = gl_WorkGroupID.x * kSide; first < inputs; first += gl_NumWorkGroups.x * kSide) {
      input_of = min(first + id % 128 / 4, inputs - 1);
      w_from = w + (uint64_t(input_of) * 16 + quad * 4) * 4ul;
      dy_from = dy + (uint64_t(min(row + id % 128 / 4, rows - 1)) * dy_stride + quad * 4) * 4ul;
      half_now = 0;
      fetch(0);
      barrier();
      keep(0);
      // Of lanes j, the sums of j and j + 32, added to those of j + 16 and j + 48.
      vec4 folded[8];
      add_pass(0, 2);
      [[unroll]] for (uint r = 0; r < 8; ++r) folded[r] = sum[r];
      add_pass(2, 1);
      [[unroll]] for (uint r = 0; r < 8; ++r) folded[r] = add(folded[r], sum[r]);
      add_pass(1, 3);
      vec4 second[8];
      [[unroll]] for (uint r = 0; r < 8; ++r) second[r] = sum[r];
      add_pass(3, 0);
      [[unroll]] for (uint r = 0; r < 8; ++r) folded[r] = add(folded[r], add(second[r], sum[r]));
      // The other lanes: sixteen rows at once, a thread a sum.
      [[unroll]] for (uint h = 0; h < 2; ++h) {
        barrier();
        [[unroll]] for (uint r = 0; r < 4; ++r)
          pool[lane * 128 + (dy_first * 4 + r) * kQuads + (w_first ^ dy_first % 2 * 4)] = folded[h * 4 + r];
        barrier();
        float own[16];
        [[unroll]] for (uint j = 0; j < 16; ++j) own[j] = pool[j * 128 + id / 4][id % 4];
        [[unroll]] for (uint left = 8; left > 0; left /= 2)
          [[unroll]] for (uint j = 0; j < left; ++j) own[j] = add(own[j], own[j + left]);
        uint at_row = row + h * 16 + id / 32, k = first + (id / 4 % kQuads ^ id / 128 % 2 * 4) * 4 + id % 4;
        if (at_row < rows && k < inputs) row_at(dx, at_row, dx_stride).at[k] = own[0];
      }
      barrier();
    }
}
