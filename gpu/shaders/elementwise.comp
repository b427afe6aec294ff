// SPDX-License-Identifier: Apache-2.0
// Operations in which each element stands alone. A pipeline knows its own.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "functions.glsl"
#include "memory.glsl"

layout(local_size_x = 256, local_size_x_id = 12) in;
#include "elementwise_operands.inc"
WEFT_ELEMENTWISE_NUMBERS(WEFT_NUMBER)
layout(constant_id = 1) const uint OPERATION = kCopy;
layout(constant_id = 2) const bool QUADS = false;  // one row of whole quads, all aligned
#define WEFT_OPERANDS WEFT_ELEMENTWISE_OPERANDS
#include "operands.glsl"

const bool kReadsA = OPERATION != kFill;
const bool kReadsB = OPERATION != kFill && OPERATION != kCopy && OPERATION != kScaleRows && OPERATION != kScale &&
                     OPERATION != kSquareRoot && OPERATION != kClampedLog && OPERATION < kApplyExp;

// Of what stands in a and b at (i, j).
float result(float from_a, float from_b, uint i, uint j) {
  switch (OPERATION) {
    case kFill: return alpha;
    case kCopy: return from_a;
    case kScaleRows: return mul(flushed(Floats(c).at[i]), flushed(from_a));
  }
  float u = flushed(from_a);
  switch (OPERATION) {
    case kScale: return mul(flushed(alpha), u);
    case kSquareRoot: return root(u);
    case kClampedLog: return exact_log(at_least(kSmallestNormal, u));
    case kApplyExp: return exact_exp(u);
    case kApplyExpm1: return exact_expm1_nonpositive(u);
    case kApplyLog: return exact_log(u);
    case kApplyLog1p: return exact_log1p_unit(u);
    case kApplyTanh: return exact_tanh(u);
    case kApplySigmoid: return exact_sigmoid(u);
    case kApplyErf: return exact_erf(u);
    case kApplySin: return exact_sin(u);
    case kApplyCos: return exact_cos(u);
  }
  float v = flushed(from_b);
  switch (OPERATION) {
    case kAdd: return add(u, v);
    case kSub: return sub(u, v);
    case kMul: return mul(u, v);
    case kMax: return u > v || is_nan(u) ? u : v;
    case kMin: return u < v || is_nan(u) ? u : v;
    case kAxpy: return fused(flushed(alpha), u, v);
    case kSquareRootBackward: return u == 0.0 ? 0.0 : divide(v, add(u, u));
    case kClampedLogBackward: return divide(v, at_least(kSmallestNormal, u));
    case kGapResidual: {
      float sum = flushed(Floats(c).at[j]);
      return sum > kLeastGapSum ? sub(divide(u, sum), v) : 0.0;
    }
  }
  return NAN;
}

void main() {
  if (!load_operands()) return;
  if (QUADS) {
    for (uint e = item(); e < cols / 4; e += items()) {
      vec4 from_a = kReadsA ? Quads(a).at[e] : vec4(0.0), from_b = kReadsB ? Quads(b).at[e] : vec4(0.0), to;
      WEFT_UNROLL for (uint k = 0; k < 4; ++k) to[k] = result(from_a[k], from_b[k], 0, 4 * e + k);
      Quads(y).at[e] = to;
    }
    return;
  }
  uint count = rows * cols;
  for (uint e = item(); e < count; e += items()) {
    uint i = rows == 1 ? 0 : e / cols, j = e - i * cols;
    float from_a = kReadsA ? row_at(a, i, a_stride).at[j] : 0.0, from_b = kReadsB ? row_at(b, i, b_stride).at[j] : 0.0;
    row_at(y, i, y_stride).at[j] = result(from_a, from_b, i, j);
  }
}
