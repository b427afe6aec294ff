// SPDX-License-Identifier: Apache-2.0
// kernels/unary_scalar.cpp in GLSL. A pipeline knows its activation: the switches cost nothing.
#ifndef WEFT_ACTIVATIONS
#define WEFT_ACTIVATIONS

#include "functions.glsl"

// Row numbers of kernels/activations.def; gpu/stream_elementwise.cpp asserts them.
const uint kLinear = 0, kRelu = 1, kLeakyRelu = 2, kRelu2 = 3, kSilu = 4, kGeluErf = 5, kGeluTanh = 6, kTanh = 7,
           kSigmoid = 8, kSoftplus = 9, kElu = 10, kMish = 11;
layout(constant_id = 1) const uint ACTIVATION = kLinear;

float relu(float x) { return x < kSmallestNormal ? 0.0 : x; }

// x / (1 + exp(-v)).
float gated(float x, float v) {
  return v < -kLogisticClamp ? from_bits(kSignBit) : divide(x, logistic_denominator(v));
}
float softplus(float x) { return add(relu(x), exact_log1p_unit(exact_exp(negated(magnitude_of(x))))); }
float mish(float x) {
  float e = exact_exp(at_most(kMishClamp, x));
  float n = fused(e, e, add(e, e));
  return mul(at_least(-kSlopeClamp, x), divide(n, add(n, 2.0)));
}
float gelu(float x) {
  float half_x = mul(at_least(-kGeluClamp, x), 0.5);
  return fused(half_x, exact_erf(mul(x, kInverseSqrt2)), half_x);
}

// x flushed, but for the activation linear, which moves bits.
float activate(float x) {
  switch (ACTIVATION) {
    case kRelu: return relu(x);
    case kLeakyRelu: return x >= kSmallestNormal ? x : mul(x, kLeakySlope);
    case kRelu2: return mul(relu(x), relu(x));
    case kSilu: return gated(x, x);
    case kGeluErf: return gelu(x);
    case kGeluTanh: return gated(x, mul(x, fused(mul(x, x), kGeluCubic, kGelu)));
    case kTanh: return exact_tanh(x);
    case kSigmoid: return exact_sigmoid(x);
    case kSoftplus: return softplus(x);
    case kElu: return x >= kSmallestNormal ? x : exact_expm1_nonpositive(x);
    case kMish: return mish(x);
  }
  return x;
}

struct Logistic {
  float value, slope;
};
Logistic logistic(float v) {
  float e = exact_exp(negated(magnitude_of(v)));
  float r = divide(1.0, add(1.0, e));
  float rest = mul(e, r);
  return Logistic(v < 0.0 ? rest : r, mul(rest, r));
}
float silu_slope(float z) {
  float x = clamped_to(kSlopeClamp, z);
  Logistic s = logistic(x);
  return fused(x, s.slope, s.value);
}
float gelu_slope(float z) {
  float x = clamped_to(kGeluClamp, z);
  float density = mul(kNormalPeak, exact_exp(mul(mul(x, x), -0.5)));
  return fused(x, density, fused(0.5, exact_erf(mul(x, kInverseSqrt2)), 0.5));
}
float gelu_tanh_slope(float z) {
  float x = clamped_to(kGeluClamp, z);
  float u = mul(x, x);
  Logistic s = logistic(mul(x, fused(u, kGeluCubic, kGelu)));
  return fused(mul(x, fused(u, 3.0 * kGeluCubic, kGelu)), s.slope, s.value);
}
float mish_slope(float z) {
  float x = at_most(kMishClamp, at_least(-kSlopeClamp, z));
  float e = exact_exp(x);
  float n = fused(e, e, add(e, e));
  float r = divide(1.0, add(n, 2.0));
  return fused(x, mul(mul(mul(fused(e, e, e), 4.0), r), r), mul(n, r));
}

// v is z or y, as kernels::needs_preactivation says; v and dy flushed, but for linear.
float activate_backward(float v, float dy) {
  switch (ACTIVATION) {
    case kRelu: return v > 0.0 ? dy : 0.0;
    case kLeakyRelu: return v > 0.0 ? dy : mul(dy, kLeakySlope);
    case kRelu2: return mul(dy, add(relu(v), relu(v)));
    case kSilu: return mul(dy, silu_slope(v));
    case kGeluErf: return mul(dy, gelu_slope(v));
    case kGeluTanh: return mul(dy, gelu_tanh_slope(v));
    case kTanh: return mul(dy, fused(negated(v), v, 1.0));
    case kSigmoid: return mul(dy, fused(negated(v), v, v));
    case kSoftplus: return mul(dy, exact_sigmoid(v));
    case kElu: return v > 0.0 ? dy : mul(dy, add(v, 1.0));
    case kMish: return mul(dy, mish_slope(v));
  }
  return dy;
}

#endif  // WEFT_ACTIVATIONS
