// SPDX-License-Identifier: Apache-2.0

#include "kernels/binary.hpp"

#include "comparing.hpp"

namespace weft::kernels::binary_test {
namespace {

using namespace testing_support;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

float one(BinaryOp op, float a, float b) {
  float y = 0;
  binary(op, {&a, 1, 1, 1}, {&b, 1, 1, 1}, {&y, 1, 1, 1});
  return y;
}

TEST(Binary, ComputesTheCorrectlyRoundedResult) {
  const FlushSubnormals flush;
  RandomStream random(22, 0, RandomPurpose::test);
  for (int i = 0; i < 20000; ++i) {
    const float a = random.next_normal() * 100.0f, b = random.next_normal();
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    ASSERT_EQ(one(BinaryOp::mul, a, b), static_cast<float>(x * y));
    ASSERT_EQ(one(BinaryOp::max, a, b), std::fmax(a, b));
    ASSERT_EQ(one(BinaryOp::min, a, b), std::fmin(a, b));
    // Exact in binary64 for numbers this close in size, so rounded once.
    ASSERT_EQ(one(BinaryOp::add, a, b), static_cast<float>(x + y));
    ASSERT_EQ(one(BinaryOp::sub, a, b), static_cast<float>(x - y));
  }
}

TEST(Binary, MaximumAndMinimumKeepNansFlushAndTakeTheSecondOfEquals) {
  const FlushSubnormals flush;
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const BinaryOp op : {BinaryOp::max, BinaryOp::min}) {
      EXPECT_TRUE(std::isnan(one(op, kNan, 1.0f)));
      EXPECT_TRUE(std::isnan(one(op, 1.0f, kNan)));
      EXPECT_TRUE(std::isnan(one(op, -kInf, kNan)));
      EXPECT_TRUE(same_bits(one(op, 0.0f, -0.0f), -0.0f));
      EXPECT_TRUE(same_bits(one(op, -0.0f, 0.0f), 0.0f));
    }
    EXPECT_TRUE(same_bits(one(BinaryOp::max, -1.0f, 0x1p-130f), 0.0f));
    EXPECT_TRUE(same_bits(one(BinaryOp::min, 1.0f, -0x1p-130f), -0.0f));
    EXPECT_EQ(one(BinaryOp::max, -kInf, 0x1p-126f), 0x1p-126f);
  }
}

TEST(Binary, ScaleAndAxpyAreOneRoundingOnEveryIsa) {
  RandomStream random(23, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes) {
    const Matrix x = random_matrix(random, 3, cols), y = random_matrix(random, 3, cols);
    const Matrix sx = special_matrix(random, 3, cols), sy = special_matrix(random, 3, cols);
    const float alpha = random.next_normal();
    expect_one_result_on_every_isa("axpy of " + std::to_string(cols), [&] {
      Matrix z(y), s(3, cols, 1), in_place(x), special(sy);
      axpy(alpha, x.view(), z.view());
      scale(alpha, x.view(), s.view());
      scale(alpha, in_place.view(), in_place.view());
      axpy(alpha, sx.view(), special.view());
      scale(alpha, special.view(), special.view());
      EXPECT_TRUE(z.gaps_intact() && s.gaps_intact() && in_place.gaps_intact() && special.gaps_intact());
      expect_same_bits(in_place.values(), s.values(), "in place");
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 0; j < cols; ++j) {
          // The product of two binary32 numbers is exact in binary64.
          const double product = static_cast<double>(alpha) * static_cast<double>(x.at(i, j));
          EXPECT_EQ(s.at(i, j), static_cast<float>(product));
          EXPECT_EQ(z.at(i, j), std::fma(alpha, x.at(i, j), y.at(i, j)));
        }
      std::vector<float> all = z.values(), more = special.values();
      all.insert(all.end(), more.begin(), more.end());
      return all;
    });
  }
}

TEST(Binary, CopyKeepsEveryBitAndFillEveryGap) {
  RandomStream random(24, 0, RandomPurpose::test);
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    // Rows of one to four cache lines go a way of their own, as do long ones, and rows without gaps.
    for (const std::size_t cols : {1, 15, 16, 17, 32, 37, 48, 64, 65, 1023, 1024, 1025})
      for (const std::size_t rows : {0, 1, 2, 3, 4, 5, 9})
        for (const std::size_t gap : {0, 3}) {
          SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(cols) + ", gap " + std::to_string(gap));
          const Matrix apart = special_matrix(random, rows, cols, 2);
          Matrix x(rows, cols, gap), y(rows, cols, gap), filled(rows, cols, gap);
          for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < cols; ++j) x.at(i, j) = apart.at(i, j);
          copy(x.view(), y.view());
          fill(-2.5f, filled.view());
          for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < cols; ++j) {
              ASSERT_EQ(std::bit_cast<std::uint32_t>(y.at(i, j)), std::bit_cast<std::uint32_t>(x.at(i, j)));
              ASSERT_EQ(filled.at(i, j), -2.5f);
            }
          EXPECT_TRUE(y.gaps_intact() && filled.gaps_intact());
          if (gap && cols == 64 && rows > 1) {
            copy(x.view(), y.view());
            EXPECT_EQ(last_isa_run(), general_isa(isa));
          }
        }
  }
}

}  // namespace
}  // namespace weft::kernels::binary_test
