// SPDX-License-Identifier: Apache-2.0

#include "kernels/log_softmax.hpp"

#include "comparing.hpp"

namespace weft::kernels::log_softmax_test {
namespace {

using namespace testing_support;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<double> reference(const std::vector<double>& x, double base) {
  double largest = x[0], sum = 0;
  for (const double v : x) largest = std::fmax(largest, v);
  for (const double v : x) sum += std::exp(v - largest);
  std::vector<double> y;
  for (const double v : x) y.push_back(v - largest - std::log(sum) + base);
  return y;
}

TEST(LogSoftmax, FollowsTheFormulaAndItsSlope) {
  const FlushSubnormals flush;
  RandomStream random(63, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes)
    for (const bool has_base : {false, true}) {
      const Matrix x = random_matrix(random, 2, cols, 3.0f), dy = random_matrix(random, 2, cols);
      const Matrix base = random_matrix(random, 2, 1, 2.0f);
      const ConstMatrixView from = has_base ? base.view() : ConstMatrixView{};
      Matrix y(2, cols), dx(2, cols), dbase(2, 1);
      dbase.at(0, 0) = 1.0f, dbase.at(1, 0) = -2.0f;
      log_softmax(x.view(), from, y.view());
      log_softmax_backward(y.view(), from, dy.view(), dx.view(), has_base ? dbase.view() : MatrixView{});
      EXPECT_TRUE(y.gaps_intact() && dx.gaps_intact() && dbase.gaps_intact());
      for (std::size_t i = 0; i < 2; ++i) {
        std::vector<double> in(cols);
        for (std::size_t j = 0; j < cols; ++j) in[j] = static_cast<double>(x.at(i, j));
        const double shift = has_base ? static_cast<double>(base.at(i, 0)) : 0.0;
        const std::vector<double> want = reference(in, shift);
        double total = 0;
        for (std::size_t j = 0; j < cols; ++j) {
          ASSERT_NEAR(static_cast<double>(y.at(i, j)), want[j], 4e-7 * (std::fabs(want[j]) + 4)) << cols;
          total += static_cast<double>(dy.at(i, j));
        }
        const double before = i == 0 ? 1.0 : -2.0, sums = 1e-6 * std::sqrt(static_cast<double>(cols)) + 1e-6;
        ASSERT_NEAR(static_cast<double>(dbase.at(i, 0)), before + (has_base ? total : 0), 4 * sums);
        for (std::size_t j = 0; j < cols; ++j)
          // The slope of sum(dy y) by x[j]: dy[j] - softmax(x)[j] sum(dy).
          ASSERT_NEAR(static_cast<double>(dx.at(i, j)),
                      static_cast<double>(dy.at(i, j)) - std::exp(want[j] - shift) * total, 4e-6 + 2 * sums)
              << cols;
      }
    }
}

TEST(LogSoftmax, HasTheDocumentedEdges) {
  const FlushSubnormals flush;
  const auto of = [](std::vector<float> x) {
    std::vector<float> y(x.size());
    log_softmax({x.data(), 1, x.size(), x.size()}, {}, {y.data(), 1, x.size(), x.size()});
    return y;
  };
  EXPECT_EQ(of({5.0f}), std::vector<float>({0.0f}));
  EXPECT_EQ(of({0.0f, -kInf}), std::vector<float>({0.0f, -kInf}));
  EXPECT_EQ(of({1e30f, -1e30f})[1], -2e30f);
  for (const float v : of({1, kNan})) EXPECT_TRUE(std::isnan(v));
  for (const float v : of({1, kInf})) EXPECT_TRUE(std::isnan(v));
  for (const float v : of({-kInf, -kInf})) EXPECT_TRUE(std::isnan(v));
}

TEST(ClampedLog, IsTheLogarithmAndNeverInfiniteBelow) {
  const FlushSubnormals flush;
  std::vector<float> x{1.0f, 0.5f, 0.0f, -0.0f, 1e-40f, 0x1p-126f, 1e-30f, 7.0f, kNan}, y(x.size()), slope(x.size(), 2);
  const auto rows = [](std::vector<float>& v) { return MatrixView{v.data(), 1, v.size(), v.size()}; };
  clamped_log(rows(x), rows(y));
  clamped_log_backward(rows(x), rows(slope), rows(slope));
  for (std::size_t j = 0; j + 1 < x.size(); ++j) {
    const double at = std::fmax(static_cast<double>(x[j]), 0x1p-126);
    EXPECT_NEAR(static_cast<double>(y[j]), std::log(at), 1.3e-7 * std::fabs(std::log(at))) << j;
    EXPECT_EQ(slope[j], static_cast<float>(2.0 / at)) << j;
  }
  EXPECT_TRUE(std::isnan(y.back()) && std::isnan(slope.back()));
}

}  // namespace
}  // namespace weft::kernels::log_softmax_test
