// SPDX-License-Identifier: Apache-2.0
// Needs no device: gpu/shaders/binary64.glsl, compiled as C++, against the CPU's binary64 with subnormals flushed.

#include "kernels/float_environment.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace weft::gpu::binary64_test {
namespace glsl {

using uint = std::uint32_t;
using std::uint64_t;
inline int findMSB(uint x) { return 31 - std::countl_zero(x); }
#include "gpu/shaders/binary64.glsl"

}  // namespace glsl
namespace {

double number(std::uint64_t x) { return std::bit_cast<double>(x); }
std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }
bool same(std::uint64_t a, double b) { return a == bits(b) || (number(a) != number(a) && b != b); }

/// Operands near each other's exponents, where sums cancel and products are tiny or huge, and special ones.
class Binary64 : public testing::Test {
 protected:
  std::uint64_t word() { return std::uint64_t{random_.next_u32()} << 32 | random_.next_u32(); }
  double draw(int kind, double beside) {
    static constexpr std::array<std::uint64_t, 12> kSpecial{0,
                                                            0x8000000000000000u,
                                                            0x7ff0000000000000u,
                                                            0xfff0000000000000u,
                                                            0x7ff8000000000001u,
                                                            0x0010000000000000u,
                                                            0x800fffffffffffffu,
                                                            0x0000000000000001u,
                                                            0x7fefffffffffffffu,
                                                            0x3ff0000000000000u,
                                                            0x0010000000000001u,
                                                            0x3fefffffffffffffu};
    switch (kind % 5) {
      case 0:
        return number(word());
      case 1:
        return number(kSpecial[random_.next_below(kSpecial.size())]);
      case 2: {  // few digits: ties and exact sums
        const double few = static_cast<double>(static_cast<std::int32_t>(random_.next_u32()) >> random_.next_below(30));
        return std::ldexp(few, static_cast<int>(random_.next_below(140)) - 70);
      }
      case 3:
        return number(bits(beside) + random_.next_below(5) - 2) * (random_.next_below(2) ? 1 : -1);
      default:
        return std::ldexp(number((word() >> 12) | bits(1.0)), static_cast<int>(random_.next_below(240)) - 120);
    }
  }
  RandomStream random_{72, 0, RandomPurpose::test};
  const kernels::FlushSubnormals flush_;
};

TEST_F(Binary64, FusesMultipliesAddsAndDivides) {
  for (int i = 0; i < 2'000'000; ++i) {
    volatile double a = draw(i, 1.0), b = draw(i / 5, a), product = a * b;
    const bool near = i % 3 == 0;
    volatile double c = near ? -draw(3, product) : draw(i / 25, product);
    const double fused = std::fma(a, b, c), sum = a + c, quotient = a / b;
    ASSERT_TRUE(same(glsl::fused64(bits(a), bits(b), bits(c)), fused))
        << std::hexfloat << a << " * " << b << " + " << c << " is " << fused << ", not "
        << number(glsl::fused64(bits(a), bits(b), bits(c)));
    ASSERT_TRUE(same(glsl::mul64(bits(a), bits(b)), product)) << std::hexfloat << a << " * " << b;
    ASSERT_TRUE(same(glsl::add64(bits(a), bits(c)), sum)) << std::hexfloat << a << " + " << c;
    ASSERT_TRUE(same(glsl::divide64(bits(a), bits(b)), quotient))
        << std::hexfloat << a << " / " << b << " is " << quotient << ", not "
        << number(glsl::divide64(bits(a), bits(b)));
    const std::uint32_t whole = 1 + random_.next_below(1023);
    volatile double divisor = whole;
    ASSERT_TRUE(same(glsl::divide64_by(bits(a), whole), a / divisor)) << std::hexfloat << a << " / " << whole;
  }
}

// Products and sums whose exact value is a hair beside the smallest normal number.
TEST_F(Binary64, FlushesWhatIsTinyAfterRounding) {
  for (int i = 0; i < 200'000; ++i) {
    volatile double a = number((word() >> 12) | bits(1.0)), b = 0x1p-1022 / a,
                    c = std::ldexp(draw(4, 1.0), -970) * (i % 2 ? 0 : 1);
    b = number(bits(b) + random_.next_below(5) - 2);
    const double fused = std::fma(a, b, c);
    ASSERT_TRUE(same(glsl::fused64(bits(a), bits(b), bits(c)), fused))
        << std::hexfloat << a << " * " << b << " + " << c;
  }
}

TEST_F(Binary64, ConvertsAsTheCpuDoes) {
  for (int i = 0; i < 1'000'000; ++i) {
    volatile double a = i % 2 ? draw(i / 2, 1.0) : std::ldexp(number((word() >> 12) | bits(1.0)), -130 + i % 8);
    if (i % 16 == 0) a = number(bits(a) & 0xffffffffe0000000u) + 0x1p-150;  // ties
    const float narrow = static_cast<float>(a);
    const auto got = std::bit_cast<float>(glsl::narrowed(bits(a)));
    ASSERT_TRUE(std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(narrow) ||
                (got != got && narrow != narrow))
        << std::hexfloat << a << ": " << narrow << ", not " << got;
    volatile float f = std::bit_cast<float>(random_.next_u32());
    ASSERT_TRUE(same(glsl::widened(std::bit_cast<std::uint32_t>(f)), static_cast<double>(f))) << std::hexfloat << f;
    const std::uint64_t n = word() >> random_.next_below(64);
    ASSERT_TRUE(same(glsl::integer64(0, n), static_cast<double>(n))) << n;
    ASSERT_TRUE(same(glsl::integer64(0x8000000000000000u, n), -static_cast<double>(n))) << n;
  }
}

}  // namespace
}  // namespace weft::gpu::binary64_test
