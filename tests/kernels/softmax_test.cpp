// SPDX-License-Identifier: Apache-2.0

#include "kernels/softmax.hpp"

#include "comparing.hpp"

namespace weft::kernels::softmax_test {
namespace {

using namespace testing_support;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<double> reference(const std::vector<double>& x, double temperature) {
  double largest = x[0], sum = 0;
  for (const double v : x) largest = std::fmax(largest, v);
  std::vector<double> y;
  for (const double v : x) y.push_back(std::exp((v - largest) / temperature)), sum += y.back();
  for (double& v : y) v /= sum;
  return y;
}

TEST(Softmax, FollowsTheFormulaAndItsSlope) {
  const FlushSubnormals flush;
  RandomStream random(61, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes)
    for (const float temperature : {1.0f, 0.5f, 3.7f}) {
      const Matrix x = random_matrix(random, 2, cols, 3.0f), dy = random_matrix(random, 2, cols);
      Matrix y(2, cols), dx(2, cols);
      softmax(x.view(), temperature, y.view());
      softmax_backward(y.view(), dy.view(), temperature, dx.view());
      EXPECT_TRUE(y.gaps_intact() && dx.gaps_intact());
      const auto t = static_cast<double>(temperature);
      for (std::size_t i = 0; i < 2; ++i) {
        std::vector<double> in(cols);
        for (std::size_t j = 0; j < cols; ++j) in[j] = static_cast<double>(x.at(i, j));
        const std::vector<double> want = reference(in, t);
        for (std::size_t j = 0; j < cols; ++j)
          // The exponent's own rounding is relative to its size, up to 60 here.
          ASSERT_NEAR(static_cast<double>(y.at(i, j)), want[j], want[j] * (2e-6 + 1.2e-7 * 20 / t)) << cols;
        if (cols > 200) continue;
        for (std::size_t j = 0; j < cols; ++j) {
          constexpr double kStep = 1e-5;
          std::vector<double> up = in, down = in;
          up[j] += kStep, down[j] -= kStep;
          const std::vector<double> y_up = reference(up, t), y_down = reference(down, t);
          double slope = 0;
          for (std::size_t k = 0; k < cols; ++k)
            slope += static_cast<double>(dy.at(i, k)) * (y_up[k] - y_down[k]) / (2 * kStep);
          ASSERT_NEAR(static_cast<double>(dx.at(i, j)), slope, 3e-6 / t) << cols;
        }
      }
    }
}

TEST(Softmax, HasTheDocumentedEdges) {
  const FlushSubnormals flush;
  const auto of = [](std::vector<float> x) {
    softmax({x.data(), 1, x.size(), x.size()}, 1.0f, {x.data(), 1, x.size(), x.size()});
    return x;
  };
  EXPECT_EQ(of({-7.0f}), std::vector<float>({1.0f}));
  EXPECT_EQ(of({1e30f, 1e30f}), std::vector<float>({0.5f, 0.5f}));
  EXPECT_EQ(of({0.0f, -kInf}), std::vector<float>({1.0f, 0.0f}));
  EXPECT_EQ(of({0.0f, -1000.0f}), std::vector<float>({1.0f, 0.0f}));
  for (const std::vector<float>& bad : {std::vector<float>{1, kNan, 2}, {kInf, 1}, {-kInf, -kInf}})
    for (const float v : of(bad)) EXPECT_TRUE(std::isnan(v));
}

TEST(Softmax, BackwardDividesByTheTemperature) {
  // The original system left 1/T out of its gradient.
  const FlushSubnormals flush;
  const float y[2] = {0.25f, 0.75f}, dy[2] = {1.0f, 0.0f};
  float dx[2];
  softmax_backward({y, 1, 2, 2}, {dy, 1, 2, 2}, 0.5f, {dx, 1, 2, 2});
  EXPECT_EQ(dx[0], 0.375f);
  EXPECT_EQ(dx[1], -0.375f);
}

}  // namespace
}  // namespace weft::kernels::softmax_test
