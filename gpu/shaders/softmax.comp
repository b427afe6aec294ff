// SPDX-License-Identifier: Apache-2.0
// Softmax, log softmax and cross-entropy, forward and backward.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lanes.glsl"

#include "softmax_operands.inc"
WEFT_SOFTMAX_NUMBERS(WEFT_NUMBER)
layout(constant_id = 1) const uint OPERATION = kSoftmax;
// beside: dbase of the logarithm, loss of the cross-entropy, whose labels are base
#define WEFT_OPERANDS WEFT_SOFTMAX_OPERANDS
#include "operands.glsl"

// y = exp((x - largest) / temperature); their sum by R2.
float exponentials(Floats from, Floats to, float largest, bool stores) {
  float sum = 0.0;
  for (uint j = lane(); j < cols; j += 64) {
    float v = sub(flushed(from.at[j]), largest);
    if (temperature != 1.0) v = divide(v, flushed(temperature));
    v = exact_exp(v);
    sum = add(sum, v);
    if (stores) to.at[j] = v;
  }
  return fold_lanes(sum);
}

void softmax(uint i, bool stores) {
  Floats from = row_at(x, i, x_stride), to = row_at(y, i, y_stride);
  float sum = exponentials(from, to, row_maximum(from, cols), stores);
  if (stores)
    for (uint j = lane(); j < cols; j += 64) to.at[j] = divide(to.at[j], sum);
}

void softmax_backward(uint i, bool stores) {
  Floats p = row_at(x, i, x_stride), up = row_at(dy, i, dy_stride), to = row_at(y, i, y_stride);
  float mean = 0.0;
  for (uint j = lane(); j < cols; j += 64) mean = fused(flushed(p.at[j]), flushed(up.at[j]), mean);
  mean = fold_lanes(mean);
  if (stores)
    for (uint j = lane(); j < cols; j += 64)
      to.at[j] = divide(mul(flushed(p.at[j]), sub(flushed(up.at[j]), mean)), flushed(temperature));
}

void log_softmax(uint i, bool stores) {
  Floats from = row_at(x, i, x_stride), to = row_at(y, i, y_stride);
  float largest = row_maximum(from, cols), sum = 0.0;
  for (uint j = lane(); j < cols; j += 64) sum = add(sum, exact_exp(sub(flushed(from.at[j]), largest)));
  float log_sum = exact_log(fold_lanes(sum));
  if (!stores) return;
  for (uint j = lane(); j < cols; j += 64) {
    float v = sub(sub(flushed(from.at[j]), largest), log_sum);
    to.at[j] = base != 0ul ? add(v, flushed(row_at(base, i, base_stride).at[0])) : v;
  }
}

void log_softmax_backward(uint i, bool stores) {
  Floats value = row_at(x, i, x_stride), up = row_at(dy, i, dy_stride), to = row_at(y, i, y_stride);
  float shift = 0.0, total = 0.0;
  if (base != 0ul) shift = flushed(row_at(base, i, base_stride).at[0]);
  for (uint j = lane(); j < cols; j += 64) total = add(total, flushed(up.at[j]));
  total = fold_lanes(total);
  if (!stores) return;
  for (uint j = lane(); j < cols; j += 64)
    to.at[j] = fused(negated(exact_exp(sub(flushed(value.at[j]), shift))), total, flushed(up.at[j]));
  if (lane() == 0 && beside != 0ul) {
    Floats sum = row_at(beside, i, beside_stride);
    sum.at[0] = add(flushed(sum.at[0]), total);
  }
}

void cross_entropy(uint i, bool stores) {
  Floats from = row_at(x, i, x_stride), to = row_at(y, i, y_stride);
  uint label = Words(base).at[i];
  float labelled = flushed(from.at[label]);
  float largest = row_maximum(from, cols);
  memoryBarrierBuffer();  // y may be x: all have read their label's place before one writes it
  barrier();
  float sum = exponentials(from, to, largest, stores);
  if (!stores) return;
  for (uint j = lane(); j < cols; j += 64) {
    float p = divide(to.at[j], sum);
    to.at[j] = j == label ? sub(p, 1.0) : p;
  }
  if (lane() == 0 && beside != 0ul) Floats(beside).at[i] = sub(exact_log(sum), sub(labelled, largest));
}

void main() {
  load_operands();
  FOR_EACH_ROW(first) {
    uint i = min(row_of(first), rows - 1);
    bool stores = row_of(first) < rows;
    if (OPERATION == kSoftmax)
      softmax(i, stores);
    else if (OPERATION == kSoftmaxBackward)
      softmax_backward(i, stores);
    else if (OPERATION == kLogSoftmax)
      log_softmax(i, stores);
    else if (OPERATION == kLogSoftmaxBackward)
      log_softmax_backward(i, stores);
    else
      cross_entropy(i, stores);
  }
}
