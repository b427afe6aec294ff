// SPDX-License-Identifier: Apache-2.0
// y[b][t] = column x[b][t] of w, or (BACKWARD) dw[:, x[b][t]] + dy[b][t] for b, then t ascending: there a thread has
// one feature and walks the tokens.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "weights.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 1) const bool BACKWARD = false;
// y is dy when backward
#include "move_operands.inc"
#define WEFT_OPERANDS WEFT_EMBEDDING_OPERANDS
#include "operands.glsl"

uint column_of(float index) {
  if (!(index >= 1.0)) return 0;
  return index >= columns ? inputs - 1 : uint(index);
}

float value(uint k, uint o) {
  Weight weights = Weight(w, scales, zero_points, inputs);
  // Moves.
  if (DTYPE == kFloat32) return Floats(w + (uint64_t(o / 16) * inputs + k) * 64ul).at[o % 16];
  if (DTYPE == kBfloat16) return from_bits(code_quad(weights, o / 16, k, o % 16 / 4)[o % 4] << 16);
  return weight_at(weights, o / 16, k, o % 16);
}

void forward() {
  uint wide = tokens * outputs, count = rows * wide;
  for (uint n = item(); n < count; n += items()) {
    uint b = n / wide, j = n - b * wide, t = j / outputs;
    row_at(y, b, y_stride).at[j] = value(column_of(row_at(x, b, x_stride).at[t]), j - t * outputs);
  }
}

void backward() {
  for (uint o = item(); o < outputs; o += items())
    for (uint b = 0; b < rows; ++b)
      for (uint t = 0; t < tokens; ++t) {
        uint k = column_of(row_at(x, b, x_stride).at[t]);
        if (k == skipped) continue;
        Floats to = Floats(w + ((uint64_t(o / 16) * inputs + k) * 16ul + o % 16) * 4ul);
        to.at[0] = add(flushed(to.at[0]), flushed(row_at(y, b, y_stride).at[t * outputs + o]));
      }
}

void main() {
  if (!load_operands()) return;
  if (BACKWARD)
    backward();
  else
    forward();
}
