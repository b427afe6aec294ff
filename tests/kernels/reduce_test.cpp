// SPDX-License-Identifier: Apache-2.0

#include "kernels/reduce.hpp"

#include "comparing.hpp"
#include <array>

namespace weft::kernels::reduce_test {
namespace {

using namespace testing_support;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// Rule R2 as docs/numerics.md words it.
template <class Step>
float strided_lanes(std::size_t n, Step step) {
  std::array<float, 64> lane{};
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = i; j < n; j += 64) lane[i] = step(lane[i], j);
  for (const std::size_t width : {32, 16, 8, 4, 2, 1})
    for (std::size_t i = 0; i < width; ++i) lane[i] = lane[i] + lane[i + width];
  return lane[0];
}

TEST(Reduce, AddsInSixtyFourStridedLanesOnEveryIsa) {
  RandomStream random(31, 0, RandomPurpose::test);
  bool order_shows = false;
  for (const std::size_t cols : kSizes) {
    // Sizes over six decades, so that another order would give other bits.
    Matrix a = random_matrix(random, 3, cols), b = random_matrix(random, 3, cols);
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < cols; ++j) a.at(i, j) *= std::ldexp(1.0f, static_cast<int>(random.next_below(20)));
    expect_one_result_on_every_isa("sums of " + std::to_string(cols), [&] {
      std::vector<float> s(6);
      row_sums(a.view(), s.data());
      row_dots(a.view(), b.view(), s.data() + 3);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(s[i], strided_lanes(cols, [&](float sum, std::size_t j) { return sum + a.at(i, j); }));
        EXPECT_EQ(s[3 + i],
                  strided_lanes(cols, [&](float sum, std::size_t j) { return std::fma(a.at(i, j), b.at(i, j), sum); }));
        float in_order = 0;
        for (std::size_t j = 0; j < cols; ++j) in_order += a.at(i, j);
        order_shows |= in_order != s[i];
      }
      return s;
    });
  }
  EXPECT_TRUE(order_shows);
}

TEST(Reduce, IsCloseToBinary64) {
  const FlushSubnormals flush;
  RandomStream random(32, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes) {
    const Matrix a = random_matrix(random, 1, cols), b = random_matrix(random, 1, cols);
    double sum = 0, sum_size = 0, dot = 0, dot_size = 0;
    for (std::size_t j = 0; j < cols; ++j) {
      const double x = static_cast<double>(a.at(0, j)), y = static_cast<double>(b.at(0, j));
      sum += x, sum_size += std::fabs(x), dot += x * y, dot_size += std::fabs(x * y);
    }
    float s = 0, d = 0;
    row_sums(a.view(), &s);
    row_dots(a.view(), b.view(), &d);
    // At most ceil(cols / 64) + 6 roundings touch an element.
    const double roundings = (static_cast<double>(cols / 64) + 7) * 0x1p-24;
    EXPECT_NEAR(static_cast<double>(s), sum, roundings * sum_size);
    EXPECT_NEAR(static_cast<double>(d), dot, roundings * dot_size);
  }
}

TEST(Reduce, ColumnsAccumulateRowByRow) {
  RandomStream random(34, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes) {
    const Matrix a = random_matrix(random, 7, cols, 1000.0f);
    expect_one_result_on_every_isa("columns of " + std::to_string(cols), [&] {
      std::vector<float> s(cols + 1, 0.25f);
      column_accumulate(a.view(), s.data());
      for (std::size_t j = 0; j < cols; ++j) {
        float want = 0.25f;
        for (std::size_t i = 0; i < 7; ++i) want = want + a.at(i, j);
        EXPECT_EQ(s[j], want);
      }
      EXPECT_EQ(s[cols], 0.25f);
      return s;
    });
  }
}

std::uint32_t argmax(std::vector<float> row) {
  std::uint32_t index = 12345;
  row_argmax({row.data(), 1, row.size(), row.size()}, &index);
  return index;
}

TEST(Reduce, ArgmaxIsTheFirstOfTheLargestAndNeverANan) {
  const FlushSubnormals flush;
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    EXPECT_EQ(argmax({3}), 0u);
    EXPECT_EQ(argmax({1, 7, 7, 2}), 1u);
    EXPECT_EQ(argmax({-0.0f, 0.0f}), 0u);
    EXPECT_EQ(argmax({kNan, 1, kNan, 2, 2}), 3u);
    EXPECT_EQ(argmax({kNan, kNan}), 0u);
    EXPECT_EQ(argmax({kNan, -kInf, -kInf}), 1u);
    EXPECT_EQ(argmax({1, kInf, kNan}), 1u);
    for (const std::size_t n : kSizes)
      for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
        std::vector<float> row(n, -5.0f);
        row[at] = -4.0f;
        EXPECT_EQ(argmax(row), at);
        row[n - 1] = -4.0f;
        EXPECT_EQ(argmax(row), at);
      }
  }
}

TEST(Reduce, AnEmptyRowSumsToZero) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    float s = 5;
    row_sums({nullptr, 1, 0, 0}, &s);
    EXPECT_TRUE(same_bits(s, 0.0f));
  }
}

}  // namespace
}  // namespace weft::kernels::reduce_test
