// SPDX-License-Identifier: Apache-2.0
// Weights that a type cannot hold. Scales, zero points and codes: the table of op_cases.hpp.

#include "kernels/quantize.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "codec_testing.hpp"
#include <bit>
#include <string>

namespace weft::kernels::quantize_test {
namespace {

using namespace testing_codec;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

class Quantize : public testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(set_active_isa(best_isa())); }
  FlushSubnormals flush_;
};
using FirstUnstorable = Quantize;

TEST_F(Quantize, ScalarCodecsDoNotSeeTheFlushing) {
  ASSERT_TRUE(flushes_subnormals());
  for (unsigned code = 0; code < 0x8000; ++code) {
    // By bits, as comparing floats would flush: the middle between two codes of bfloat16 ends in 8000.
    const auto bf16 = static_cast<std::uint16_t>(code);
    if (code < 0x7f80) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(numeric::Bfloat16::decode(bf16)), code << 16);
      EXPECT_EQ(numeric::Bfloat16::encode(std::bit_cast<float>(code << 16 | 0x7fffu)), code);
      if (code < 0x7f7f) {
        EXPECT_EQ(numeric::Bfloat16::encode(std::bit_cast<float>(code << 16 | 0x8000u)), code + code % 2);
      }
    }
  }
  EXPECT_EQ(numeric::Float64::encode(std::bit_cast<float>(1u)), 0x36a0000000000000u);           // 2^-149
  EXPECT_EQ(numeric::Float64::encode(std::bit_cast<float>(0x807fffffu)), 0xb80fffffc0000000u);  // -(2^-126 - 2^-149)
}

TEST_F(FirstUnstorable, IsTheSmallestRowMajorIndex) {
  RandomStream random(17, 0, RandomPurpose::test);
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    Master master = random_master(random, 37, 45, Fill::mixed);
    master.at(3, 3) = kMax, master.at(4, 4) = -0x1p-149f;
    EXPECT_EQ(first_unstorable(master.view(), Dtype::int8, false), std::nullopt);
    EXPECT_EQ(last_isa_run(), general_isa(isa));
    // Later and later ones first, so that each is found in front of those before it.
    for (const auto& [o, k] :
         {std::pair<std::size_t, std::size_t>{36, 44}, {36, 2}, {31, 40}, {17, 3}, {2, 44}, {1, 44}, {0, 0}}) {
      master.at(o, k) = (o + k) % 2 ? kNan : -kInf;
      for (int i = 0; i < kDtypeCount; ++i)
        EXPECT_EQ(first_unstorable(master.view(), static_cast<Dtype>(i), false), o * 45 + k);
      EXPECT_EQ(first_unstorable(master.view(), Dtype::uint4, true), o * 45 + k);
    }
  }
}

TEST_F(FirstUnstorable, PassesWhatTheTypeHolds) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    Master master(2, 20);
    master.at(0, 7) = -kNan, master.at(1, 3) = std::bit_cast<float>(0x7f800001u);
    for (int i = 0; i < kDtypeCount; ++i) {
      const auto dtype = static_cast<Dtype>(i);
      const bool holds_nan = !has_scale(dtype) || dtype == Dtype::fp8_e4m3 || dtype == Dtype::fp8_e5m2;
      EXPECT_EQ(first_unstorable(master.view(), dtype, true), holds_nan ? std::nullopt : std::optional<std::size_t>(7))
          << name(dtype);
    }
    master.at(1, 1) = kInf;
    EXPECT_EQ(first_unstorable(master.view(), Dtype::fp8_e4m3, true), 21u);
    EXPECT_EQ(first_unstorable(master.view(), Dtype::fp8_e5m2, true), std::nullopt);
    EXPECT_EQ(first_unstorable({nullptr, 0, 0}, Dtype::int8, false), std::nullopt);
  }
}

}  // namespace
}  // namespace weft::kernels::quantize_test
