// SPDX-License-Identifier: Apache-2.0

#include "kernels/entmax.hpp"

#include "kernels/softmax.hpp"

#include "comparing.hpp"
#include <algorithm>
#include <functional>
#include <numeric>

namespace weft::kernels::entmax_test {
namespace {

using namespace testing_support;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
using Vector = std::vector<double>;

/// Algorithm 1 of Martins and Astudillo: the largest k with 1 + k z_(k) > sum of the k largest.
Vector sparsemax_by_sorting(const Vector& x, double temperature) {
  Vector z;
  for (const double v : x) z.push_back(v / temperature);
  Vector sorted = z;
  std::sort(sorted.rbegin(), sorted.rend());
  double sum = 0, threshold = 0;
  for (std::size_t k = 1; k <= z.size(); ++k) {
    sum += sorted[k - 1];
    if (1 + static_cast<double>(k) * sorted[k - 1] > sum) threshold = (sum - 1) / static_cast<double>(k);
  }
  for (double& v : z) v = std::max(v - threshold, 0.0);
  return z;
}

/// Algorithm 2 of Peters, Niculae and Martins: exact 1.5-entmax.
Vector entmax15_by_sorting(const Vector& x, double temperature) {
  Vector z;
  const double top = *std::max_element(x.begin(), x.end());
  for (const double v : x) z.push_back((v - top) / temperature / 2);
  Vector sorted = z;
  std::sort(sorted.rbegin(), sorted.rend());
  double threshold = 0, sum = 0;
  for (std::size_t k = 1; k <= z.size(); ++k) {
    sum += sorted[k - 1];
    const double n = static_cast<double>(k), mean = sum / n;
    double spread = 0;
    for (std::size_t j = 0; j < k; ++j) spread += (sorted[j] - mean) * (sorted[j] - mean);
    if (spread > 1) break;
    const double candidate = mean - std::sqrt((1 - spread) / n);
    if (candidate <= sorted[k - 1]) threshold = candidate;
  }
  for (double& v : z) v = std::pow(std::max(v - threshold, 0.0), 2);
  return z;
}

/// The threshold of any alpha by halving an interval in binary64, on log max(p): alpha near 1 stays well-conditioned.
Vector entmax_by_halving(const Vector& x, double alpha, double temperature) {
  const double k = alpha - 1, top = *std::max_element(x.begin(), x.end());
  double low = -std::log(static_cast<double>(x.size())), high = 0;
  const auto relative = [&](double v, double log_top) {  // p / max(p)
    const double u = k * ((v - top) / temperature) / std::exp(k * log_top);
    return u <= -1 ? 0.0 : std::exp(std::log1p(u) / k);
  };
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    double sum = 0;
    for (const double v : x) sum += relative(v, middle);
    (std::exp(middle) * sum < 1 ? low : high) = middle;
  }
  Vector p;
  for (const double v : x) p.push_back(std::exp(high) * relative(v, high));
  return p;
}

Vector reference(const Vector& x, double alpha, double temperature) {
  if (alpha == 2) return sparsemax_by_sorting(x, temperature);
  if (alpha == 1.5) return entmax15_by_sorting(x, temperature);
  return entmax_by_halving(x, alpha, temperature);
}

const std::vector<double> kAlphas = {2, 1.5, 1 + 0x1p-20, 1.125, 1.25, 1.75, 2.5, 3, 5};

TEST(Entmax, ReferencesAgree) {
  RandomStream random(71, 0, RandomPurpose::test);
  for (int round = 0; round < 50; ++round) {
    Vector x(1 + random.next_below(30));
    for (double& v : x) v = random.next_normal();
    for (const double alpha : {1.5, 2.0}) {
      const Vector a = reference(x, alpha, 0.7), b = entmax_by_halving(x, alpha, 0.7);
      for (std::size_t j = 0; j < x.size(); ++j) ASSERT_NEAR(a[j], b[j], 1e-12) << alpha;
    }
  }
}

// r = (alpha - 1)(x - largest)/T has an error of at most 1.5 ulp, of a value within 1 for what is above the threshold;
// t follows by rounded sums. Where alpha > 2 the root makes that error larger near the threshold, so that y^(alpha - 1)
// is compared, which is r - t.
TEST(Entmax, FollowsTheSortedAndTheHalvedReference) {
  const FlushSubnormals flush;
  RandomStream random(72, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes)
    for (const double alpha : kAlphas)
      for (const float temperature : {1.0f, 0.5f, 3.7f})
        for (const float spread : {0.01f, 1.0f, 20.0f}) {
          const Matrix x = random_matrix(random, 2, cols, spread);
          Matrix y(2, cols);
          entmax(x.view(), static_cast<float>(alpha - 1), temperature, y.view());
          EXPECT_TRUE(y.gaps_intact());
          for (std::size_t i = 0; i < 2; ++i) {
            Vector in(cols);
            for (std::size_t j = 0; j < cols; ++j) in[j] = static_cast<double>(x.at(i, j));
            const Vector want = reference(in, alpha, static_cast<double>(temperature));
            const double power = alpha > 2 ? alpha - 1 : 1;
            double sum = 0;
            for (std::size_t j = 0; j < cols; ++j) {
              const auto got = static_cast<double>(y.at(i, j));
              sum += got;
              ASSERT_NEAR(std::pow(got, power), std::pow(want[j], power), 1e-6 + 2e-6 * want[j])
                  << cols << " of alpha " << alpha << ", temperature " << temperature << ", spread " << spread;
            }
            ASSERT_NEAR(sum, 1.0, 2e-6) << cols << " of alpha " << alpha;
          }
        }
}

TEST(Entmax, TendsToSoftmaxAsAlphaTendsToOne) {
  const FlushSubnormals flush;
  RandomStream random(73, 0, RandomPurpose::test);
  const Matrix x = random_matrix(random, 3, 100, 2.0f);
  Matrix near(3, 100), y(3, 100);
  entmax(x.view(), 1e-8f, 1.0f, near.view());
  softmax(x.view(), 1.0f, y.view());
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 100; ++j) ASSERT_NEAR(near.at(i, j), y.at(i, j), 1e-6f);
}

