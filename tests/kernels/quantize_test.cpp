// SPDX-License-Identifier: Apache-2.0
// Weights that a type cannot hold. Scales, zero points and codes: the table of op_cases.hpp.

#include "kernels/quantize.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "codec_testing.hpp"
#include "tests/kernels/general_isa.hpp"
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

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

// In numbers, since the oracle of op_cases.hpp takes its codes from core/numeric.hpp, as the scalar path does.
TEST_F(Quantize, KeepsSignsOfInfinitiesAndOfSingleSteps) {
  struct Row {
    float weight;
    std::int16_t code;
  };
  constexpr float kStep = 0x1p-126f;  // the smallest scale
  const std::vector<Row> rows[] = {
      {{kStep, 1}, {-kStep, -1}, {0.0f, 0}, {-0.0f, 0}, {0x1p-149f, 0}, {-0x1p-149f, 0}, {-1.75f * kStep, -2}},
      {{kInf, 32767}, {-kInf, -32767}, {kNan, 0}, {-kNan, 0}, {-kStep, -1}, {1.25f * kStep, 1}},
      {{kInf, 32767}, {-kInf, -32767}, {kNan, 0}, {32767, 32767}, {-32766.5f, -32766}, {-1, -1}, {-0.75f, -1}},
      {{-kMax, -32767}, {kMax, 32767}, {-kInf, -32767}, {-0x1p64f, 0}, {-kMax / 32768, -1}, {kMax / 32768, 1}}};
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const std::vector<Row>& row : rows)
      for (const Granularity granularity : {Granularity::tensor, Granularity::channel, Granularity::block32})
        for (const std::size_t out : {1, 2, 17}) {  // every output the same: a panel, and more
          Master master(out, row.size());
          for (std::size_t i = 0; i < out * row.size(); ++i)
            master.at(i / row.size(), i % row.size()) = row[i % row.size()].weight;
          QuantizedWeight weight(Encoding(Dtype::int16, granularity), out, row.size());
          quantize(master.view(), weight.view());
          const auto* const codes = static_cast<const std::int16_t*>(weight.view().codes);
          for (std::size_t i = 0; i < out * row.size(); ++i)
            ASSERT_EQ(codes[panel_index(row.size(), i / row.size(), i % row.size())], row[i % row.size()].code)
                << name(isa) << ", " << name(granularity) << ", " << out << " outputs, weight "
                << row[i % row.size()].weight;
        }
  }
}

// Numbers of IEEE 754's binary16, and the rule of docs/numerics.md: the scale goes up to the next one.
TEST_F(Quantize, RoundsBlockScalesUpToBinary16) {
  struct Row {
    float largest;
    std::uint16_t scale;
    float number;
  };
  // int4: the largest weight divided by 7.
  const Row rows[] = {{7.0f, 0x3c00, 1.0f},
                      {std::nextafter(7.0f, 8.0f), 0x3c01, 0x1.004p0f},
                      {0.7f, 0x2e67, 0x1.99cp-4f},           // 0.1 lies between 2e66 and 2e67
                      {7 * 0x1.ffep-15f, 0x0400, 0x1p-14f},  // above the largest subnormal, 3ff
                      {7 * 0x1.ff8p-15f, 0x03ff, 0x1.ff8p-15f},
                      {7 * 0x1.8p-24f, 0x0002, 0x1p-23f},
                      {7 * 0x1p-30f, 0x0001, 0x1p-24f},
                      {0.0f, 0x0001, 0x1p-24f},
                      {0x1p-126f, 0x0001, 0x1p-24f},
                      {7 * 65504.0f, 0x7bff, 65504.0f},
                      {7 * 65505.0f, 0x7bff, 65504.0f},
                      {kMax, 0x7bff, 65504.0f}};
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const Row& row : rows) {
      Master master(17, 33);
      for (std::size_t o = 0; o < 17; ++o) master.at(o, 1) = -row.largest, master.at(o, 32) = row.largest;
      QuantizedWeight weight(Encoding(Dtype::int4, Granularity::block32_f16), 17, 33);
      quantize(master.view(), weight.view());
      const ConstWeight view = std::as_const(weight).view();
      for (std::size_t o = 0; o < 17; ++o)
        for (const std::size_t k : {1, 32}) {
          const std::size_t group = scale_index(view.granularity, 33, o, k);
          ASSERT_EQ(static_cast<const std::uint16_t*>(view.scales)[group], row.scale) << name(isa) << row.largest;
          ASSERT_EQ(view.scale(group), row.number);
          const auto code = static_cast<int>(std::min(std::nearbyint(row.largest / row.number), 7.0f));
          ASSERT_EQ(signed_code(Dtype::int4, code_at(view, o, k)), k == 1 ? -code : code) << row.largest;
        }
    }
  }
}

// Weights within the range of a block stay within half a step, as with float32 scales: no end is cut off.
TEST_F(Quantize, Binary16ScalesCutNothingOff) {
  RandomStream random(18, 0, RandomPurpose::test);
  const Master master = random_master(random, 33, 100, Fill::normal);
  for (const Dtype dtype : {Dtype::int16, Dtype::uint16, Dtype::int8, Dtype::uint8, Dtype::int4, Dtype::uint4}) {
    QuantizedWeight weight(Encoding(dtype, Granularity::block32_f16), 33, 100);
    quantize(master.view(), weight.view());
    const ConstWeight view = std::as_const(weight).view();
    for (std::size_t o = 0; o < 33; ++o)
      for (std::size_t k = 0; k < 100; ++k)
        ASSERT_LE(std::fabs(exact_value_at(view, o, k) - double{master.at(o, k)}), scale_at(view, o, k) * 0.5001)
            << name(dtype) << " " << o << ", " << k;
  }
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
