// SPDX-License-Identifier: Apache-2.0
// Counts a step of AdamW and makes its corrections, 1 - beta^step, as kernels/optimizer.cpp does: in binary64, rounded
// once. Nothing is counted while the word at `skip` is not 0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"
#include "binary64.glsl"

layout(local_size_x = 64) in;
#define WEFT_OPERANDS(X)                                        \
  X(uint64_t, step_count) X(uint64_t, corrections) X(uint64_t, skip) \
  X(float, beta1) X(float, beta2)
#include "operands.glsl"
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Counts { uint64_t at[]; };

uint64_t power64(uint64_t square, uint64_t exponent) {
  uint64_t product = kOne64;
  [[dont_unroll]] for (; exponent != 0ul; exponent >>= 1) {
    if ((exponent & 1ul) != 0ul) product = mul64(product, square);
    square = mul64(square, square);
  }
  return product;
}

void main() {
  if (!load_operands() || item() != 0) return;
  if (skip != 0ul && Words(skip).at[0] != 0) return;
  uint64_t count = Counts(step_count).at[0] + 1ul;
  Counts(step_count).at[0] = count;
  [[dont_unroll]] for (uint i = 0; i < 2; ++i) {
    uint64_t power = power64(widened(floatBitsToUint(i == 0 ? beta1 : beta2)), count);
    Words(corrections).at[i] = narrowed(add64(kOne64, negated64(power)));
  }
}
