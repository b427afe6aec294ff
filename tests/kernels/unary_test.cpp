// SPDX-License-Identifier: Apache-2.0

#include "kernels/unary.hpp"

#include "comparing.hpp"
#include "tests/kernels/oracle.hpp"
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

double central_difference(Activation activation, double x) {
  constexpr double kStep = 1e-5;
  return (testing_ops::formula(activation, x + kStep) - testing_ops::formula(activation, x - kStep)) / (2 * kStep);
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
      const double want = testing_ops::formula(activation, x);
      ASSERT_NEAR(activate(activation, x), want, allowed_error(activation, x, want)) << name(activation) << " of " << x;
    }
}

TEST(Unary, GelusKeepTheBitsOfXAlongTheWholeLine) {
  const FlushSubnormals flush;
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh})
    for (std::uint32_t bits = 0x00800000; bits < 0x42000000; bits += 1009)  // 2^-126 to 32
      for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
        const double want = testing_ops::formula(activation, x), error = std::fabs(activate(activation, x) - want);
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
