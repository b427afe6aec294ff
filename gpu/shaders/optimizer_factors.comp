// SPDX-License-Identifier: Apache-2.0
// Counts an update and makes the numbers that go with it, as kernels/optimizer.cpp does: the rate by a schedule's formula
// (kernels/formulas/), and 1 - beta^updates in binary64, rounded once. Nothing is counted while the word at `skip` is
// not 0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "functions.glsl"
#include "memory.glsl"
#include "binary64.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 1) const uint SCHEDULE = 0;
#include "learning_operands.inc"
#define WEFT_OPERANDS WEFT_OPTIMIZER_FACTORS_OPERANDS
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

float ratio(uint a, uint b) {
  return from_bits(narrowed(divide64(integer64(0ul, uint64_t(a)), integer64(0ul, uint64_t(b)))));
}
float power_share(float base, uint n) {
  return from_bits(narrowed(power64(widened(bits(base)), uint64_t(n))));
}

struct RateSettings {
  uint warmup, updates, growth;
  float end, factor, power;
};
#include "kernels/formulas/rate.inc"

void main() {
  if (!load_operands() || item() != 0) return;
  if (skip != 0ul && Words(skip).at[0] != 0) return;
  RateSettings s;
  s.warmup = warmup;
  s.updates = period;
  s.growth = growth;
  s.end = end;
  s.factor = factor;
  s.power = power;
  uint64_t before = Counts(updates).at[0], count = before + 1ul;
  Counts(updates).at[0] = count;
  uint n = before > 0xfffffffful ? 0xffffffffu : uint(before);
  Floats(factors).at[0] = mul(rate, share_of_rate(SCHEDULE, n, s));
  [[dont_unroll]] for (uint i = 0; i < 2; ++i) {
    uint64_t gone = power64(widened(floatBitsToUint(i == 0 ? beta1 : beta2)), count);
    Words(factors).at[i + 1] = narrowed(add64(kOne64, negated64(gone)));
  }
}
