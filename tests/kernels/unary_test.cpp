// SPDX-License-Identifier: Apache-2.0

#include "kernels/unary.hpp"

#include "kernels/linear.hpp"

#include "core/aligned_buffer.hpp"

#include "comparing.hpp"
#include <algorithm>
#include <functional>

namespace weft::kernels::unary_test {
namespace {

using namespace testing_support;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Activation> all_activations() {
  std::vector<Activation> all;
  for (int i = 0; i < kActivationCount; ++i) all.push_back(static_cast<Activation>(i));
  return all;
}

// The formulas of activations.def in binary64, by libm.
double reference(Activation activation, double x) {
  switch (activation) {
    case Activation::linear:
      return x;
    case Activation::relu:
      return std::fmax(x, 0);
    case Activation::leaky_relu:
      return x > 0 ? x : 0.01 * x;
    case Activation::relu2:
      return x > 0 ? x * x : 0;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu:
      return x / 2 * std::erfc(-x / std::sqrt(2.0));  // 1 + erf, without its cancellation
    case Activation::gelu_tanh:
      // (1 + tanh a)/2 = 1/(1 + exp(-2a)), which cancels nowhere either
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::softplus:
      return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x)));
    case Activation::elu:
      return x > 0 ? x : std::expm1(x);
    case Activation::mish:
      return x * std::tanh(std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))));
  }
  return 0;
}

double central_difference(Activation activation, double x) {
  constexpr double kStep = 1e-5;
  return (reference(activation, x + kStep) - reference(activation, x - kStep)) / (2 * kStep);
}

/// Largest error of `activate` against the formula; measured over all x of 2^-6 <= |x| < 16 (docs/numerics.md, section
/// 7).
double allowed_error(Activation activation, float x, double y) {
  constexpr double kFlushed = 0x1p-126;
  const double ulp_of_x = std::ldexp(1.0, std::max(std::ilogb(x), -126) - 23);
  // 1 + erf cancels in the negative tail: y has fewer good bits than x there.
  if (activation == Activation::gelu) return (x < 0 ? 0.75 : 1.1) * ulp_of_x + kFlushed;
  if (activation == Activation::gelu_tanh) {
    if (x >= 0) return 1.6 * ulp_of_x + kFlushed;
    // x / (1 + exp(-v)) cancels nowhere, but y is as far off as v is, times |v|; and it is 0 below v = -88.
    const double v = 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3));
    return std::min(0.85 * ulp_of_x, std::fabs(y) * 0x1p-24 * (4 - 3 * v)) + kFlushed - x * std::exp(-88.0);
  }
  return std::fabs(y) * 6e-7 + 1e-37;  // a few roundings of the result
}

TEST(Unary, FollowsTheFormulas) {
  const FlushSubnormals flush;
  RandomStream random(11, 0, RandomPurpose::test);
  for (const Activation activation : all_activations())
    for (int i = 0; i < 40000; ++i) {
      const float x = random.next_normal() * (i % 2 ? 2.0f : 12.0f);
      const double want = reference(activation, x);
      ASSERT_NEAR(activate(activation, x), want, allowed_error(activation, x, want)) << name(activation) << " of " << x;
    }
}

TEST(Unary, GelusKeepTheBitsOfXAlongTheWholeLine) {
  const FlushSubnormals flush;
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh})
    for (std::uint32_t bits = 0x00800000; bits < 0x42000000; bits += 1009)  // 2^-126 to 32
      for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
        const double want = reference(activation, x), error = std::fabs(activate(activation, x) - want);
        ASSERT_LE(error, allowed_error(activation, x, want)) << name(activation) << " of " << x;
      }
}

