// SPDX-License-Identifier: Apache-2.0

#include "kernels/statistics.hpp"

#include "comparing.hpp"

namespace weft::kernels::statistics_test {
namespace {

using namespace testing_support;

TEST(Statistics, AreThoseOfTheirFormulas) {
  const FlushSubnormals flush;
  RandomStream random(97, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes)
    for (const float threshold : {0.0f, 0.75f}) {
      Matrix x = random_matrix(random, 3, cols, 2.0f), y(3, kStatistics);
      for (std::size_t j = 0; j < cols; j += 3) x.at(1, j) = j % 2 ? 0.0f : -0.0f;
      for (std::size_t j = 0; j < cols; ++j) x.at(2, j) += 100.0f;
      row_statistics(x.view(), threshold, y.view());
      EXPECT_TRUE(y.gaps_intact());
      for (std::size_t b = 0; b < 3; ++b) {
        const auto n = static_cast<double>(cols);
        double sum = 0, sizes = 0, apart = 0, active = 0, squares = 0;
        for (std::size_t j = 0; j < cols; ++j)
          sum += static_cast<double>(x.at(b, j)), sizes += std::fabs(double{x.at(b, j)});
        for (std::size_t j = 0; j < cols; ++j) {
          const auto v = static_cast<double>(x.at(b, j));
          apart += (v - sum / n) * (v - sum / n);
          active += std::fabs(v) > static_cast<double>(threshold);
          squares += v * v;
        }
        const double rounding = 30 * 0x1p-24;
        ASSERT_NEAR(y.at(b, 0), sum / n, rounding * sizes / n);
        // The mean's own rounding is part of every difference from it.
        ASSERT_NEAR(y.at(b, 1), std::sqrt(apart / n), rounding * (std::sqrt(apart / n) + sizes / n));
        ASSERT_EQ(y.at(b, 2), static_cast<float>(active / n));
        ASSERT_NEAR(y.at(b, 3), std::sqrt(squares / n), rounding * std::sqrt(squares / n));
      }
    }
}

}  // namespace
}  // namespace weft::kernels::statistics_test
