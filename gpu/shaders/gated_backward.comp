// SPDX-License-Identifier: Apache-2.0
// dup = dy gate, dgate = (dy up) activation'(v): the reverse of a gated pair's product and activation
// (kernels/gated_linear.hpp).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "activations.glsl"
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
layout(constant_id = 2) const bool QUADS = false;  // one row of whole quads, all aligned
// v, gate and up have rows v_stride apart.
#include "elementwise_operands.inc"
#define WEFT_OPERANDS WEFT_GATED_BACKWARD_OPERANDS
#include "operands.glsl"

float through_gate(float from_v, float from_up, float from_dy) {
  float d = mul(flushed(from_dy), flushed(from_up));
  return ACTIVATION == kActivation_linear ? d : activate_backward(flushed(from_v), d);
}

void main() {
  if (!load_operands()) return;
  if (QUADS) {
    for (uint e = item(); e < cols / 4; e += items()) {
      vec4 from_v = Quads(v).at[e], from_gate = Quads(gate).at[e], from_up = Quads(up).at[e], from_dy = Quads(dy).at[e];
      vec4 to_gate, to_up;
      WEFT_UNROLL for (uint k = 0; k < 4; ++k) {
        to_gate[k] = through_gate(from_v[k], from_up[k], from_dy[k]);
        to_up[k] = mul(flushed(from_dy[k]), flushed(from_gate[k]));
      }
      Quads(dgate).at[e] = to_gate;
      Quads(dup).at[e] = to_up;
    }
    return;
  }
  uint count = rows * cols;
  for (uint e = item(); e < count; e += items()) {
    uint i = rows == 1 ? 0 : e / cols, j = e - i * cols;
    float from_dy = row_at(dy, i, dy_stride).at[j];
    float to_up = mul(flushed(from_dy), flushed(row_at(gate, i, v_stride).at[j]));
    row_at(dgate, i, dgate_stride).at[j] =
        through_gate(row_at(v, i, v_stride).at[j], row_at(up, i, v_stride).at[j], from_dy);
    row_at(dup, i, dup_stride).at[j] = to_up;
  }
}