TEST(Unary, SlopesAreThoseOfTheFormulas) {
  const FlushSubnormals flush;
  RandomStream random(12, 0, RandomPurpose::test);
  for (const Activation activation : all_activations())
    for (int i = 0; i < 40000; ++i) {
      const float x = random.next_normal() * (i % 2 ? 1.5f : 5.0f);
      if (std::fabs(x) < 1e-4f) continue;  // kinks
      const float v = needs_preactivation(activation) ? x : activate(activation, x);
      const float dy = random.next_normal();
      const double want = central_difference(activation, x);
      ASSERT_NEAR(activate_backward(activation, v, dy), dy * want, std::fabs(dy) * (2e-7 + 1e-6 * std::fabs(want)))
          << name(activation) << " at " << x;
    }
}

TEST(Unary, EqualsItsScalarElements) {
  const FlushSubnormals flush;
  RandomStream random(15, 0, RandomPurpose::test);
  const Matrix x = special_matrix(random, 5, 67), dy = random_matrix(random, 5, 67);
  for (const Activation activation : all_activations()) {
    Matrix y(5, 67), dx(5, 67);
    unary(activation, x.view(), y.view());
    unary_backward(activation, x.view(), y.view(), dy.view(), dx.view());
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = 0; j < 67; ++j) {
        ASSERT_TRUE(same_bits(y.at(i, j), activate(activation, x.at(i, j)))) << name(activation) << " " << x.at(i, j);
        const float v = needs_preactivation(activation) ? x.at(i, j) : y.at(i, j);
        ASSERT_TRUE(same_bits(dx.at(i, j), activate_backward(activation, v, dy.at(i, j)))) << name(activation);
      }
  }
}

TEST(Unary, GivesTheBitsThatLinearFusesIn) {
  constexpr std::size_t kOut = 37, kIn = 19, kBatch = 3;
  RandomStream random(16, 0, RandomPurpose::test);
  AlignedBuffer<float> w(panels_size(kOut, kIn)), bias(kOut);
  for (std::size_t o = 0; o < kOut; ++o) {
    bias[o] = random.next_normal();
    for (std::size_t k = 0; k < kIn; ++k) w[panel_index(kIn, o, k)] = random.next_normal();
  }
  const Matrix x = random_matrix(random, kBatch, kIn);
  for (const Activation activation : all_activations())
    expect_one_result_on_every_isa("linear with " + std::string(name(activation)), [&] {
      Matrix z(kBatch, kOut, 1), fused(kBatch, kOut, 2), apart(kBatch, kOut, 3);
      linear({w.data(), kOut, kIn}, bias.data(), x.view(), activation, z.view(), fused.view());
      unary(activation, z.view(), apart.view());
      expect_same_bits(fused.values(), apart.values(), std::string(name(activation)));
      return fused.values();
    });
}

TEST(Unary, HasTheDocumentedLimits) {
  const FlushSubnormals flush;
  for (const Activation activation : all_activations()) {
    EXPECT_TRUE(std::isnan(activate(activation, kNan))) << name(activation);
    const bool bounded = activation == Activation::tanh || activation == Activation::sigmoid;
    EXPECT_EQ(activate(activation, kInf), bounded ? 1.0f : kInf) << name(activation);
    const float low = activate(activation, -kInf);
    if (activation == Activation::linear || activation == Activation::leaky_relu)
      EXPECT_EQ(low, -kInf) << name(activation);
    else if (activation == Activation::tanh || activation == Activation::elu)
      EXPECT_EQ(low, -1.0f) << name(activation);
    else
      EXPECT_EQ(low, 0.0f) << name(activation);
    const float v_low = needs_preactivation(activation) ? -kInf : low;
    const float slope = activate_backward(activation, v_low, 1.0f);
    const float want = activation == Activation::linear ? 1.0f : activation == Activation::leaky_relu ? 0.01f : 0.0f;
    EXPECT_EQ(slope, want) << name(activation) << " at -inf";
    const float v_high = needs_preactivation(activation) ? kInf : activate(activation, kInf);
    const float high_slope = activate_backward(activation, v_high, 1.0f);
    EXPECT_EQ(high_slope, activation == Activation::relu2 ? kInf
                          : bounded                       ? 0.0f
                                                          : 1.0f)
        << name(activation) << " at inf";
  }
}

}  // namespace
}  // namespace weft::kernels::unary_test
