// SPDX-License-Identifier: Apache-2.0

#include "kernels/math.hpp"
#include "kernels/math_constants.hpp"
#include "kernels/unary.hpp"

#include <cmath>

namespace weft::kernels {
namespace {

using namespace constants;

// Comparisons are spelled so that a NaN x stays.
float at_most(float limit, float x) noexcept { return limit < x ? limit : x; }
float at_least(float limit, float x) noexcept { return limit > x ? limit : x; }
float clamp(float limit, float x) noexcept { return at_most(limit, at_least(-limit, x)); }
// Choices between x and another value flush a subnormal x by where they draw the line.
float relu(float x) noexcept { return x < kSmallestNormal ? 0.0f : x; }

// x / (1 + exp(-v)).
float gated(float x, float v) noexcept { return v < -kLogisticClamp ? -0.0f : x / math::logistic_denominator(v); }

float softplus(float x) noexcept { return relu(x) + math::log1p_unit(math::exp(-std::fabs(x))); }

// tanh(softplus(x)) = n / (n + 2), n = e (e + 2), e = exp(x).
float mish(float x) noexcept {
  const float e = math::exp(at_most(kMishClamp, x));
  const float n = std::fma(e, e, e + e);
  return at_least(-kSlopeClamp, x) * (n / (n + 2.0f));
}

// The logistic function and its slope, neither of which cancels.
struct Logistic {
  float value, slope;
};
Logistic logistic(float v) noexcept {
  const float e = math::exp(-std::fabs(v));
  const float r = 1.0f / (1.0f + e);
  const float rest = e * r;
  return {v < 0.0f ? rest : r, rest * r};
}

float silu_slope(float z) noexcept {
  const float x = clamp(kSlopeClamp, z);
  const Logistic s = logistic(x);
  return std::fma(x, s.slope, s.value);
}
float gelu_slope(float z) noexcept {
  const float x = clamp(kGeluClamp, z);
  const float density = kNormalPeak * math::exp(x * x * -0.5f);
  return std::fma(x, density, std::fma(0.5f, math::erf(x * kInverseSqrt2), 0.5f));
}
float gelu_tanh_slope(float z) noexcept {
  const float x = clamp(kGeluClamp, z);
  const float u = x * x;
  const Logistic s = logistic(x * std::fma(u, kGeluCubic, kGelu));
  return std::fma(x * std::fma(u, 3.0f * kGeluCubic, kGelu), s.slope, s.value);
}
// tanh(softplus) + x sech^2(softplus) sigmoid = n/(n+2) + 4 x e (1+e) / (n+2)^2.
float mish_slope(float z) noexcept {
  const float x = at_most(kMishClamp, at_least(-kSlopeClamp, z));
  const float e = math::exp(x);
  const float n = std::fma(e, e, e + e);
  const float r = 1.0f / (n + 2.0f);
  return std::fma(x, std::fma(e, e, e) * 4.0f * r * r, n * r);
}

}  // namespace

float activate(Activation activation, float x) noexcept {
  switch (activation) {
    case Activation::linear:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::leaky_relu:
      return x >= kSmallestNormal ? x : x * kLeakySlope;
    case Activation::relu2:
      return relu(x) * relu(x);
    case Activation::silu:
      return gated(x, x);
    case Activation::gelu: {
      const float half = at_least(-kGeluClamp, x) * 0.5f;
      return std::fma(half, math::erf(x * kInverseSqrt2), half);
    }
    case Activation::gelu_tanh:
      return gated(x, x * std::fma(x * x, kGeluCubic, kGelu));
    case Activation::tanh:
      return math::tanh(x);
    case Activation::sigmoid:
      return math::sigmoid(x);
    case Activation::softplus:
      return softplus(x);
    case Activation::elu:
      return x >= kSmallestNormal ? x : math::expm1_nonpositive(x);
    case Activation::mish:
      return mish(x);
  }
  return x;
}

float activate_backward(Activation activation, float v, float dy) noexcept {
  switch (activation) {
    case Activation::linear:
      return dy;
    case Activation::relu:
      return v > 0.0f ? math::flush(dy) : 0.0f;
    case Activation::leaky_relu:
      return v > 0.0f ? math::flush(dy) : dy * kLeakySlope;
    case Activation::relu2:
      return dy * (relu(v) + relu(v));
    case Activation::silu:
      return dy * silu_slope(v);
    case Activation::gelu:
      return dy * gelu_slope(v);
    case Activation::gelu_tanh:
      return dy * gelu_tanh_slope(v);
    case Activation::tanh:
      return dy * std::fma(-v, v, 1.0f);
    case Activation::sigmoid:
      return dy * std::fma(-v, v, v);
    case Activation::softplus:
      return dy * math::sigmoid(v);
    case Activation::elu:
      return v > 0.0f ? math::flush(dy) : dy * (v + 1.0f);
    case Activation::mish:
      return dy * mish_slope(v);
  }
  return dy;
}

}  // namespace weft::kernels
