// SPDX-License-Identifier: Apache-2.0
// loss = sum (x - target)^2 / n, dx = 2 (x - target) / n.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lanes.glsl"

#include "learning_operands.inc"
#define WEFT_OPERANDS WEFT_SQUARED_ERROR_OPERANDS
#include "operands.glsl"

void main() {
  load_operands();
  FOR_EACH_ROW(first) {
    uint i = min(row_of(first), rows - 1);
    Floats from = row_at(x, i, x_stride), want = row_at(target, i, target_stride), to = row_at(dx, i, dx_stride);
    float squares = 0.0;
    for (uint j = lane(); j < cols; j += 64) {
      float d = sub(flushed(from.at[j]), flushed(want.at[j]));
      squares = fused(d, d, squares);
    }
    squares = fold_lanes(squares);
    if (row_of(first) < rows) {
      for (uint j = lane(); j < cols; j += 64)
        to.at[j] = divide(mul(2.0, sub(flushed(from.at[j]), flushed(want.at[j]))), count);
      if (lane() == 0 && loss != 0ul) Floats(loss).at[i] = divide(squares, count);
    }
  }
}
