// SPDX-License-Identifier: Apache-2.0
// alpha-entmax of rows by bisection over the bits of its threshold, and its slope. docs/numerics.md, section 11.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lanes.glsl"

const uint kSparsemax = 0, kSquares = 1, kPower = 2;  // alpha 2, 1.5, any
layout(constant_id = 1) const uint KIND = kPower;
layout(constant_id = 2) const bool BACKWARD = false;
// backward: x is y, y is dx
#include "softmax_operands.inc"
#define WEFT_OPERANDS WEFT_ENTMAX_OPERANDS
#include "operands.glsl"

float above(float v) { return v <= 0.0 ? 0.0 : v; }
// s^(1/k), the largest y.
float largest_power(float s) { return exact_exp(divide(exact_log(s), k)); }
float power_above(float r, float s) {
  float u = divide(r, s), w = add(1.0, u);
  float p = exact_exp(divide(add(exact_log(w), divide(sub(u, sub(w, 1.0)), w)), k));
  return u <= -1.0 ? 0.0 : p;
}

// Sum of the elements at the threshold -s.
float sum_at(Floats r, float s) {
  float sum = 0.0;
  for (uint j = lane(); j < cols; j += 64) {
    float v = r.at[j];
    if (KIND == kPower) {
      sum = add(sum, power_above(v, s));
    } else {
      v = above(add(v, s));
      sum = KIND == kSparsemax ? add(sum, v) : fused(v, v, sum);
    }
  }
  sum = fold_lanes(sum);
  return KIND == kPower ? mul(largest_power(s), sum) : sum;
}

// The smallest s in [2^-126, 1] whose sum is at least 1.
float least(Floats r) {
  uint low = 0x00800000u, high = 0x3f800000u;
  for (uint step_ = 0; step_ < 30; ++step_) {
    uint middle = (low + high) / 2;
    if (sum_at(r, from_bits(middle)) >= 1.0)
      high = middle;
    else
      low = middle;
  }
  return from_bits(high);
}

// The threshold of those elements that are above it.
float threshold(Floats r, float s) {
  float count = 0.0, total = 0.0;
  for (uint j = lane(); j < cols; j += 64) {
    bool is_in = !(add(r.at[j], s) <= 0.0);
    count = add(count, is_in ? 1.0 : 0.0);
    total = add(total, is_in ? r.at[j] : 0.0);
  }
  count = fold_lanes(count);
  total = fold_lanes(total);
  if (KIND == kSparsemax) return divide(sub(total, 1.0), count);
  float mean = divide(total, count), squares = 0.0;
  for (uint j = lane(); j < cols; j += 64) {
    float v = !(add(r.at[j], s) <= 0.0) ? sub(r.at[j], mean) : 0.0;
    squares = fused(v, v, squares);
  }
  return sub(mean, root(divide(sub(1.0, fold_lanes(squares)), count)));
}

void forward(uint i, bool stores) {
  Floats from = row_at(x, i, x_stride), to = row_at(y, i, y_stride);
  float largest = row_maximum(from, cols);
  if (stores)
    for (uint j = lane(); j < cols; j += 64)
      to.at[j] = mul(flushed(k), divide(sub(flushed(from.at[j]), largest), flushed(temperature)));
  float s = least(to), t = 0.0, a = 0.0, b = 0.0, less = from_bits(bits(s) - 1u);
  if (KIND == kPower) {
    float below = sum_at(to, less), from_one = sum_at(to, s);
    float upper = below < 1.0 ? divide(sub(1.0, below), sub(from_one, below)) : 0.0;
    a = mul(sub(1.0, upper), largest_power(less));
    b = mul(upper, largest_power(s));
  } else {
    t = threshold(to, s);
  }
  float sum = 0.0;
  for (uint j = lane(); j < cols; j += 64) {
    float v = to.at[j];
    if (KIND == kPower) {
      v = fused(b, power_above(v, s), mul(a, power_above(v, less)));
    } else {
      v = above(sub(v, t));
      if (KIND == kSquares) v = mul(v, v);
    }
    sum = add(sum, v);
    if (stores) to.at[j] = v;
  }
  if (KIND == kSparsemax) return;
  sum = fold_lanes(sum);
  for (uint j = lane(); j < cols && stores; j += 64) to.at[j] = divide(to.at[j], sum);
}

// y^(2 - alpha), 0 where y is.
float slope(float p) {
  if (!(p > 0.0)) return p;
  if (KIND == kSparsemax) return 1.0;
  if (KIND == kSquares) return root(p);
  return exact_exp(at_most(40.0, mul(sub(1.0, flushed(k)), exact_log(p))));
}

void backward(uint i, bool stores) {
  Floats p = row_at(x, i, x_stride), up = row_at(dy, i, dy_stride), to = row_at(y, i, y_stride);
  float sum = 0.0, dot_ = 0.0;
  for (uint j = lane(); j < cols; j += 64) {
    float s = slope(flushed(p.at[j]));
    sum = add(sum, s);
    dot_ = fused(s, flushed(up.at[j]), dot_);
  }
  sum = fold_lanes(sum);
  float mean = divide(fold_lanes(dot_), sum);
  for (uint j = lane(); j < cols && stores; j += 64)
    to.at[j] = divide(mul(slope(flushed(p.at[j])), sub(flushed(up.at[j]), mean)), flushed(temperature));
}

void main() {
  load_operands();
  FOR_EACH_ROW(first) {
    uint i = min(row_of(first), rows - 1);
    if (BACKWARD)
      backward(i, row_of(first) < rows);
    else
      forward(i, row_of(first) < rows);
  }
}
