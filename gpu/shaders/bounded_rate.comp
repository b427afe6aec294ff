// SPDX-License-Identifier: Apache-2.0
// The rate of a bounded step, as kernels/trace.cpp makes it: in binary64, rounded once.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"
#include "binary64.glsl"

layout(local_size_x = 64) in;
#include "trace_operands.inc"
WEFT_SIGNAL_NUMBERS(WEFT_NUMBER)
#define WEFT_OPERANDS WEFT_BOUNDED_RATE_OPERANDS
#include "operands.glsl"

// The larger of x and 1; a NaN stays.
uint64_t at_least_one64(uint64_t x) {
  if (is_nan64(x)) return x;
  return (x & kSign64) != 0ul || x < kOne64 ? kOne64 : x;
}
uint64_t number64(uint place) { return widened(Words(signal).at[place]); }

void main() {
  if (!load_operands() || item() != 0) return;
  uint64_t norm = 0ul;
  uint at = 0;
  [[dont_unroll]] for (uint layer = 0; layer < layers; ++layer) {
    float own = 0.0;
    [[dont_unroll]] for (uint end = at + Words(counts).at[layer]; at < end; ++at)
      own = add(own, flushed(Floats(sums).at[at]));
    norm = add64(norm, widened(bits(own)));
  }
  uint64_t most = widened(bits(rate)), error = number64(kSignalError);
  uint64_t bounded = mul64(mul64(mul64(most, number64(kSignalBound)), at_least_one64(error & ~kSign64)), norm);
  Words(factors).at[0] = narrowed(mul64(divide64(most, at_least_one64(bounded)), error));
  Floats(factors).at[1] = 1.0;
  Floats(factors).at[2] = 1.0;
}
