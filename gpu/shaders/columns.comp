// SPDX-License-Identifier: Apache-2.0
// Sums down columns, rows ascending, from what stands there: column sums, and the gradients of norms' gains and biases.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 128) in;
const uint kAhead = 64;
const uint kSums = 0, kRmsNorm = 1, kLayerNorm = 2;
layout(constant_id = 1) const uint OPERATION = kSums;
#include "rows_operands.inc"
#define WEFT_OPERANDS WEFT_COLUMNS_OPERANDS
#include "operands.glsl"

void main() {
  if (!load_operands()) return;
  for (uint j = item(); j < cols; j += items()) {
    float gain = 0.0, bias = 0.0;
    if (dgain != 0ul) gain = flushed(Floats(dgain).at[j]);
    if (dbias != 0ul) bias = flushed(Floats(dbias).at[j]);
    uint b = 0;
    if (OPERATION == kSums)
      for (; b + kAhead <= rows; b += kAhead) {  // the sum is serial; its loads need not be
        float ups[kAhead];
        [[unroll]] for (uint i = 0; i < kAhead; ++i) ups[i] = row_at(dy, b + i, dy_stride).at[j];
        WEFT_UNROLL for (uint i = 0; i < kAhead; ++i) bias = add(bias, flushed(ups[i]));
      }
    for (; b < rows; ++b) {
      float up = flushed(row_at(dy, b, dy_stride).at[j]);
      bias = add(bias, up);
      if (OPERATION != kSums && dgain != 0ul) {
        float normal = flushed(row_at(x, b, x_stride).at[j]);
        if (OPERATION == kLayerNorm) normal = sub(normal, flushed(Floats(mean).at[b]));
        gain = fused(up, mul(normal, flushed(Floats(scale).at[b])), gain);
      }
    }
    if (dgain != 0ul) Floats(dgain).at[j] = gain;
    if (dbias != 0ul) Floats(dbias).at[j] = bias;
  }
}
