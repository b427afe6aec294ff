// SPDX-License-Identifier: Apache-2.0
// What all forms of a linear layer are given, and what they do once a sum is there.
#ifndef WEFT_LINEAR_OPERANDS
#define WEFT_LINEAR_OPERANDS

#include "activations.glsl"
#include "weights.glsl"

// x_scales: of quantised rows. noted: 0, or a word that gets the bits `note` where an output is not finite.
#define WEFT_OPERANDS(X)                                                                                       \
  X(uint64_t, w) X(uint64_t, scales) X(uint64_t, zeros) X(uint64_t, bias) X(uint64_t, x) X(uint64_t, x_scales) \
  X(uint64_t, z) X(uint64_t, y) X(uint64_t, noted)                                                             \
  X(uint, outputs) X(uint, inputs) X(uint, rows) X(uint, x_stride) X(uint, z_stride) X(uint, y_stride)         \
  X(uint, note)
#include "operands.glsl"
layout(constant_id = 3) const bool ALIGNED = false;  // bias, x, z and y, every row, stand at multiples of 16 bytes
const uint kChunk = 64;
Weight weight() { return Weight(w, scales, zeros, inputs); }

// The biases of four outputs, to be asked for early; 0 where there is none.
vec4 bias_quad(uint output_) {
  vec4 biases = vec4(0.0);
  if (bias == 0ul) return biases;
  if (ALIGNED && output_ + 4 <= outputs) return operand(Quads(bias).at[output_ / 4]);
  for (uint i = 0; i < 4; ++i)
    if (output_ + i < outputs) biases[i] = Floats(bias).at[output_ + i];
  return operand(biases);
}

void note_not_finite(vec4 values) {
  if (noted != 0ul && !are_finite(values)) atomicOr(Words(noted).at[0], note);
}

// Adds the biases, stores z and the activation of it.
void finish(vec4 total, vec4 biases, uint row, uint output_) {
  vec4 activated;
  if (bias != 0ul) total = add(total, biases);
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) activated[i] = activate(total[i]);
  if (ALIGNED && output_ + 4 <= outputs) {
    note_not_finite(activated);
    if (z != 0ul) Quads(z + uint64_t(row) * z_stride * 4ul).at[output_ / 4] = total;
    Quads(y + uint64_t(row) * y_stride * 4ul).at[output_ / 4] = activated;
    return;
  }
  for (uint i = 0; i < 4; ++i) {
    uint o = output_ + i;
    if (o >= outputs) break;
    note_not_finite(vec4(activated[i], 0.0, 0.0, 0.0));
    if (z != 0ul) row_at(z, row, z_stride).at[o] = total[i];
    row_at(y, row, y_stride).at[o] = activated[i];
  }
}

#endif  // WEFT_LINEAR_OPERANDS
