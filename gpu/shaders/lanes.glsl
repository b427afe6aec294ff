// SPDX-License-Identifier: Apache-2.0
// Rule R2: a row's elements go to 64 strided lanes, which are then folded by halves. A group has 64 lanes of 4 rows (of 2
// on a device with small groups); thread (lane, row) walks its elements: for (uint j = lane(); j < cols; j += 64) sum =
// fused(a, b, sum), from +0.
#ifndef WEFT_LANES
#define WEFT_LANES

#include "functions.glsl"
#include "memory.glsl"

layout(local_size_x = 64, local_size_y = 4, local_size_y_id = 13) in;
const uint kRows = gl_WorkGroupSize.y, kMostRows = 4;
shared float lane_values[kMostRows][64];

uint lane() { return gl_LocalInvocationID.x; }
// Rows of this group: FOR_EACH_ROW(i) runs a block for each, the same number of times in all threads; `i` may be past
// the end, when is_row(i) is false: such a thread computes of row 0 and stores nothing.
#define FOR_EACH_ROW(first) \
  for (uint first = gl_WorkGroupID.x * kRows; first < rows; first += gl_NumWorkGroups.x * kRows)
uint row_of(uint first) { return first + gl_LocalInvocationID.y; }

#define WEFT_FOLD(name, combine)                                                    \
  float name(float v) {                                                             \
    uint l = gl_LocalInvocationID.x, r = gl_LocalInvocationID.y;                    \
    barrier();                                                                      \
    lane_values[r][l] = v;                                                          \
    barrier();                                                                      \
    for (uint reach = 32; reach > 0; reach /= 2) {                                  \
      if (l < reach) lane_values[r][l] = combine(lane_values[r][l], lane_values[r][l + reach]); \
      barrier();                                                                    \
    }                                                                               \
    return lane_values[r][0];                                                       \
  }
// The lanes' sum, in every thread of the row.
WEFT_FOLD(fold_lanes, add)
// The largest; a NaN never wins.
float larger(float largest, float x) { return x > largest ? x : largest; }
WEFT_FOLD(fold_largest, larger)

// The largest number of a row of `cols`; -inf where there is none.
float row_maximum(Floats row, uint cols) {
  float largest = -INFINITY;
  for (uint j = lane(); j < cols; j += 64) largest = larger(largest, flushed(row.at[j]));
  return fold_largest(largest);
}

#endif  // WEFT_LANES
