// SPDX-License-Identifier: Apache-2.0
// y[b][t] = entry x[b][t] of w, a column or a row, or (BACKWARD) that entry of dw + dy[b][t] for b, then t ascending:
// there a thread has one feature and walks the tokens.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "weights.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 1) const bool BACKWARD = false;
layout(constant_id = 2) const bool BY_ROW = false;  // entries are rows of w
// y is dy when backward
#include "move_operands.inc"
#define WEFT_OPERANDS WEFT_EMBEDDING_OPERANDS
#include "operands.glsl"

// `columns`: entries, as a float.
uint entry_of(float index) {
  if (!(index >= 1.0)) return 0;
  return index >= columns ? (BY_ROW ? outputs : inputs) - 1 : uint(index);
}
uint features() { return BY_ROW ? inputs : outputs; }

float value(uint k, uint o) {
  Weight weights = Weight(w, scales, zero_points, inputs);
  // Moves.
  if (DTYPE == kFloat32) return Floats(w + (uint64_t(o / 16) * inputs + k) * 64ul).at[o % 16];
  if (DTYPE == kBfloat16) return from_bits(code_quad(weights, o / 16, k, o % 16 / 4)[o % 4] << 16);
  return weight_at(weights, o / 16, k, o % 16);
}

void forward() {
  uint n = features(), wide = tokens * n, count = rows * wide;
  for (uint i = item(); i < count; i += items()) {
    uint b = i / wide, j = i - b * wide, t = j / n, entry = entry_of(row_at(x, b, x_stride).at[t]), feature = j - t * n;
    row_at(y, b, y_stride).at[j] = BY_ROW ? value(feature, entry) : value(entry, feature);
  }
}

void backward() {
  for (uint i = item(); i < features(); i += items())
    for (uint b = 0; b < rows; ++b)
      for (uint t = 0; t < tokens; ++t) {
        uint entry = entry_of(row_at(x, b, x_stride).at[t]);
        if (entry == skipped) continue;
        uint o = BY_ROW ? entry : i, k = BY_ROW ? i : entry;
        Floats to = Floats(w + ((uint64_t(o / 16) * inputs + k) * 16ul + o % 16) * 4ul);
        to.at[0] = add(flushed(to.at[0]), flushed(row_at(y, b, y_stride).at[t * features() + i]));
      }
}

void main() {
  if (!load_operands()) return;
  if (BACKWARD)
    backward();
  else
    forward();
}
