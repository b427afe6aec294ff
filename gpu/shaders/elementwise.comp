// SPDX-License-Identifier: Apache-2.0
// Operations in which each element stands alone. A pipeline knows its own.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "functions.glsl"
#include "memory.glsl"

layout(local_size_x = 256) in;
// Numbers that gpu/stream_elementwise.cpp has too.
const uint kAdd = 0, kSub = 1, kMul = 2, kMax = 3, kMin = 4, kScale = 5, kAxpy = 6, kCopy = 7, kFill = 8, kScaleRows = 9,
           kGapDisplacement = 10, kSquareRoot = 11, kSquareRootBackward = 12, kLogFloored = 13, kLogFlooredBackward = 14;
layout(constant_id = 1) const uint OPERATION = kCopy;
#define WEFT_OPERANDS(X)                                                            \
  X(uint64_t, a) X(uint64_t, b) X(uint64_t, c) X(uint64_t, y)                       \
  X(uint, rows) X(uint, cols) X(uint, a_stride) X(uint, b_stride) X(uint, y_stride) \
  X(float, alpha)
#include "operands.glsl"

float element(uint64_t matrix, uint i, uint j, uint stride) { return flushed(row_at(matrix, i, stride).at[j]); }

float result(uint i, uint j) {
  switch (OPERATION) {
    case kFill: return alpha;
    case kCopy: return row_at(a, i, a_stride).at[j];
    case kScaleRows: return mul(flushed(Floats(c).at[i]), element(a, i, j, a_stride));
  }
  float u = element(a, i, j, a_stride);
  switch (OPERATION) {
    case kScale: return mul(flushed(alpha), u);
    case kSquareRoot: return root(u);
    case kLogFloored: return exact_log(at_least(kSmallestNormal, u));
  }
  float v = element(b, i, j, b_stride);
  switch (OPERATION) {
    case kAdd: return add(u, v);
    case kSub: return sub(u, v);
    case kMul: return mul(u, v);
    case kMax: return u > v || is_nan(u) ? u : v;
    case kMin: return u < v || is_nan(u) ? u : v;
    case kAxpy: return fused(flushed(alpha), u, v);
    case kSquareRootBackward: return u == 0.0 ? 0.0 : divide(v, add(u, u));
    case kLogFlooredBackward: return divide(v, at_least(kSmallestNormal, u));
    case kGapDisplacement: {
      float sum = flushed(Floats(c).at[j]);
      return sum > 9.99999977648258209e-03 ? sub(divide(u, sum), v) : 0.0;
    }
  }
  return NAN;
}

void main() {
  if (!load_operands()) return;
  uint count = rows * cols;
  for (uint e = item(); e < count; e += items()) {
    uint i = e / cols, j = e - i * cols;
    row_at(y, i, y_stride).at[j] = result(i, j);
  }
}
