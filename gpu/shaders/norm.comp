// SPDX-License-Identifier: Apache-2.0
// RMS and layer norm (LAYER), forward and backward to their input. Gains' gradients: columns.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lanes.glsl"

layout(constant_id = 1) const bool LAYER = false;
layout(constant_id = 2) const bool BACKWARD = false;
#include "norm_operands.inc"
#define WEFT_OPERANDS WEFT_NORM_OPERANDS
#include "operands.glsl"

float gain_at(uint j) { return flushed(Floats(gain).at[j]); }

layout(constant_id = 3) const uint AT_ONCE = 8;
const uint kAtOnce = AT_ONCE;  // loads that are under way together
// Elements of the row from `first` on, a lane's: those of others, once more, where the row is at its end.
#define WEFT_ASK(first) \
  WEFT_UNROLL for (uint k = 0; k < kAtOnce; ++k) loaded[k] = from.at[min(first + k * 64, cols - 1)];

void forward(uint i, bool stores) {
  Floats from = row_at(x, i, x_stride);
  float sum = 0.0, centre = 0.0, loaded[kAtOnce];
  if (LAYER) {
    for (uint first = lane(); first < cols; first += kAtOnce * 64) {
      WEFT_ASK(first)
      WEFT_UNROLL for (uint k = 0; k < kAtOnce; ++k)
        if (first + k * 64 < cols) sum = add(sum, flushed(loaded[k]));
    }
    centre = divide(fold_lanes(sum), count);
    sum = 0.0;
  }
  for (uint first = lane(); first < cols; first += kAtOnce * 64) {
    WEFT_ASK(first)
    WEFT_UNROLL for (uint k = 0; k < kAtOnce; ++k) {
      float v = flushed(loaded[k]);
      if (LAYER) v = sub(v, centre);
      if (first + k * 64 < cols) sum = fused(v, v, sum);
    }
  }
  float factor = inverse_root(add(divide(fold_lanes(sum), count), flushed(epsilon)));
  if (!stores) return;
  Floats to = row_at(y, i, y_stride);
  for (uint first = lane(); first < cols; first += kAtOnce * 64) {
    float gains[kAtOnce], biases[kAtOnce];
    WEFT_ASK(first)
    WEFT_UNROLL for (uint k = 0; k < kAtOnce; ++k) {
      uint j = min(first + k * 64, cols - 1);
      gains[k] = gain != 0ul ? gain_at(j) : 1.0;
      biases[k] = LAYER && bias != 0ul ? flushed(Floats(bias).at[j]) : 0.0;
    }
    WEFT_UNROLL for (uint k = 0; k < kAtOnce; ++k) {
      float normal = flushed(loaded[k]);
      if (LAYER) normal = sub(normal, centre);
      normal = mul(normal, factor);
      if (gain != 0ul && LAYER && bias != 0ul)
        normal = fused(normal, gains[k], biases[k]);
      else if (gain != 0ul)
        normal = mul(normal, gains[k]);
      else if (LAYER && bias != 0ul)
        normal = add(normal, biases[k]);
      if (first + k * 64 < cols) to.at[first + k * 64] = normal;
    }
  }
  if (lane() == 0) {
    Floats(scale).at[i] = factor;
    if (LAYER) Floats(mean).at[i] = centre;
  }
}

void backward(uint i, bool stores) {
  Floats from = row_at(x, i, x_stride), up = row_at(dy, i, dy_stride);
  float factor = flushed(Floats(scale).at[i]), centre = 0.0;
  if (LAYER) centre = flushed(Floats(mean).at[i]);
  float shift = 0.0, projection = 0.0;
  for (uint j = lane(); j < cols; j += 64) {
    float g = flushed(up.at[j]), normal = flushed(from.at[j]);
    if (gain != 0ul) g = mul(g, gain_at(j));
    if (LAYER) normal = sub(normal, centre);
    shift = add(shift, g);
    projection = fused(g, mul(normal, factor), projection);
  }
  projection = divide(fold_lanes(projection), count);
  if (LAYER) shift = divide(fold_lanes(shift), count);
  if (!stores) return;
  Floats to = row_at(y, i, y_stride);
  for (uint j = lane(); j < cols; j += 64) {
    float g = flushed(up.at[j]), normal = flushed(from.at[j]);
    if (gain != 0ul) g = mul(g, gain_at(j));
    if (LAYER) {
      normal = sub(normal, centre);
      g = sub(g, shift);
    }
    to.at[j] = mul(fused(negated(mul(normal, factor)), projection, g), factor);
  }
}

void main() {
  load_operands();
  FOR_EACH_ROW(first) {
    uint i = row_of(first);
    if (BACKWARD)
      backward(min(i, rows - 1), i < rows);
    else
      forward(min(i, rows - 1), i < rows);
  }
}
