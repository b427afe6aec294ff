// SPDX-License-Identifier: Apache-2.0
// y = activation(x w^T + bias) for few rows: the weights are read once a row, 16 bytes a thread, SLOTS chunks of 64
// inputs of a panel at once (rule R1: a chunk's sum is serial, chunk sums are added in order). Small layers have one
// slot, and share a group with others of their kind.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 128) in;
#define WEFT_JOINED
#include "linear_operands.glsl"

layout(constant_id = 2) const uint SLOTS = 32;  // a power of two up to 32
const uint kPanels = 32 / SLOTS / kShares;      // of a share
// Loads that a thread has under way, and as many again: it asks for the next ones before it works through these.
const uint kDepth = 16;
// Chunks that a thread sums before all wait for each other.
const uint kTurns = SLOTS == 1 && kRows == 1 ? 1 : 4;
shared vec4 sums[kTurns][32][4];
#ifdef WEFT_GATED
shared vec4 gates[128];
#endif

// The normed row: 16 quads a chunk and one more, so that slots read from banks of their own.
shared vec4 row_quads[kNorms ? ROW_QUADS : 1];
uint place_of(uint k) { return k / kChunk * (kChunk / 4 + 1) + k % kChunk / 4; }
void prepare(uint row) {
  float factor = norm_factor(row);
  Floats from = row_at(x, row, x_stride);
  const uint kThreads = gl_WorkGroupSize.x, kAtOnce = 8;  // loads that are under way together
  for (uint first = gl_LocalInvocationID.x; first < inputs; first += kAtOnce * kThreads) {
    float own[kAtOnce], gains[kAtOnce];
    WEFT_UNROLL for (uint i = 0; i < kAtOnce; ++i) {
      uint k = min(first + i * kThreads, inputs - 1);
      own[i] = from.at[k];
      gains[i] = Floats(x_scales).at[k];
    }
    WEFT_UNROLL for (uint i = 0; i < kAtOnce; ++i) {
      uint k = first + i * kThreads;
      if (k < inputs) row_quads[place_of(k)][k % 4] = prepared(own[i], gains[i], factor);
    }
  }
  barrier();
}

vec4 input_quad(uint64_t from, uint k) {
  if (kNorms) return row_quads[place_of(k)];
  if (ALIGNED) return operand(Quads(from).at[k / 4]);
  Floats x_ = Floats(from);
  return operand(vec4(x_.at[k], x_.at[k + 1], x_.at[k + 2], x_.at[k + 3]));
}

float input_at(uint64_t from, uint k) {
  if (kNorms) return row_quads[place_of(k)][k % 4];
  return operand(Floats(from).at[k]);
}

vec4 whole_chunk_sum(uint m, uint p, uint64_t from, uint quad, uint k) {
  vec4 sum = vec4(0.0), ws[kDepth], xs[kDepth / 4], next_ws[kDepth], next_xs[kDepth / 4];
  WEFT_UNROLL for (uint j = 0; j < kDepth; ++j) ws[j] = weight_quad(weight(m), p, k + j, quad);
  WEFT_UNROLL for (uint j = 0; j < kDepth / 4; ++j) xs[j] = input_quad(from, k + 4 * j);
  WEFT_UNROLL for (uint at = 0; at < kChunk; at += kDepth) {
    if (at + kDepth < kChunk) {
      uint next = k + at + kDepth;
      WEFT_UNROLL for (uint j = 0; j < kDepth; ++j) next_ws[j] = weight_quad(weight(m), p, next + j, quad);
      WEFT_UNROLL for (uint j = 0; j < kDepth / 4; ++j) next_xs[j] = input_quad(from, next + 4 * j);
    }
    // Orders nothing that matters but the compiler: else it asks for the next ones when they are needed, to save
    // registers, and the thread waits for each.
    subgroupMemoryBarrierBuffer();
    WEFT_UNROLL for (uint j = 0; j < kDepth; ++j) sum = fused(ws[j], xs[j / 4][j % 4], sum);
    ws = next_ws;
    xs = next_xs;
  }
  return sum;
}

vec4 chunk_sum(uint m, uint p, uint64_t from, uint quad, uint k, uint end) {
  vec4 sum = vec4(0.0);
  if (end - k == kChunk) return whole_chunk_sum(m, p, from, quad, k);
  for (; k + kDepth <= end; k += kDepth) {
    vec4 ws[kDepth], xs[kDepth / 4];
    WEFT_UNROLL for (uint j = 0; j < kDepth; ++j) ws[j] = weight_quad(weight(m), p, k + j, quad);
    WEFT_UNROLL for (uint j = 0; j < kDepth / 4; ++j) xs[j] = input_quad(from, k + 4 * j);
    WEFT_UNROLL for (uint j = 0; j < kDepth; ++j) sum = fused(ws[j], xs[j / 4][j % 4], sum);
  }
  for (; k < end; ++k) sum = fused(weight_quad(weight(m), p, k, quad), input_at(from, k), sum);
  return sum;
}

// The same of several rows, from `row` on.
void chunk_sums(uint m, uint p, uint row, uint quad, uint k, uint end, out vec4 sums_of[kRows]) {
  uint64_t from[kRows];
  for (uint r = 0; r < kRows; ++r) {
    sums_of[r] = vec4(0.0);
    from[r] = x + uint64_t(min(row + r, rows - 1)) * x_stride * 4ul;
  }
  for (; k + kDepth <= end; k += kDepth) {
    vec4 ws[kDepth];
    WEFT_UNROLL for (uint j = 0; j < kDepth; ++j) ws[j] = weight_quad(weight(m), p, k + j, quad);
    subgroupMemoryBarrierBuffer();
    WEFT_UNROLL for (uint r = 0; r < kRows; ++r)
      WEFT_UNROLL for (uint i = 0; i < kDepth / 4; ++i) {
        vec4 xs = input_quad(from[r], k + 4 * i);
        WEFT_UNROLL for (uint j = 0; j < 4; ++j) sums_of[r] = fused(ws[4 * i + j], xs[j], sums_of[r]);
      }
  }
  for (; k < end; ++k) {
    vec4 own = weight_quad(weight(m), p, k, quad);
    for (uint r = 0; r < kRows; ++r) sums_of[r] = fused(own, input_at(from[r], k), sums_of[r]);
  }
}

