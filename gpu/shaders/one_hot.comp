// SPDX-License-Identifier: Apache-2.0
// Rows of zeros but for one value at their labels. In bits: no arithmetic.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
// `first`: the row's element that y's first column is.
#include "learning_operands.inc"
#define WEFT_OPERANDS WEFT_ONE_HOT_OPERANDS
#include "operands.glsl"

void main() {
  if (!load_operands()) return;
  uint count = rows * cols;
  for (uint e = item(); e < count; e += items()) {
    uint i = e / cols, j = e - i * cols;
    row_at(y, i, y_stride).at[j] = Words(labels).at[i] == first + j ? value : 0.0;
  }
}
