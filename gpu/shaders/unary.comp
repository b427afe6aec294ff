// SPDX-License-Identifier: Apache-2.0
// y = activation(x), or dx = dy activation'(v).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "activations.glsl"
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
layout(constant_id = 2) const bool BACKWARD = false;
layout(constant_id = 3) const bool QUADS = false;  // one row of whole quads, all aligned
// x is v when backward
#include "elementwise_operands.inc"
#define WEFT_OPERANDS WEFT_UNARY_OPERANDS
#include "operands.glsl"

float loaded(float v) { return ACTIVATION == kActivation_linear ? v : flushed(v); }
// Of what stands in x and dy.
float result(float from_x, float from_dy) {
  if (!BACKWARD) return activate(loaded(from_x));
  if (ACTIVATION == kActivation_linear) return from_dy;
  return activate_backward(loaded(from_x), loaded(from_dy));
}
const bool kReadsX = !BACKWARD || ACTIVATION != kActivation_linear;

void main() {
  if (!load_operands()) return;
  if (QUADS) {
    for (uint e = item(); e < cols / 4; e += items()) {
      vec4 from_x = kReadsX ? Quads(x).at[e] : vec4(0.0), from_dy = BACKWARD ? Quads(dy).at[e] : vec4(0.0), to;
      WEFT_UNROLL for (uint k = 0; k < 4; ++k) to[k] = result(from_x[k], from_dy[k]);
      Quads(y).at[e] = to;
    }
    return;
  }
  uint count = rows * cols;
  for (uint e = item(); e < count; e += items()) {
    uint i = rows == 1 ? 0 : e / cols, j = e - i * cols;
    float from_x = kReadsX ? row_at(x, i, x_stride).at[j] : 0.0, from_dy = BACKWARD ? row_at(dy, i, dy_stride).at[j] : 0.0;
    row_at(y, i, y_stride).at[j] = result(from_x, from_dy);
  }
}
