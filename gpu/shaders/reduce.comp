// SPDX-License-Identifier: Apache-2.0
// One number, or a few, of each row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lanes.glsl"

#include "rows_operands.inc"
WEFT_REDUCE_NUMBERS(WEFT_NUMBER)
layout(constant_id = 1) const uint OPERATION = kSums;
#define WEFT_OPERANDS WEFT_REDUCE_OPERANDS
#include "operands.glsl"

float dot_of(Floats x, Floats y) {
  float sum = 0.0;
  for (uint j = lane(); j < cols; j += 64) sum = fused(flushed(x.at[j]), flushed(y.at[j]), sum);
  return fold_lanes(sum);
}

float sum_of(Floats x) {
  float sum = 0.0;
  for (uint j = lane(); j < cols; j += 64) sum = add(sum, flushed(x.at[j]));
  return fold_lanes(sum);
}

float link_budget(Floats x, Floats t) {
  float norms = mul(root(dot_of(x, x)), root(dot_of(t, t)));
  float together = dot_of(x, t);
  float cosine = norms == 0.0 ? 0.0 : divide(together, norms);
  float budget = mul(add(cosine, 1.0), 0.5);
  return budget < kLeastBudget ? 0.0 : fused(0.5, budget, 0.5);
}

shared uint first_places[kMostRows];
uint argmax(Floats x) {
  float largest = row_maximum(x, cols);
  if (lane() == 0) first_places[gl_LocalInvocationID.y] = 0xffffffffu;
  barrier();
  for (uint j = lane(); j < cols; j += 64)
    if (flushed(x.at[j]) == largest) {
      atomicMin(first_places[gl_LocalInvocationID.y], j);
      break;
    }
  barrier();
  uint first = first_places[gl_LocalInvocationID.y];
  return first == 0xffffffffu ? 0u : first;
}

vec4 statistics(Floats x) {
  float mean = divide(sum_of(x), count);
  float apart = 0.0, lively = 0.0;
  for (uint j = lane(); j < cols; j += 64) {
    float v = flushed(x.at[j]), off = sub(v, mean);
    apart = fused(off, off, apart);
    lively = add(lively, magnitude_of(v) > flushed(threshold) ? 1.0 : 0.0);
  }
  apart = fold_lanes(apart);
  lively = fold_lanes(lively);
  return vec4(mean, root(divide(apart, count)), divide(lively, count), root(divide(dot_of(x, x), count)));
}

void main() {
  load_operands();
  FOR_EACH_ROW(first) {
    uint i = row_of(first);
    bool stores = i < rows && lane() == 0;
    Floats x = row_at(a, min(i, rows - 1), a_stride), y = row_at(b, min(i, rows - 1), b_stride);
    if (OPERATION == kSums) {
      float sum = sum_of(x);
      if (stores) Floats(s).at[i] = sum;
    } else if (OPERATION == kDots) {
      float sum = dot_of(x, y);
      if (stores) row_at(s, i, s_stride).at[0] = sum;
    } else if (OPERATION == kLinkBudget) {
      float factor = link_budget(x, y);
      if (stores) Floats(s).at[i] = factor;
    } else if (OPERATION == kArgmax) {
      uint place = argmax(x);
      if (stores) Words(s).at[i] = place;
    } else {
      vec4 of_row = statistics(x);
      if (stores)
        for (uint k = 0; k < 4; ++k) row_at(s, i, s_stride).at[k] = of_row[k];
    }
  }
}