TEST(Entmax, SendsBackTheFiniteDifferences) {
  const FlushSubnormals flush;
  RandomStream random(74, 0, RandomPurpose::test);
  for (const double alpha : kAlphas) {
    int compared = 0;
    for (const std::size_t cols : {1, 2, 3, 7, 13, 31})
      for (const float temperature : {1.0f, 0.5f, 3.7f})
        for (int round = 0; round < 12; ++round) {
          const Matrix x = random_matrix(random, 1, cols), dy = random_matrix(random, 1, cols);
          Matrix y(1, cols), dx(1, cols);
          entmax(x.view(), static_cast<float>(alpha - 1), temperature, y.view());
          entmax_backward(y.view(), dy.view(), static_cast<float>(alpha - 1), temperature, dx.view());
          EXPECT_TRUE(dx.gaps_intact());
          const auto t = static_cast<double>(temperature);
          Vector in(cols);
          for (std::size_t j = 0; j < cols; ++j) in[j] = static_cast<double>(x.at(0, j));
          // The slope jumps where an element reaches the threshold: those rows have no difference to compare with.
          const Vector p = reference(in, alpha, t);
          const double top = *std::max_element(in.begin(), in.end());
          const std::size_t at_top = static_cast<std::size_t>(std::max_element(in.begin(), in.end()) - in.begin());
          const double threshold = -std::pow(p[at_top], alpha - 1);
          double nearest = 1;
          for (const double v : in) nearest = std::min(nearest, std::fabs((alpha - 1) * (v - top) / t - threshold));
          if (nearest < 0.02) continue;
          ++compared;
          constexpr double kStep = 1e-5;
          for (std::size_t j = 0; j < cols; ++j) {
            Vector above = in, below = in;
            above[j] += kStep, below[j] -= kStep;
            const Vector y_above = reference(above, alpha, t), y_below = reference(below, alpha, t);
            double slope = 0;
            for (std::size_t k = 0; k < cols; ++k)
              slope += static_cast<double>(dy.at(0, k)) * (y_above[k] - y_below[k]) / (2 * kStep);
            ASSERT_NEAR(static_cast<double>(dx.at(0, j)), slope, 1e-5 / t) << cols << " of alpha " << alpha;
          }
        }
    EXPECT_GE(compared, 20) << alpha;
  }
}

