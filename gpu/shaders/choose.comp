// SPDX-License-Identifier: Apache-2.0
// One hot at the first of a row's largest, or the `most` largest of it. Comparisons alone; a NaN makes the row NaN.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lanes.glsl"

layout(constant_id = 1) const bool KEEP = false;
// x and y stand apart when KEEP.
#include "mixture_operands.inc"
#define WEFT_OPERANDS WEFT_CHOOSE_OPERANDS
#include "operands.glsl"
shared uint first_places[kMostRows];

// True when fewer than `most` come before element j: larger ones, and equal ones further ahead.
bool is_kept(Floats from, uint j) {
  float mine = flushed(from.at[j]);
  uint before = 0;
  for (uint i = 0; i < cols && before < most; ++i) {
    float other = flushed(from.at[i]);
    before += other > mine || other == mine && i < j ? 1 : 0;
  }
  return before < most;
}

void main() {
  load_operands();
  FOR_EACH_ROW(first) {
    uint i = min(row_of(first), rows - 1);
    bool stores = row_of(first) < rows;
    Floats from = row_at(x, i, x_stride), to = row_at(y, i, y_stride);
    float bad = 0.0;
    for (uint j = lane(); j < cols; j += 64) bad = is_nan(from.at[j]) ? 1.0 : bad;
    bad = fold_largest(bad);
    if (KEEP) {
      for (uint j = lane(); j < cols && stores; j += 64)
        to.at[j] = bad > 0.0 ? NAN : is_kept(from, j) ? from.at[j] : -INFINITY;
      continue;
    }
    float largest = row_maximum(from, cols);
    if (lane() == 0) first_places[gl_LocalInvocationID.y] = 0xffffffffu;
    barrier();
    for (uint j = lane(); j < cols; j += 64)
      if (flushed(from.at[j]) == largest) {
        atomicMin(first_places[gl_LocalInvocationID.y], j);
        break;
      }
    memoryBarrierBuffer();  // y may be x
    barrier();
    for (uint j = lane(); j < cols && stores; j += 64)
      to.at[j] = bad > 0.0 ? NAN : j == first_places[gl_LocalInvocationID.y] ? 1.0 : 0.0;
  }
}
