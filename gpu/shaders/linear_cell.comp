// SPDX-License-Identifier: Apache-2.0
// linear_integer.comp for layers of one chunk, up to 64 inputs and 512 outputs, which quantise their rows themselves: a
// thread has four outputs, loads all of their codes at once, and several operations of a kind share a group.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
layout(local_size_x = 128) in;
layout(constant_id = 4) const bool HAS_BIAS = true;
#include "linear_codes.glsl"
#include "code_dots.glsl"
#include "quantize.glsl"

const uint kThreads = 128 / kShares;                    // of an operation: four a panel
const uint kWords = 2 * kBits;                          // of codes of an output
const uint kEach = kThreads > 16 ? 1 : 16 / kThreads;
shared uvec4 magnitudes[128];  // 16 words an operation
shared uvec4 q[128];
shared float q_scales[64];
#ifdef WEFT_GATED
shared vec4 gates[128];
#endif
float own_inputs[kEach][4];  // what this thread quantises

void ask_inputs(bool exists, uint row) {
  Floats from = row_at(x, row, x_stride);
  for (uint i = 0; i < kEach; ++i) {
    uint m = share_thread() + i * kThreads, k = m / 8 * 32 + first_input(m % 8);
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      own_inputs[i][j] = 0.0;
      if (exists && m < 16 && k + j * kSplits < inputs) own_inputs[i][j] = operand(from.at[k + j * kSplits]);
    }
  }
}

void quantise() {
  uint t = share_thread(), first = share() * 4;
  for (uint i = 0; i < kEach; ++i) {
    uint m = t + i * kThreads, largest = 0;
    [[unroll]] for (uint j = 0; j < 4; ++j) largest = max(largest, bits(own_inputs[i][j]) & 0x7fffffffu);
    if (m < 16) magnitudes[first + m / 4][m % 4] = largest;
  }
  barrier();
  for (uint i = 0; i < kEach; ++i) {
    uint m = t + i * kThreads;
    if (m >= 16) break;
    uvec4 pairs = max(magnitudes[first + m / 8 * 2], magnitudes[first + m / 8 * 2 + 1]);
    Steps steps = steps_of(max(max(pairs.x, pairs.y), max(pairs.z, pairs.w)));
    q[first + m / 4][m % 4] = codes_of(own_inputs[i], steps);
    if (m % 8 == 0) q_scales[share() * 2 + m / 8] = steps.scale;
  }
  barrier();
}

void main() {
  bool exists = load_operands();
  if (!HAS_BIAS) bias = 0ul;
  uint quad = share_thread() & 3, of_both = share_thread() >> 2, row = gl_WorkGroupID.y;
  uint p = of_both / kMatrices, m = of_both % kMatrices, o = p * 16 + quad * 4;
  const uint n = 32 / kBits;
  uint words = (inputs + n - 1) / n, blocks = (inputs + 31) / 32, panels = exists ? (outputs + 15) / 16 : 0;
  bool computes = p < panels;
  ask_inputs(exists, row);
  uvec4 codes[16];
  uint64_t panel = weight(m).codes + (uint64_t(p) * words * 16ul + quad * 4) * 4ul;
  [[unroll]] for (uint i = 0; i < kWords; ++i) {
    codes[i] = uvec4(0);
    if (computes && i < words) codes[i] = WordQuads(panel + i * 64).at[0];
  }
  vec4 biases = vec4(0.0), scales_of[2] = vec4[2](vec4(0.0), vec4(0.0));
  ivec4 zero_of[2] = ivec4[2](ivec4(0), ivec4(0));
  if (computes) {
    biases = bias_quad(m, o);
    [[unroll]] for (uint b = 0; b < (kHasBlocks ? 2 : 1); ++b) {
      if (kHasBlocks && b >= blocks) break;
      scales_of[b] = scale_quad(weight(m), p, b * 32, quad);
      if (kHasZero) zero_of[b] = ivec4(zero_quad(weight(m), p, b * 32, quad));
    }
  }
  subgroupMemoryBarrierBuffer();  // all of these are under way before the inputs are waited for (linear_row.comp)
  quantise();
#ifndef WEFT_GATED
  if (!computes) return;
#endif
  vec4 sum = vec4(0.0);
  [[unroll]] for (uint b = 0; b < 2; ++b) {
    uint at = kHasBlocks ? b : 0;
    if (b >= blocks) break;
    uvec4 of_block[8];
    [[unroll]] for (uint i = 0; i < kBits; ++i) of_block[i] = codes[b * kBits + i];
    uvec4 halves[2] = uvec4[2](q[share() * 4 + b * 2], q[share() * 4 + b * 2 + 1]);
    sum = with_block(sum, block_sum(of_block, halves, zero_of[at]), unit(), q_scales[share() * 2 + b], scales_of[at]);
  }
  vec4 total = add(vec4(0.0), sum);
  if (!kHasBlocks) total = each_mul(total, scales_of[0]);
#ifdef WEFT_GATED
  if (computes && m == 0) gates[gl_LocalInvocationID.x] = finish_gate(total, biases, row, o);
  barrier();
  if (computes && m == 1) finish_up(total, biases, gates[gl_LocalInvocationID.x - 4], row, o);
#else
  finish(total, biases, row, o);
#endif
}