// `total` and the sums of chunks of turns from `turn` on, in their order; reads of eight are under way together.
vec4 with_chunks(vec4 total, uint chunks, uint turn, uint unit, uint quad) {
  for (uint first = 0; first < chunks; first += 8) {
    vec4 own[8];
    WEFT_UNROLL for (uint c = 0; c < 8; ++c) {
      uint at = min(first + c, chunks - 1);
      own[c] = sums[turn + at / SLOTS][unit + at % SLOTS][quad];
    }
    WEFT_UNROLL for (uint c = 0; c < 8; ++c)
      if (first + c < chunks) total = add(total, own[c]);
  }
  return total;
}

// All of kRows rows from `row` on.
void sum_rows(uint row, uint of_both, uint slot, uint unit, uint quad, uint panels) {
  uint p = of_both / kMatrices, m = of_both % kMatrices;
  vec4 total[kRows], sum[kRows], biases = vec4(0.0);
  for (uint r = 0; r < kRows; ++r) total[r] = sum[r] = vec4(0.0);
  if (slot == 0 && p < panels) biases = bias_quad(m, p * 16 + quad * 4);
  for (uint base = 0; base < inputs; base += SLOTS * kChunk) {
    uint k = base + slot * kChunk, chunks = min(SLOTS, (inputs - base + kChunk - 1) / kChunk);
    if (p < panels && k < inputs) chunk_sums(m, p, row, quad, k, min(inputs, k + kChunk), sum);
    for (uint first = 0; first < kRows; first += kTurns) {
      barrier();
      for (uint r = first; r < min(first + kTurns, kRows); ++r) sums[r - first][unit][quad] = sum[r];
      barrier();
      for (uint r = first; r < min(first + kTurns, kRows) && slot == 0; ++r)
        total[r] = with_chunks(total[r], chunks, r - first, unit, quad);
    }
  }
  for (uint r = 0; r < kRows; ++r) {
    bool finishes = slot == 0 && p < panels && row + r < rows;
#ifdef WEFT_GATED
    barrier();
    if (finishes && m == 0)
      gates[gl_LocalInvocationID.x] = finish_gate(total[r], biases, row + r, p * 16 + quad * 4);
    barrier();
    if (finishes && m == 1)
      finish_up(total[r], biases, gates[gl_LocalInvocationID.x - 4 * SLOTS], row + r, p * 16 + quad * 4);
#else
    if (finishes) finish(total[r], biases, row + r, p * 16 + quad * 4);
#endif
  }
}

void main() {
  bool exists = load_operands();
  uint quad = share_thread() & 3, unit = share_thread() >> 2, slot = unit % SLOTS;
  uint panels = exists ? (outputs + 15) / 16 : 0;
  // Barriers stand where a group has one operation, or each of its operations has one turn, shares without any too.
  uint turns = kMatrices == 1 ? panels : (outputs + 15) / 16 * kMatrices;
  if (kRows > 1) {
    for (uint row = gl_WorkGroupID.y * kRows; row < rows; row += gl_NumWorkGroups.y * kRows)
      for (uint first = gl_WorkGroupID.x * kPanels; first < turns; first += gl_NumWorkGroups.x * kPanels)
        sum_rows(row, first + unit / SLOTS, slot, unit, quad, panels);
    return;
  }
  for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y) {
    if (kNorms) prepare(row);
    for (uint first = gl_WorkGroupID.x * kPanels; first < turns; first += gl_NumWorkGroups.x * kPanels) {
      uint of_both = first + unit / SLOTS, p = of_both / kMatrices, m = of_both % kMatrices;
      uint64_t from = x + uint64_t(row) * x_stride * 4ul;
      vec4 total = vec4(0.0), biases = vec4(0.0);
      if (slot == 0 && p < panels) biases = bias_quad(m, p * 16 + quad * 4);
      for (uint base = 0; base < inputs; base += kTurns * SLOTS * kChunk) {
        for (uint turn = 0; turn < kTurns; ++turn) {
          uint k = base + (turn * SLOTS + slot) * kChunk;
          vec4 sum = vec4(0.0);
          if (p < panels && k < inputs) sum = chunk_sum(m, p, from, quad, k, min(inputs, k + kChunk));
          if (SLOTS == 1)
            total = add(total, sum);
          else
            sums[turn][unit][quad] = sum;
        }
        if (SLOTS == 1) continue;
        barrier();
        uint chunks = min(kTurns * SLOTS, (inputs - base + kChunk - 1) / kChunk);
        if (slot == 0) total = with_chunks(total, chunks, 0, unit, quad);
        barrier();
      }
#ifdef WEFT_GATED
      barrier();
      if (slot == 0 && p < panels && m == 0) gates[gl_LocalInvocationID.x] = finish_gate(total, biases, row, p * 16 + quad * 4);
      barrier();
      if (slot == 0 && p < panels && m == 1) finish_up(total, biases, gates[gl_LocalInvocationID.x - 4 * SLOTS], row, p * 16 + quad * 4);
#else
      if (slot == 0 && p < panels) finish(total, biases, row, p * 16 + quad * 4);
#endif
    }
  }
}
