// SPDX-License-Identifier: Apache-2.0
// y = activation(x), or dx = dy activation'(v).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "activations.glsl"
#include "memory.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const bool BACKWARD = false;
// x is v when backward
#define WEFT_OPERANDS(X)                                                             \
  X(uint64_t, x) X(uint64_t, dy) X(uint64_t, y)                                      \
  X(uint, rows) X(uint, cols) X(uint, x_stride) X(uint, dy_stride) X(uint, y_stride)
#include "operands.glsl"

float loaded(uint64_t matrix, uint i, uint j, uint stride) {
  float v = row_at(matrix, i, stride).at[j];
  return ACTIVATION == kLinear ? v : flushed(v);
}

void main() {
  if (!load_operands()) return;
  uint count = rows * cols;
  for (uint e = item(); e < count; e += items()) {
    uint i = e / cols, j = e - i * cols;
    float to;
    if (!BACKWARD)
      to = activate(loaded(x, i, j, x_stride));
    else if (ACTIVATION == kLinear)
      to = loaded(dy, i, j, dy_stride);
    else
      to = activate_backward(loaded(x, i, j, x_stride), loaded(dy, i, j, dy_stride));
    row_at(y, i, y_stride).at[j] = to;
  }
}
