// SPDX-License-Identifier: Apache-2.0
// Activations to int8: blocks of 32 elements of a row, each with a scale of its own or all with the row's; eight threads
// a block, four codes a thread, laid out for code_dots.glsl.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "quantize.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
layout(constant_id = 1) const uint SPLITS = 1;  // kSplits of who reads them
layout(constant_id = 2) const bool ROW_SCALE = false;  // a group has a row at a time
#include "linear_operands.inc"
#define WEFT_OPERANDS WEFT_QUANTIZE_ROWS_OPERANDS
#include "operands.glsl"
shared uint magnitudes[256];

// Of a row, for all threads of the group.
uint largest_of_row(uint row) {
  uint id = gl_LocalInvocationID.x, largest = kLeastOfRowBits;
  Floats from = row_at(x, row, x_stride);
  for (uint k = id; k < cols; k += gl_WorkGroupSize.x) largest = max(largest, bits(flushed(from.at[k])) & 0x7fffffffu);
  barrier();
  magnitudes[id] = largest;
  for (uint half_of = gl_WorkGroupSize.x / 2; half_of > 0; half_of /= 2) {
    barrier();
    if (id < half_of) magnitudes[id] = max(magnitudes[id], magnitudes[id + half_of]);
  }
  barrier();
  return magnitudes[0];
}

// Blocks begin to end, counted over all rows, `step` after the group's first ones its next.
void quantise(uint begin, uint end, uint step, uint of_row) {
  uint id = gl_LocalInvocationID.x;
  for (uint first = begin; first < end; first += step) {
    uint block = first + id / 8, row = min(block / blocks, rows - 1), m = id % 8;
    uint k = block % blocks * 32 + m / SPLITS * SPLITS * 4 + m % SPLITS;
    bool exists = block < end;
    float v[4];
    uint largest = of_row;
    Floats from = row_at(x, row, x_stride);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      v[i] = 0.0;
      if (exists && k + i * SPLITS < cols) v[i] = flushed(from.at[k + i * SPLITS]);
      if (!ROW_SCALE) largest = max(largest, bits(v[i]) & 0x7fffffffu);
    }
    if (!ROW_SCALE) {
      barrier();
      magnitudes[id] = largest;
      barrier();
      for (uint i = 0; i < 8; ++i) largest = max(largest, magnitudes[(id & ~7u) + i]);
    }
    Steps steps = steps_of(largest);
    if (exists) {
      Words(codes + (uint64_t(block) * 8ul + id % 8) * 4ul).at[0] = codes_of(v, steps);
      if (id % 8 == 0) Floats(scales).at[block] = steps.scale;
    }
  }
}

void main() {
  load_operands();
  const uint kBlocks = gl_WorkGroupSize.x / 8;  // of a group
  if (ROW_SCALE)
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x)
      quantise(row * blocks, (row + 1) * blocks, kBlocks, largest_of_row(row));
  else
    quantise(gl_WorkGroupID.x * kBlocks, rows * blocks, gl_NumWorkGroups.x * kBlocks, 0);
}
