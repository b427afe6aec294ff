// SPDX-License-Identifier: Apache-2.0

#include "kernels/float_environment.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>

namespace weft::kernels::float_environment_test {
namespace {

// Operands and result pass through volatiles: the compiler must neither compute at build time, where nothing is
// flushed, nor move the operation past a change of the setting.
float opaque(float x) {
  volatile float v = x;
  return v;
}
float multiply(float a, float b) { return opaque(opaque(a) * opaque(b)); }
float add(float a, float b) { return opaque(opaque(a) + opaque(b)); }
float divide(float a, float b) { return opaque(opaque(a) / opaque(b)); }
float fused(float a, float b, float c) { return opaque(std::fma(opaque(a), opaque(b), opaque(c))); }
std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

constexpr float kSmallest = 0x1p-126f;

#if defined(__riscv)

// docs/numerics.md, RISC-V: all of binary32 is as the contract has it but for subnormal numbers, which stay.
TEST(FlushSubnormals, SubnormalNumbersStayOnRiscV) {
  const FlushSubnormals flush;
  EXPECT_FALSE(flushes_subnormals());
  EXPECT_EQ(multiply(kSmallest, 0.5f), 0x1p-127f);
  EXPECT_EQ(multiply(0x1p-130f, 0x1p20f), 0x1p-110f);
  EXPECT_EQ(fused(0x1p-100f, 0x1p-40f, 0.0f), 0x1p-140f);
  EXPECT_EQ(take_flushed_results(), true);  // no proof of the contrary
}

TEST(FlushSubnormals, FusesOnceAndGivesOneNaNOnRiscV) {
  const FlushSubnormals flush;
  // (1 + 2^-12)^2 - (1 + 2^-11) = 2^-24, which a product rounded by itself loses.
  EXPECT_EQ(fused(0x1.001p0f, 0x1.001p0f, -0x1.002p0f), 0x1p-24f);
  // Every operation's NaN is the canonical one, whatever went in.
  const float payload = std::bit_cast<float>(0xffc12345u), infinity = std::numeric_limits<float>::infinity();
  for (const float nan : {multiply(0.0f, infinity), add(infinity, -infinity), divide(0.0f, 0.0f), add(payload, 1.0f),
                          fused(payload, 1.0f, 1.0f), fused(infinity, 0.0f, payload)})
    EXPECT_EQ(bits(nan), 0x7fc00000u);
}

#else

TEST(FlushSubnormals, SubnormalResultsBecomeZeroOfTheirSign) {
  const FlushSubnormals flush;
  EXPECT_EQ(bits(multiply(kSmallest, 0.5f)), 0u);
  EXPECT_EQ(bits(multiply(-kSmallest, 0.5f)), 0x80000000u);
  EXPECT_EQ(bits(add(0x1.8p-126f, -kSmallest)), 0u);
  EXPECT_EQ(bits(divide(-kSmallest, 4.0f)), 0x80000000u);
  EXPECT_EQ(bits(fused(0x1p-100f, 0x1p-40f, 0.0f)), 0u);
}

TEST(FlushSubnormals, SubnormalInputsCountAsZero) {
  const FlushSubnormals flush;
  EXPECT_EQ(multiply(0x1p-130f, 0x1p20f), 0.0f);
  EXPECT_EQ(add(0x1p-130f, kSmallest), kSmallest);
  EXPECT_EQ(fused(0x1p-130f, 0x1p100f, 1.0f), 1.0f);
}

#endif

TEST(FlushSubnormals, NormalResultsStay) {
  const FlushSubnormals flush;
  EXPECT_EQ(multiply(kSmallest, 1.0f), kSmallest);
  EXPECT_EQ(add(1.0f, 0x1p-24f), 1.0f);  // a tie goes to even
}

#if !defined(__riscv)
TEST(FlushSubnormals, GivesTheOldSettingBack) {
  ASSERT_FALSE(flushes_subnormals());
  {
    const FlushSubnormals outer;
    EXPECT_TRUE(flushes_subnormals());
    {
      const FlushSubnormals inner;
      EXPECT_TRUE(flushes_subnormals());
    }
    EXPECT_TRUE(flushes_subnormals());
  }
  EXPECT_FALSE(flushes_subnormals());
  EXPECT_EQ(multiply(kSmallest, 0.5f), 0x1p-127f);
}

#endif

TEST(FlushSubnormals, RoundsToNearestWhateverTheCallerHadSet) {
  std::fesetround(FE_UPWARD);
  {
    const FlushSubnormals flush;
    EXPECT_EQ(add(1.0f, 0x1p-30f), 1.0f);
  }
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
}

TEST(FlushSubnormals, ConcernsItsOwnThreadAlone) {
  const FlushSubnormals flush;
  bool other = true;
  std::thread([&] { other = multiply(kSmallest, 0.5f) == 0.0f; }).join();
  // A thread may inherit its creator's setting (Linux does), but setting one here later must not reach it.
  bool after = true;
  std::thread([&] {
    { const FlushSubnormals inner; }
    after = flushes_subnormals();
  }).join();
  EXPECT_EQ(other, after);
}

#if !defined(__riscv)
// The corner of docs/numerics.md: exact results that round up to the smallest normal. x86 judges tininess after
// rounding and keeps them; ARM judges before and flushes them. Elsewhere the two agree.
TEST(FlushSubnormals, TheTininessCornerIsWhereDocsSay) {
  const FlushSubnormals flush;
  const float below_one = 0x1.fffffep-1f;  // 1 - 2^-24: times 2^-126 the exact product is 2^-126 - 2^-150
  // Rounded to 24 bits of unbounded exponent, 2^-126 - 2^-150 is itself: tiny for both.
  EXPECT_EQ(multiply(kSmallest, below_one), 0.0f);
  // (1 + 2^-23)(1 - 2^-23) = 1 - 2^-46 rounds to 1: tiny before rounding, not after.
  const float corner = multiply(0x1.000002p-126f, 0x1.fffffcp-1f);
  const float corner_fma = fused(0x1.000002p-63f, 0x1.fffffcp-64f, 0.0f);
#if defined(__aarch64__)
  EXPECT_EQ(corner, 0.0f);
  EXPECT_EQ(corner_fma, 0.0f);
#else
  EXPECT_EQ(corner, kSmallest);
  EXPECT_EQ(corner_fma, kSmallest);
#endif
}

// Of AArch64 alone: elsewhere no flush can differ, so none is counted.
TEST(FlushSubnormals, SaysWhetherAResultWasFlushed) {
  (void)take_flushed_results();
  const auto flushed_by = [](auto&& work) {
    {
      const FlushSubnormals flush;
      work();
    }
    return take_flushed_results();
  };
  const auto nothing = flushed_by([] { (void)multiply(3.0f, 0.0f), (void)add(1.0f, -1.0f); });
  const auto operand = flushed_by([] { (void)add(0x1p-130f, 1.0f); });  // an input that counts as zero differs nowhere
  const auto result = flushed_by([] { (void)multiply(kSmallest, 0.5f); });
  const auto corner = flushed_by([] { (void)fused(0x1.000002p-63f, 0x1.fffffcp-64f, 0.0f); });
  const auto after = take_flushed_results();
#if defined(__aarch64__)
  EXPECT_EQ(nothing, false);
  EXPECT_EQ(operand, false);
  EXPECT_EQ(result, true);
  EXPECT_EQ(corner, true);
  EXPECT_EQ(after, false);
  // Outside, nothing is counted, and the caller's own flags stay.
  (void)std::feclearexcept(FE_ALL_EXCEPT);
  (void)multiply(kSmallest, 0x1.000002p-1f);
  EXPECT_TRUE(std::fetestexcept(FE_UNDERFLOW));
  EXPECT_EQ(flushed_by([] {}), false);
  EXPECT_TRUE(std::fetestexcept(FE_UNDERFLOW));
#else
  for (const auto& each : {nothing, operand, result, corner, after}) EXPECT_FALSE(each.has_value());
#endif
}

#endif

}  // namespace
}  // namespace weft::kernels::float_environment_test
