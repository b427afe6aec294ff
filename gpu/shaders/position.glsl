// SPDX-License-Identifier: Apache-2.0
// Numbers of 48 bits kept in two floats, integers of 24 bits, the low one first (kernels/internal/position.hpp).
#ifndef WEFT_POSITION
#define WEFT_POSITION

#include "exact.glsl"
#include "memory.glsl"

uint64_t position_digit(float v) { return v >= 0.0 && v < 16777216.0 ? uint64_t(uint(v)) : 0ul; }
uint64_t read_position(Floats from, uint at) {
  return position_digit(flushed(from.at[at])) | position_digit(flushed(from.at[at + 1])) << 24;
}

#endif  // WEFT_POSITION
