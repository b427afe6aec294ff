// SPDX-License-Identifier: Apache-2.0
// Needs no device: gpu/shaders/division.glsl, compiled as C++, with estimates as wrong as hardware may have them.

#include "kernels/float_environment.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace weft::gpu::division_test {
namespace glsl {

using uint = std::uint32_t;
constexpr uint kSignBit = 0x80000000u, kInfinityBits = 0x7f800000u;
constexpr float NAN_ = std::numeric_limits<float>::quiet_NaN();
inline uint bits(float x) { return std::bit_cast<uint>(x); }
inline float from_bits(uint x) { return std::bit_cast<float>(x); }
inline float magnitude_of(float x) { return from_bits(bits(x) & 0x7fffffffu); }
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }

// Units in the last place by which the hardware is wrong.
int error = 0;
inline float estimated_reciprocal(float x) { return from_bits(bits(1.0f / x) + static_cast<uint>(error)); }
inline float estimated_root(float x) { return from_bits(bits(std::sqrt(x)) + static_cast<uint>(error)); }

#undef NAN
#define NAN NAN_
#include "gpu/shaders/division.glsl"

}  // namespace glsl
namespace {

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a != a && b != b);
}
// A number as shaders read it: subnormals are flushed.
float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

class Division : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { glsl::error = GetParam(); }
  void TearDown() override { glsl::error = 0; }
  const kernels::FlushSubnormals flush_;
};

TEST_P(Division, IsCorrectlyRounded) {
  RandomStream random(70, 0, RandomPurpose::test);
  const auto any = [&] { return flushed(std::bit_cast<float>(random.next_u32())); };
  for (int i = 0; i < 1'000'000; ++i) {
    // All exponents; then significands alone, near each other, where quotients are near 1.
    const float a = i % 2 ? any() : std::bit_cast<float>(0x3f800000u | random.next_u32() >> 9);
    const float b = i % 4 == 0   ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(a) + random.next_below(5) - 2)
                    : i % 4 == 2 ? std::bit_cast<float>(0x3f800000u | random.next_u32() >> 9)
                                 : any();
    volatile float divisor = b;
    const float want = a / divisor;
    ASSERT_TRUE(same(glsl::divide(a, b), want))
        << std::hexfloat << a << " / " << b << " is " << want << ", not " << glsl::divide(a, b);
  }
}

// Quotients in tanh, whose m lies between (e^0.25 - 1) / 2 and (e^20 - 1) / 2: all where m + 1 is close below a
// power of two, the only place where a quotient may be wrong, and one in 251 elsewhere.
TEST_P(Division, OfANumberByItsSuccessorIsCorrectlyRounded) {
  std::uint32_t wrong = 0;
  for (std::uint32_t word = 123u << 23; word < 157u << 23; ++word) {
    const float m = std::bit_cast<float>(word);
    const bool is_close = (std::bit_cast<std::uint32_t>(m + 1.0f) & 0x7fffffu) >= 0x7fe000u;
    if (!is_close && word % 251 != 0) continue;
    wrong += std::bit_cast<std::uint32_t>(glsl::divide_by_successor(m)) != std::bit_cast<std::uint32_t>(m / (m + 1.0f));
  }
  EXPECT_EQ(wrong, 0u);
}

// An exponent is added to a quotient's, so all significands of one, and some of others.
TEST_P(Division, StepsOfQuantisationAreCorrectlyRounded) {
  std::uint32_t wrong = 0;
  for (const std::uint32_t exponent : {127u, 27u, 126u, 254u})
    for (std::uint32_t significand = 0; significand < 1u << 23; significand += exponent == 127 ? 1 : 1021) {
      const float m = std::bit_cast<float>(exponent << 23 | significand);
      wrong += std::bit_cast<std::uint32_t>(glsl::divide_by_127(m)) != std::bit_cast<std::uint32_t>(m / 127.0f);
      wrong += std::bit_cast<std::uint32_t>(glsl::divide_127_by(m)) != std::bit_cast<std::uint32_t>(127.0f / m);
    }
  EXPECT_EQ(wrong, 0u);
}

TEST_P(Division, RootIsCorrectlyRounded) {
  RandomStream random(71, 0, RandomPurpose::test);
  for (int i = 0; i < 1'000'000; ++i) {
    std::uint32_t word = random.next_u32();
    if (i % 2) word = (word & 0x00ffffffu) | 0x3f000000u;  // two octaves, more densely
    const float x = flushed(std::bit_cast<float>(word));
    ASSERT_TRUE(same(glsl::root(x), std::sqrt(x))) << std::hexfloat << x;
  }
  // Squares, and what stands beside them.
  for (std::uint32_t n = 1; n < 4096; ++n)
    for (int beside = -2; beside <= 2; ++beside) {
      const float square = static_cast<float>(n) * static_cast<float>(n);
      const float x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(square) + static_cast<std::uint32_t>(beside));
      ASSERT_TRUE(same(glsl::root(x), std::sqrt(x))) << std::hexfloat << x;
    }
}

TEST_P(Division, EdgesAreThoseOfTheStandard) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const std::array values = {0.0f, -0.0f, inf, -inf, nan, 1.0f, -3.0f, 0x1p-126f, -0x1.fffffep127f, 0x1.fffffep127f};
  for (const float a : values) {
    EXPECT_TRUE(same(glsl::root(a), std::sqrt(a))) << a;
    for (const float b : values) {
      volatile float divisor = b;
      EXPECT_TRUE(same(glsl::divide(a, b), a / divisor)) << a << " / " << b;
    }
  }
}

// Vulkan allows reciprocals 2.5 units off.
INSTANTIATE_TEST_SUITE_P(Estimates, Division, testing::Values(0, 1, -1, 2, -2, 3, -3));

}  // namespace
}  // namespace weft::gpu::division_test
