// SPDX-License-Identifier: Apache-2.0

#include "kernels/math.hpp"

#include "kernels/math_rows.hpp"

#include "comparing.hpp"
#include <algorithm>

namespace weft::kernels::math_test {
namespace {

using namespace testing_support;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
std::int64_t place(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::int64_t size = bits & 0x7fffffffu, normal = size < 0x00800000 ? 0 : size - 0x007fffff;
  return bits >> 31 ? -normal : normal;
}

// Every `stride`-th bit pattern, plus the neighbourhoods of special values.
std::vector<float> sample(std::uint64_t stride) {
  std::vector<float> all;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += stride)
    all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (const float x : special_values())
    for (int step = -40; step <= 40; ++step)
      all.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) + static_cast<std::uint32_t>(step)));
  for (const float x : {88.722839f, -87.336544f, 9.01f, 3.9375f, 0.70710678f, 1.41421356f, 0.75f, 1.5f, 0.34657359f,
                        1.57079632f, 3.14159265f, 667544.0f * 1.57079632f})
    for (int step = -200; step <= 200; ++step) {
      all.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) + static_cast<std::uint32_t>(step)));
      all.push_back(-all.back());
    }
  return all;
}

struct Case {
  Function function;
  float (*scalar)(float) noexcept;
  double (*reference)(double);
  bool (*in_domain)(float);
};
const Case kCases[] = {
    {Function::exp, math::exp, [](double x) { return std::exp(x); }, [](float) { return true; }},
    {Function::expm1_nonpositive, math::expm1_nonpositive, [](double x) { return std::expm1(x); },
     [](float x) { return !(x > 0); }},
    {Function::log, math::log, [](double x) { return std::log(x); }, [](float) { return true; }},
    {Function::log1p_unit, math::log1p_unit, [](double x) { return std::log1p(x); },
     [](float x) { return !(x < 0 || x > 1); }},
    {Function::tanh, math::tanh, [](double x) { return std::tanh(x); }, [](float) { return true; }},
    {Function::sigmoid, math::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, [](float) { return true; }},
    {Function::erf, math::erf, [](double x) { return std::erf(x); }, [](float) { return true; }},
    {Function::sin, math::sin, [](double x) { return std::fabs(x) <= 0x1p20 ? std::sin(x) : NAN; },
     [](float) { return true; }},
    {Function::cos, math::cos, [](double x) { return std::fabs(x) <= 0x1p20 ? std::cos(x) : NAN; },
     [](float) { return true; }},
};

TEST(Math, StaysWithinTwoUlpOfTheCorrectlyRoundedValue) {
  const std::vector<float> x = sample(997);
  for (const Case& c : kCases) {
    std::vector<float> y(x.size());
    {
      const FlushSubnormals flush;
      for (std::size_t i = 0; i < x.size(); ++i) y[i] = c.scalar(x[i]);
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!c.in_domain(x[i])) continue;
      const float want = flushed(static_cast<float>(c.reference(flushed(x[i]))));
      if (std::isnan(want) || std::isinf(want) || want == 0.0f) {
        ASSERT_TRUE(same_bits(y[i], want)) << name(c.function) << " of " << x[i] << ": " << y[i] << " against " << want;
      } else {
        ASSERT_LE(std::abs(place(y[i]) - place(want)), 2)
            << name(c.function) << " of " << x[i] << ": " << y[i] << " against " << want;
      }
    }
  }
}

