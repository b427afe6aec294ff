// SPDX-License-Identifier: Apache-2.0

#include "kernels/loss.hpp"

#include "comparing.hpp"

namespace weft::kernels {
namespace {

using namespace testing_support;

double cross_entropy_reference(const std::vector<double>& x, std::size_t label) {
  double largest = x[0], sum = 0;
  for (const double v : x) largest = std::fmax(largest, v);
  for (const double v : x) sum += std::exp(v - largest);
  return std::log(sum) + largest - x[label];
}

TEST(Loss, CrossEntropyFollowsTheFormulaAndItsSlope) {
  const FlushSubnormals flush;
  RandomStream random(71, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes) {
    const Matrix x = random_matrix(random, 3, cols, 4.0f);
    std::uint32_t labels[3];
    for (std::uint32_t& label : labels) label = random.next_below(static_cast<std::uint32_t>(cols));
    Matrix dx(3, cols);
    float loss[3];
    cross_entropy(x.view(), labels, loss, dx.view());
    EXPECT_TRUE(dx.gaps_intact());
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<double> in(cols);
      for (std::size_t j = 0; j < cols; ++j) in[j] = static_cast<double>(x.at(i, j));
      const double want = cross_entropy_reference(in, labels[i]);
      ASSERT_NEAR(static_cast<double>(loss[i]), want, 1e-6 * (1 + want)) << cols;
      for (std::size_t j = 0; j < cols; ++j) {
        constexpr double kStep = 1e-5;
        std::vector<double> up = in, down = in;
        up[j] += kStep, down[j] -= kStep;
        const double slope =
            (cross_entropy_reference(up, labels[i]) - cross_entropy_reference(down, labels[i])) / (2 * kStep);
        ASSERT_NEAR(static_cast<double>(dx.at(i, j)), slope, 2e-6) << cols;
      }
    }
  }
}

TEST(Loss, MeanSquaredErrorFollowsTheFormulaAndItsSlope) {
  const FlushSubnormals flush;
  RandomStream random(72, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes) {
    const Matrix x = random_matrix(random, 2, cols), target = random_matrix(random, 2, cols);
    Matrix dx(2, cols);
    float loss[2];
    mean_squared_error(x.view(), target.view(), loss, dx.view());
    EXPECT_TRUE(dx.gaps_intact());
    for (std::size_t i = 0; i < 2; ++i) {
      double want = 0;
      for (std::size_t j = 0; j < cols; ++j) {
        const double d = static_cast<double>(x.at(i, j)) - static_cast<double>(target.at(i, j));
        want += d * d / static_cast<double>(cols);
        // A subtraction and a division, each rounded once.
        const double slope = 2 * d / static_cast<double>(cols);
        ASSERT_NEAR(static_cast<double>(dx.at(i, j)), slope, 2.001 * 0x1p-24 * std::fabs(slope));
      }
      ASSERT_NEAR(static_cast<double>(loss[i]), want, 2e-6 * want);
    }
  }
}

TEST(Loss, ASureRightAnswerCostsNothing) {
  const FlushSubnormals flush;
  const float x[3] = {-200.0f, 0.0f, -200.0f};
  const std::uint32_t label = 1;
  float loss = 1, dx[3];
  cross_entropy({x, 1, 3, 3}, &label, &loss, {dx, 1, 3, 3});
  EXPECT_EQ(loss, 0.0f);
  for (const float v : dx) EXPECT_EQ(v, 0.0f);
}

}  // namespace
}  // namespace weft::kernels
