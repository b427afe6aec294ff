// SPDX-License-Identifier: Apache-2.0

#include "tests/kernels/oracle.hpp"

#include "kernels/math.hpp"
#include "kernels/unary.hpp"

namespace weft::kernels::testing_ops {

float exponential(float x) { return math::exp(x); }
float logarithm(float x) { return math::log(x); }
float activated(Activation activation, float x) { return activate(activation, x); }
float sloped(Activation activation, float v, float dy) { return activate_backward(activation, v, dy); }

constexpr double kUnknown = std::numeric_limits<double>::infinity();

Bounded root(const Bounded& x) {
  if (x.value < 0 && x.value + x.error >= 0) return {0, kUnknown};
  const double below = std::sqrt(std::max(x.value - x.error, 0.0)), middle = std::sqrt(x.value);
  return rounded(middle, x.error == 0 ? 0 : std::max(middle - below, std::sqrt(x.value + x.error) - middle));
}
Bounded exponential(const Bounded& x) {
  return rounded(std::exp(x.value), x.error == 0 ? 0 : std::exp(x.value) * std::expm1(x.error), 4);
}
Bounded logarithm(const Bounded& x) {
  if (x.error == 0) return rounded(std::log(x.value), 0, 4);
  return x.value > x.error ? rounded(std::log(x.value), x.error / (x.value - x.error), 4) : Bounded(0, kUnknown);
}

float applied(Function function, float x) {
  switch (function) {
    case Function::exp:
      return math::exp(x);
    case Function::expm1_nonpositive:
      return math::expm1_nonpositive(x);
    case Function::log:
      return math::log(x);
    case Function::log1p_unit:
      return math::log1p_unit(x);
    case Function::tanh:
      return math::tanh(x);
    case Function::sigmoid:
      return math::sigmoid(x);
    case Function::erf:
      return math::erf(x);
    case Function::sin:
      return math::sin(x);
    case Function::cos:
      return math::cos(x);
  }
  return 0;
}
Bounded applied(Function function, const Bounded& x) {
  const double v = x.value;
  switch (function) {
    case Function::exp:
      return rounded(std::exp(v), 0, 4);
    case Function::expm1_nonpositive:
      return v > 0 ? Bounded(0, kUnknown) : rounded(std::expm1(v), 0, 4);
    case Function::log:
      return rounded(std::log(v), 0, 4);
    case Function::log1p_unit:
      return v < 0 || v > 1 ? Bounded(0, kUnknown) : rounded(std::log1p(v), 0, 4);
    case Function::tanh:
      return rounded(std::tanh(v), 0, 4);
    case Function::sigmoid:
      return rounded(1 / (1 + std::exp(-v)), 0, 4);
    case Function::erf:
      return rounded(std::erf(v), 0, 4);
    case Function::sin:
      return rounded(std::fabs(v) <= 0x1p20 ? std::sin(v) : NAN, 0, 4);
    case Function::cos:
      return rounded(std::fabs(v) <= 0x1p20 ? std::cos(v) : NAN, 0, 4);
  }
  return {0, kUnknown};
}

double formula(Activation activation, double x) {
  switch (activation) {
    case Activation::linear:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::leaky_relu:
      return x > 0 ? x : 0.01f * x;
    case Activation::relu2:
      return x < 0 ? 0 : x * x;
    case Activation::silu:
      return x == -kUnknown ? 0 : x / (1 + std::exp(-x));
    case Activation::gelu:
      return x == -kUnknown ? 0 : x / 2 * std::erfc(-x / std::sqrt(2.0));  // 1 + erf, without its cancellation
    case Activation::gelu_tanh:
      // (1 + tanh a) / 2 = 1 / (1 + exp(-2a)), which cancels nowhere either
      return x == -kUnknown ? 0 : x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::softplus:
      return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x)));
    case Activation::elu:
      return x > 0 ? x : std::expm1(x);
    case Activation::mish:
      return x == -kUnknown ? 0 : x * std::tanh((x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x))));
  }
  return 0;
}
Bounded activated(Activation activation, const Bounded& x) {
  const double y = formula(activation, x.value);
  if (!std::isfinite(x.value) || std::isinf(x.error)) return {y, x.error};
  double error = 0;
  for (int i = -16; x.error > 0 && i <= 16; ++i)  // some are not monotonous
    error = std::max(error, 2 * std::fabs(formula(activation, x.value + i / 16.0 * x.error) - y));
  // Errors of gelus are relative to x, not to the result.
  const bool is_gelu = activation == Activation::gelu || activation == Activation::gelu_tanh;
  if (activation != Activation::linear && activation != Activation::relu)
    error += std::fabs(y) * 0x1p-20 + (is_gelu ? std::fabs(x.value) * 0x1p-21 : 0) + 0x1p-118;
  return rounded(y, error);
}

Bounded sloped(Activation activation, const Bounded& v, const Bounded& dy) {
  const double x = v.value;
  // Kinks, and where a difference quotient says nothing.
  if (v.error > 0 || !(std::fabs(x) > 1e-4 && std::fabs(x) < 20)) return {0, kUnknown};
  double slope = 0;
  switch (activation) {
    case Activation::linear:
      slope = 1;
      break;
    case Activation::relu:
      slope = x > 0;
      break;
    case Activation::leaky_relu:
      slope = x > 0 ? 1 : 0.01f;
      break;
    case Activation::tanh:
      slope = 1 - x * x;
      break;
    case Activation::sigmoid:
      slope = x * (1 - x);
      break;
    case Activation::elu:
      slope = x > 0 ? 1 : 1 + x;
      break;
    default: {
      constexpr double kStep = 1e-5;
      slope = (formula(activation, x + kStep) - formula(activation, x - kStep)) / (2 * kStep);
    }
  }
  return dy * Bounded(slope, 2e-7 + 1e-6 * std::fabs(slope));
}

}  // namespace weft::kernels::testing_ops
