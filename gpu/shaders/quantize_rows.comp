// SPDX-License-Identifier: Apache-2.0
// Activations to int8: blocks of 32 elements of a row, each with a scale of its own; eight threads a block, four codes
// a thread, laid out for code_dots.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "quantize.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
layout(constant_id = 1) const uint SPLITS = 1;  // kSplits of who reads them
#include "linear_operands.inc"
#define WEFT_OPERANDS WEFT_QUANTIZE_OPERANDS
#include "operands.glsl"
shared uint magnitudes[256];

void main() {
  load_operands();
  uint id = gl_LocalInvocationID.x, all = rows * blocks;
  const uint kBlocks = gl_WorkGroupSize.x / 8;  // of a group
  for (uint first = gl_WorkGroupID.x * kBlocks; first < all; first += gl_NumWorkGroups.x * kBlocks) {
    uint block = first + id / 8, row = min(block / blocks, rows - 1), m = id % 8;
    uint k = block % blocks * 32 + m / SPLITS * SPLITS * 4 + m % SPLITS;
    bool exists = block < all;
    float v[4];
    uint largest = 0;
    Floats from = row_at(x, row, x_stride);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      v[i] = 0.0;
      if (exists && k + i * SPLITS < cols) v[i] = flushed(from.at[k + i * SPLITS]);
      largest = max(largest, bits(v[i]) & 0x7fffffffu);
    }
    barrier();
    magnitudes[id] = largest;
    barrier();
    for (uint i = 0; i < 8; ++i) largest = max(largest, magnitudes[(id & ~7u) + i]);
    Steps steps = steps_of(largest);
    if (exists) {
      Words(codes + (uint64_t(block) * 8ul + id % 8) * 4ul).at[0] = codes_of(v, steps);
      if (id % 8 == 0) Floats(scales).at[block] = steps.scale;
    }
  }
}
