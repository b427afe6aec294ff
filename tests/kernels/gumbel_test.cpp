// SPDX-License-Identifier: Apache-2.0

#include "kernels/gumbel.hpp"

#include "comparing.hpp"
#include <algorithm>
#include <array>
#include <numeric>

namespace weft::kernels::gumbel_test {
namespace {

using namespace testing_support;

/// The noise alone of one row that stands at `state`, which moves on.
std::vector<float> noise(std::size_t cols, std::array<float, 4>& state) {
  const FlushSubnormals flush;
  const std::vector<float> zero(cols);
  std::vector<float> y(cols);
  gumbel_noise({zero.data(), 1, cols, cols}, {0x12345678u, 0x9abcdef0u}, {state.data(), 1, 4, 4},
               {state.data(), 1, 4, 4}, {y.data(), 1, cols, cols});
  return y;
}

TEST(Gumbel, HasTheMomentsAndTheTailsOfItsDistribution) {
  constexpr std::size_t kCols = 1000, kTicks = 500;
  std::array<float, 4> state{};
  std::vector<double> all;
  for (std::size_t t = 0; t < kTicks; ++t)
    for (const float v : noise(kCols, state)) all.push_back(static_cast<double>(v));
  const double n = kCols * kTicks, mean = std::accumulate(all.begin(), all.end(), 0.0) / n;
  double variance = 0;
  for (const double v : all) variance += (v - mean) * (v - mean) / n;
  const double sigma2 = M_PI * M_PI / 6;
  EXPECT_NEAR(mean, 0.57721566490153286, 5 * std::sqrt(sigma2 / n));
  EXPECT_NEAR(variance, sigma2, 5 * sigma2 * std::sqrt((5.4 - 1) / n));
  // Kolmogorov and Smirnov: the distance from exp(-exp(-x)); beyond 2.3 / sqrt(n) once in 20,000.
  std::sort(all.begin(), all.end());
  double distance = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    distance = std::max(distance, std::fabs(std::exp(-std::exp(-all[i])) - (static_cast<double>(i) + 0.5) / n));
  EXPECT_LT(distance * std::sqrt(n), 2.3);
  EXPECT_GT(all.front(), -2.812);
  EXPECT_LT(all.back(), 16.64);
}

}  // namespace
}  // namespace weft::kernels::gumbel_test