TEST(Entmax, GivesARowTheSameBitsAloneAndInABatch) {
  const FlushSubnormals flush;
  RandomStream random(76, 0, RandomPurpose::test);
  const Matrix x = random_matrix(random, 9, 77);
  for (const double alpha : kAlphas) {
    Matrix together(9, 77);
    entmax(x.view(), static_cast<float>(alpha - 1), 0.9f, together.view());
    for (std::size_t i = 0; i < 9; ++i) {
      std::vector<float> alone(77);
      entmax({x.view().row(i), 1, 77, 77}, static_cast<float>(alpha - 1), 0.9f, {alone.data(), 1, 77, 77});
      for (std::size_t j = 0; j < 77; ++j) ASSERT_TRUE(same_bits(alone[j], together.at(i, j)));
    }
  }
}

TEST(Entmax, HasTheDocumentedEdges) {
  const FlushSubnormals flush;
  for (const double alpha : kAlphas) {
    const auto of = [&](std::vector<float> x) {
      entmax({x.data(), 1, x.size(), x.size()}, static_cast<float>(alpha - 1), 1.0f, {x.data(), 1, x.size(), x.size()});
      return x;
    };
    EXPECT_EQ(of({-7.0f}), std::vector<float>({1.0f}));
    EXPECT_EQ(of({1e30f, 1e30f}), std::vector<float>({0.5f, 0.5f})) << alpha;
    EXPECT_EQ(of({0.0f, -0.0f, 0.0f, -0.0f}), std::vector<float>(4, 0.25f)) << alpha;
    EXPECT_EQ(of({0.0f, -kInf}), std::vector<float>({1.0f, 0.0f})) << alpha;
    EXPECT_EQ(of({3e38f, -3e38f, -3e38f}), std::vector<float>({1.0f, 0.0f, 0.0f})) << alpha;
    EXPECT_EQ(of({5.0f, -kInf, 5.0f}), std::vector<float>({0.5f, 0.0f, 0.5f})) << alpha;
    const std::vector<float> equal = of(std::vector<float>(1000, -3.25f));
    for (const float v : equal) EXPECT_NEAR(v, 0.001f, 1e-9f) << alpha;
    const std::vector<float> ties = of({0.25f, 0.75f, 0.75f, 0.25f, 0.0f});
    EXPECT_EQ(ties[1], ties[2]);
    EXPECT_EQ(ties[0], ties[3]);
    EXPECT_GT(ties[1], ties[0]);
    for (const std::vector<float>& bad : {std::vector<float>{1, kNan, 2}, {kInf, 1}, {-kInf, -kInf}})
      for (const float v : of(bad)) EXPECT_TRUE(std::isnan(v)) << alpha;
  }
}

TEST(Entmax, IsExactlyZeroBelowTheThreshold) {
  const FlushSubnormals flush;
  // Sparsemax of (0.1, 1.1, 0.2): threshold (1.1 + 0.2 - 1) / 2 = 0.15.
  const float x[3] = {0.1f, 1.1f, 0.2f};
  float y[3], dx[3];
  entmax({x, 1, 3, 3}, 1.0f, 1.0f, {y, 1, 3, 3});
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_NEAR(y[1], 0.95f, 1e-7f);
  EXPECT_NEAR(y[2], 0.05f, 1e-7f);
  // A zero has no slope, whatever comes from above; the others share their mean, divided by the temperature.
  const float dy[3] = {100.0f, 3.0f, 1.0f};
  entmax_backward({y, 1, 3, 3}, {dy, 1, 3, 3}, 1.0f, 0.5f, {dx, 1, 3, 3});
  EXPECT_EQ(dx[0], 0.0f);
  EXPECT_EQ(dx[1], 2.0f);
  EXPECT_EQ(dx[2], -2.0f);
}

TEST(Entmax, KeepsSteepSlopesFinite) {
  const FlushSubnormals flush;
  const float y[3] = {0x1p-126f, 0.5f, 0.5f}, dy[3] = {1.0f, 2.0f, -3.0f};
  for (const float k : {1.5f, 3.0f, 20.0f}) {
    float dx[3];
    entmax_backward({y, 1, 3, 3}, {dy, 1, 3, 3}, k, 1.0f, {dx, 1, 3, 3});
    for (const float v : dx) EXPECT_TRUE(std::isfinite(v)) << k;
  }
}

}  // namespace
}  // namespace weft::kernels::entmax_test
