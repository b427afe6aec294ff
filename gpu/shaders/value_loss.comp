// SPDX-License-Identifier: Apache-2.0
// A loss of values and its slope, as kernels/loss.cpp computes them, by the formulas of kernels/formulas/losses/.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "activations.glsl"
#include "lanes.glsl"

layout(constant_id = 2) const uint LOSS = 0;
#include "learning_operands.inc"
#define WEFT_OPERANDS WEFT_VALUE_LOSS_OPERANDS
#include "operands.glsl"

#define WEFT_LOSS_FORMULAS
#include "kernels/formulas/losses.def"
#undef WEFT_LOSS_FORMULAS

float loss_sum(float sum, float from, float want) {
#define WEFT_VALUE_LOSS(number, name) \
  if (LOSS == number) return loss_sum_##name(sum, from, want, setting);
#include "kernels/formulas/losses.def"
#undef WEFT_VALUE_LOSS
  return NAN;
}
float loss_slope(float from, float want) {
#define WEFT_VALUE_LOSS(number, name) \
  if (LOSS == number) return loss_slope_##name(from, want, setting);
#include "kernels/formulas/losses.def"
#undef WEFT_VALUE_LOSS
  return NAN;
}

void main() {
  load_operands();
  FOR_EACH_ROW(first) {
    uint i = min(row_of(first), rows - 1);
    Floats from = row_at(x, i, x_stride), want = row_at(target, i, target_stride), to = row_at(dx, i, dx_stride);
    float sum = 0.0;
    for (uint j = lane(); j < cols; j += 64) sum = loss_sum(sum, flushed(from.at[j]), flushed(want.at[j]));
    sum = fold_lanes(sum);
    if (row_of(first) < rows) {
      for (uint j = lane(); j < cols; j += 64)
        to.at[j] = divide(loss_slope(flushed(from.at[j]), flushed(want.at[j])), count);
      if (lane() == 0 && loss != 0ul) Floats(loss).at[i] = divide(sum, count);
    }
  }
}
