// SPDX-License-Identifier: Apache-2.0
// Sums down columns, rows ascending, from what stands there: column sums, and the gradients of norms' gains and biases.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "memory.glsl"

layout(local_size_x = 128) in;
const uint kSums = 0, kRmsNorm = 1, kLayerNorm = 2;
layout(constant_id = 1) const uint OPERATION = kSums;
layout(push_constant) uniform Operands {
  uint64_t x, dy, mean, scale, dgain, dbias;
  uint rows, cols, x_stride, dy_stride;
};

void main() {
  for (uint j = gl_GlobalInvocationID.x; j < cols; j += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    float gain = 0.0, bias = 0.0;
    if (dgain != 0ul) gain = flushed(Floats(dgain).at[j]);
    if (dbias != 0ul) bias = flushed(Floats(dbias).at[j]);
    for (uint b = 0; b < rows; ++b) {
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
