// SPDX-License-Identifier: Apache-2.0
// Operands of all forms of a linear layer, and the steps after a sum. With WEFT_GATED it is a gated pair of
// them (kernels/gated_linear.hpp): panel p of matrix m, 0 the gate and 1 the other branch, is panel 2 p + m of one layer that
// has both, so that the two sums of a product are in one group.
#ifndef WEFT_LINEAR_SUMS
#define WEFT_LINEAR_SUMS

#include "activations.glsl"
#include "linear_operands.inc"
#include "weights.glsl"

#ifdef WEFT_GATED
// ..._to_up: how far behind the gate's the other branch's stand: cells a step apart agree on it. x_scales: of quantised
// rows. y: four blocks of `outputs` side by side.
#define WEFT_OPERANDS WEFT_GATED_OPERANDS
const uint kMatrices = 2;
#else
// x_scales: of quantised rows. flag_word: 0, or a word that gets the bits `flag_bits` where an output is not finite.
#define WEFT_OPERANDS WEFT_LINEAR_OPERANDS
const uint kMatrices = 1;
#endif
#include "operands.glsl"
layout(constant_id = 3) const bool ALIGNED = false;  // bias, x, z and y, every row, stand at multiples of 16 bytes
#ifdef WEFT_JOINED
// Of few rows: what stands before the layer and behind it, done by each group. Bits: 1: x is normed (root mean square;
// x_scales: its gains, beside: the bits of its epsilon); 2: z is the sum of y and of what x_scales holds, rows `beside`
// apart; 4: codes of a row have one scale; 8: x holds codes already; from 256 on: rows that a thread sums at once, each
// weight for all.
layout(constant_id = 4) const uint JOINED = 0;
const bool kNorms = (JOINED & 1u) != 0u, kAdds = (JOINED & 2u) != 0u, kHasRowScale = (JOINED & 4u) != 0u,
           kHasCodes = (JOINED & 8u) != 0u;
const uint kRows = JOINED < 512u ? 1 : JOINED / 256u;
layout(constant_id = 7) const uint ROW_QUADS = 1;  // 16 bytes each: of the row that a group keeps
#endif
const uint kChunk = 64;

#ifdef WEFT_GATED
Weight weight(uint m) {
  return m == 0 ? Weight(w, scales, zero_points, inputs)
                : Weight(w + w_to_up, scales + scales_to_up, zero_points + zero_points_to_up, inputs);
}
uint64_t bias_of(uint m) { return m == 0 ? bias : bias + bias_to_up; }
#else
Weight weight(uint m) { return Weight(w, scales, zero_points, inputs); }
uint64_t bias_of(uint m) { return bias; }
#endif

// The biases of four outputs, to be loaded early; 0 where there is none.
vec4 bias_quad(uint m, uint output_) {
  vec4 biases = vec4(0.0);
  if (bias == 0ul) return biases;
  if (ALIGNED && output_ + 4 <= outputs) return operand(Quads(bias_of(m)).at[output_ / 4]);
  for (uint i = 0; i < 4; ++i)
    if (output_ + i < outputs) biases[i] = Floats(bias_of(m)).at[output_ + i];
  return operand(biases);
}

#ifdef WEFT_GATED

void store(uint block, uint row, uint output_, vec4 values) {
  uint64_t to = y + (uint64_t(row) * y_stride + uint64_t(block) * outputs) * 4ul;
  if (ALIGNED && output_ + 4 <= outputs) {
    Quads(to).at[output_ / 4] = values;
    return;
  }
  for (uint i = 0; i < 4; ++i)
    if (output_ + i < outputs) Floats(to).at[output_ + i] = values[i];
}

// Adds the biases, stores the gate before and after its activation, and returns the latter.
vec4 finish_gate(vec4 total, vec4 biases, uint row, uint output_) {
  vec4 activated;
  if (bias != 0ul) total = add(total, biases);
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) activated[i] = activate(total[i]);
  store(0, row, output_, total);
  store(1, row, output_, activated);
  return activated;
}

// Adds the biases, stores the other branch and its product with the gate.
void finish_up(vec4 total, vec4 biases, vec4 gate, uint row, uint output_) {
  if (bias != 0ul) total = add(total, biases);
  store(2, row, output_, total);
  store(3, row, output_, vec4(mul(gate.x, total.x), mul(gate.y, total.y), mul(gate.z, total.z), mul(gate.w, total.w)));
}

#else

void flag_not_finite(vec4 values) {
  if (flag_word != 0ul && !are_finite(values)) atomicOr(Words(flag_word).at[0], flag_bits);
}

// Adds the biases, stores z and the activation of it.
void finish(vec4 total, vec4 biases, uint row, uint output_) {
  vec4 activated;
  if (bias != 0ul) total = add(total, biases);
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) activated[i] = activate(total[i]);
  if (ALIGNED && output_ + 4 <= outputs) {
    flag_not_finite(activated);
#ifdef WEFT_JOINED
    if (kAdds) {
      vec4 other = Quads(x_scales + uint64_t(row) * beside * 4ul).at[output_ / 4];
      WEFT_UNROLL for (uint i = 0; i < 4; ++i) total[i] = add(flushed(other[i]), flushed(activated[i]));
    }
#endif
    if (z != 0ul) Quads(z + uint64_t(row) * z_stride * 4ul).at[output_ / 4] = total;
    Quads(y + uint64_t(row) * y_stride * 4ul).at[output_ / 4] = activated;
    return;
  }
  for (uint i = 0; i < 4; ++i) {
    uint o = output_ + i;
    if (o >= outputs) break;
    flag_not_finite(vec4(activated[i], 0.0, 0.0, 0.0));
#ifdef WEFT_JOINED
    if (kAdds) total[i] = add(flushed(row_at(x_scales, row, beside).at[o]), flushed(activated[i]));
#endif
    if (z != 0ul) row_at(z, row, z_stride).at[o] = total[i];
    row_at(y, row, y_stride).at[o] = activated[i];
  }
}

#endif

#ifdef WEFT_JOINED
shared float norm_lanes[64];

// Factor of a row's elements, norm.comp's, by rule R2.
float norm_factor(uint row) {
  const uint kAtOnce = ROW_QUADS < 64 ? 8 : ROW_QUADS < 128 ? 16 : 32;  // loads that are under way together
  uint id = gl_LocalInvocationID.x;
  Floats from = row_at(x, row, x_stride);
  float sum = 0.0;
  for (uint first = id; id < 64 && first < inputs; first += kAtOnce * 64) {
    float v[kAtOnce];
    WEFT_UNROLL for (uint i = 0; i < kAtOnce; ++i) v[i] = from.at[min(first + i * 64, inputs - 1)];
    WEFT_UNROLL for (uint i = 0; i < kAtOnce; ++i)
      if (first + i * 64 < inputs) sum = fused(flushed(v[i]), flushed(v[i]), sum);
  }
  barrier();
  if (id < 64) norm_lanes[id] = sum;
  for (uint reach = 32; reach > 0; reach /= 2) {
    barrier();
    if (id < reach) norm_lanes[id] = add(norm_lanes[id], norm_lanes[id + reach]);
  }
  barrier();
  return inverse_root(add(divide(norm_lanes[0], float(inputs)), flushed(from_bits(beside))));
}
// An element of the row as the layer takes it.
float prepared(float own, float gain, float factor) {
  return kNorms ? mul(mul(flushed(own), factor), flushed(gain)) : flushed(own);
}
#endif

#endif  // WEFT_LINEAR_SUMS