TEST(Math, HasTheDocumentedEdges) {
  const FlushSubnormals flush;
  EXPECT_EQ(math::exp(kInf), kInf);
  EXPECT_EQ(math::exp(-kInf), 0.0f);
  EXPECT_EQ(math::exp(0.0f), 1.0f);
  EXPECT_EQ(math::exp(0x1.62e430p+6f), kInf);
  EXPECT_GE(math::exp(-0x1.5d589ep+6f), 0x1p-126f);
  EXPECT_EQ(math::exp(-0x1.5d58a0p+6f), 0.0f);
  EXPECT_TRUE(same_bits(math::log(0.0f), -kInf));
  EXPECT_TRUE(same_bits(math::log(-0.0f), -kInf));
  EXPECT_TRUE(same_bits(math::log(0x1p-127f), -kInf));
  EXPECT_TRUE(same_bits(math::log(-0x1p-127f), -kInf));
  EXPECT_TRUE(std::isnan(math::log(-1.0f)));
  EXPECT_TRUE(same_bits(math::log(1.0f), 0.0f));
  EXPECT_EQ(math::log(kInf), kInf);
  EXPECT_TRUE(same_bits(math::tanh(-0.0f), -0.0f));
  EXPECT_TRUE(same_bits(math::tanh(-0x1p-127f), -0.0f));
  EXPECT_EQ(math::tanh(0x1p-126f), 0x1p-126f);
  EXPECT_EQ(math::tanh(-kInf), -1.0f);
  EXPECT_EQ(math::sigmoid(0.0f), 0.5f);
  EXPECT_EQ(math::sigmoid(kInf), 1.0f);
  EXPECT_TRUE(same_bits(math::sigmoid(-kInf), 0.0f));
  EXPECT_EQ(math::erf(-kInf), -1.0f);
  EXPECT_TRUE(same_bits(math::erf(-0.0f), -0.0f));
  EXPECT_TRUE(same_bits(math::sin(-0.0f), -0.0f));
  EXPECT_EQ(math::cos(-0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(math::sin(kInf)) && std::isnan(math::cos(0x1.000002p20f)));
  EXPECT_FALSE(std::isnan(math::sin(-0x1p20f)));
  for (const Case& c : kCases)
    EXPECT_TRUE(std::isnan(c.scalar(kNan)) && std::isnan(c.scalar(-kNan))) << name(c.function);
}

TEST(Math, RootsAreIeee) {
  const FlushSubnormals flush;
  EXPECT_EQ(math::inverse_sqrt(4.0f), 0.5f);
  EXPECT_EQ(math::inverse_sqrt(0.0f), kInf);
  RandomStream random(3, 0, RandomPurpose::test);
  for (int i = 0; i < 100000; ++i) {
    const float x = random.next_uniform() * 100.0f + 0x1p-20f;
    // binary64 has more than 2 x 24 + 2 digits, so rounding its root to binary32 is the correctly rounded root.
    const float root = static_cast<float>(std::sqrt(static_cast<double>(x)));
    ASSERT_EQ(math::inverse_sqrt(x), static_cast<float>(1.0 / static_cast<double>(root)));
  }
}

TEST(Math, PowersAreExactWhereTheyCanBe) {
  EXPECT_EQ(math::power(0.5, 10), 0x1p-10);
  EXPECT_EQ(math::power(3.0, 33), 5559060566555523.0);
  EXPECT_EQ(math::power(0.9, 0), 1.0);
  // Each squaring doubles the relative error: at most `exponent` roundings.
  EXPECT_NEAR(math::power(0.999, 123456) / std::pow(0.999, 123456), 1.0, 123456 * 0x1p-53);
  EXPECT_EQ(math::power(0.9, std::uint64_t{1} << 40), 0.0);
}

TEST(Math, LogarithmsInBinary64AreNearLibms) {
  RandomStream random(4, 0, RandomPurpose::test);
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double mantissa = 1.0 + random.next_u32() * 0x1p-32 + random.next_u32() * 0x1p-64;
    const int exponent = i % 3 == 0 ? 0 : i % 3 == 1 ? -1 : static_cast<int>(random.next_below(2040)) - 1020;
    const double x = std::ldexp(mantissa, exponent), wanted = std::log(x);
    const double ulp = std::nextafter(std::fabs(wanted), INFINITY) - std::fabs(wanted);
    worst = std::max(worst, std::fabs(math::log_binary64(x) - wanted) / ulp);
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_EQ(math::log_binary64(1.0), 0.0);
  EXPECT_EQ(math::log_binary64(0x1p-1022), std::log(0x1p-1022));
  for (const double x : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_TRUE(std::isnan(math::log_binary64(x))) << x;
}

}  // namespace
}  // namespace weft::kernels::math_test
