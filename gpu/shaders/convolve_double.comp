// SPDX-License-Identifier: Apache-2.0
// A convolution of binary64 weights: it sums in binary64, and rounds at last.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "wide.glsl"

#define Sum uint64_t
const uint64_t kNothing = 0ul;
uint64_t stepped(Weight w, uint o, uint k, float v, uint64_t sum) {
  return fused64(long_code(w, o / 16, k, o % 16), widened(bits(v)), sum);
}
uint64_t joined(uint64_t total, uint64_t sum) { return add64(total, sum); }
uint64_t as_sum(float v) { return widened(bits(v)); }
float as_float(uint64_t sum) { return from_bits(narrowed(sum)); }
#include "convolve.glsl"
