// SPDX-License-Identifier: Apache-2.0
// What all forms of a linear layer are given, and what they do once a sum is there.
#ifndef WEFT_LINEAR_OPERANDS
#define WEFT_LINEAR_OPERANDS

#include "activations.glsl"
#include "weights.glsl"

// x_scales: of quantised rows
#define WEFT_OPERANDS(X)                                                                                       \
  X(uint64_t, w) X(uint64_t, scales) X(uint64_t, zeros) X(uint64_t, bias) X(uint64_t, x) X(uint64_t, x_scales) \
  X(uint64_t, z) X(uint64_t, y)                                                                                \
  X(uint, outputs) X(uint, inputs) X(uint, rows) X(uint, x_stride) X(uint, z_stride) X(uint, y_stride)
#include "operands.glsl"
const uint kChunk = 64;
Weight weight() { return Weight(w, scales, zeros, inputs); }

void finish(vec4 total, uint row, uint output_) {
  WEFT_UNROLL for (uint i = 0; i < 4; ++i) {
    uint o = output_ + i;
    if (o >= outputs) break;
    float sum = total[i];
    if (bias != 0ul) sum = add(sum, operand(Floats(bias).at[o]));
    if (z != 0ul) row_at(z, row, z_stride).at[o] = sum;
    row_at(y, row, y_stride).at[o] = activate(sum);
  }
}

#endif  // WEFT_LINEAR_OPERANDS
