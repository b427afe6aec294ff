// SPDX-License-Identifier: Apache-2.0

#include "kernels/mixture.hpp"

#include "kernels/float_environment.hpp"

#include <gtest/gtest.h>

#include "comparing.hpp"
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace weft::kernels::mixture_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> keep(std::vector<float> x, std::size_t count) {
  const MatrixView row{x.data(), 1, x.size(), x.size()};
  top_k_mask(row, count, row);
  return x;
}

TEST(TopKMask, KeepsTheFirstOfEqualOnes) {
  EXPECT_EQ(keep({1, 3, 2, 3, 3}, 2), (std::vector<float>{-kInfinity, 3, -kInfinity, 3, -kInfinity}));
  EXPECT_EQ(keep({1, 3, 2}, 3), (std::vector<float>{1, 3, 2}));
  EXPECT_EQ(keep({1, 3, 2}, 9), (std::vector<float>{1, 3, 2}));
  EXPECT_EQ(keep({5}, 1), (std::vector<float>{5}));
  EXPECT_EQ(keep({-0.0f, 0.0f}, 1)[1], -kInfinity) << "zeros are equal";
}

TEST(TopKMask, TakesInfinitiesAndHandsOnNan) {
  EXPECT_EQ(keep({kInfinity, 1, kInfinity}, 1), (std::vector<float>{kInfinity, -kInfinity, -kInfinity}));
  EXPECT_EQ(keep({-kInfinity, -kInfinity, 4}, 2), (std::vector<float>{-kInfinity, -kInfinity, 4}));
  for (const float v : keep({1, std::nanf(""), 2}, 1)) EXPECT_TRUE(std::isnan(v));
}

TEST(TopKMask, AgreesWithASort) {
  RandomStream random(5, 0, RandomPurpose::test);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> x(1 + random.next_below(40));
    for (float& v : x) v = static_cast<float>(random.next_below(9)) - 4;
    const std::size_t count = 1 + random.next_below(static_cast<std::uint32_t>(x.size()));
    std::vector<std::size_t> order(x.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
    std::vector<float> wanted(x.size(), -kInfinity);
    for (std::size_t i = 0; i < count; ++i) wanted[order[i]] = x[order[i]];
    EXPECT_EQ(keep(x, count), wanted);
  }
}

TEST(WeightedSum, EqualsFloat64AndGoesBack) {
  for (const Isa isa : available_isas()) {
    const Status set = set_active_isa(isa);
    ASSERT_TRUE(set.has_value()) << name(isa);
    const FlushSubnormals exact;
    RandomStream random(6, 0, RandomPurpose::test);
    for (const auto& [rows, parts, cols] : {std::array<std::size_t, 3>{1, 1, 1}, {3, 4, 17}, {2, 7, 64}, {5, 3, 129}}) {
      std::vector<float> p(rows * parts), x(rows * parts * cols), dy(rows * cols), y(rows * cols), dp(p.size()),
          dx(x.size());
      for (auto* values : {&p, &x, &dy})
        for (float& v : *values) v = random.next_normal();
      weighted_sum({p.data(), rows, parts, parts}, {x.data(), rows, parts * cols, parts * cols},
                   {y.data(), rows, cols, cols});
      weighted_sum_backward({p.data(), rows, parts, parts}, {x.data(), rows, parts * cols, parts * cols},
                            {dy.data(), rows, cols, cols}, {dp.data(), rows, parts, parts},
                            {dx.data(), rows, parts * cols, parts * cols});
      for (std::size_t b = 0; b < rows; ++b) {
        for (std::size_t j = 0; j < cols; ++j) {
          double sum = 0;
          float exact_sum = 0;
          for (std::size_t e = 0; e < parts; ++e) {
            const float v = x[(b * parts + e) * cols + j], w = p[b * parts + e];
            sum += double{v} * w;
            exact_sum = std::fma(w, v, exact_sum);
            EXPECT_EQ(dx[(b * parts + e) * cols + j], w * dy[b * cols + j]);
          }
          EXPECT_NEAR(y[b * cols + j], sum, 1e-5);
          EXPECT_EQ(y[b * cols + j], exact_sum);
        }
        for (std::size_t e = 0; e < parts; ++e) {
          double sum = 0;
          for (std::size_t j = 0; j < cols; ++j) sum += double{dy[b * cols + j]} * x[(b * parts + e) * cols + j];
          EXPECT_NEAR(dp[b * parts + e], sum, 1e-4);
        }
      }
    }
  }
  ASSERT_TRUE(set_active_isa(available_isas().back()).has_value());
}

}  // namespace
}  // namespace weft::kernels::mixture_test
