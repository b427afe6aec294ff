// SPDX-License-Identifier: Apache-2.0
// Policies of real values: draws and gradients against a float64 reference that tools/make_policy_goldens.py made, the
// distribution of the draws, and the largest outputs.

#include "agent/policies/policy.hpp"

#include "kernels/float_environment.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/mesh/testing.hpp"
#include "tests/support/source_path.hpp"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace weft::agent::policy_test {
namespace {

using mesh::testing_support::must;

constexpr std::uint64_t kSeed = 5;

// Exponentials, logarithms and cosines are binary32 here: within 4e-6 of the largest number of a row.
TEST(GaussianPolicy, DrawsAndLearnsAsTheEquationsSay) {
  const kernels::FlushSubnormals exact;
  std::ifstream file(source_path("tests/data/policies.json"));
  std::stringstream text;
  text << file.rdbuf();
  const Json rows = must(parse_json(text.str(), "policies.json"));
  std::size_t compared = 0;
  for (const Json& row : rows) {
    const auto outputs = row.find("outputs")->get<std::vector<float>>();
    const auto action = row.find("action")->get<std::vector<double>>();
    const auto gradient = row.find("gradient")->get<std::vector<double>>();
    const auto policy = make_gaussian_policy(2, action.size(), row.find("least_deviation")->get<double>());
    ASSERT_EQ(policy->width(), outputs.size());
    RandomStream random(kSeed, row.find("place")->get<std::uint64_t>(), RandomPurpose::explore);
    const Action drawn = must(policy->draw(1, outputs, random));
    ASSERT_EQ(drawn.values.size(), action.size());
    for (std::size_t i = 0; i < action.size(); ++i) ASSERT_NEAR(drawn.values[i], action[i], 4e-6 * 8);
    std::vector<float> found(outputs.size());
    policy->find_gradient(1, row.find("weight")->get<double>(), found);
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], gradient[i], 4e-6 * std::max(1.0, std::fabs(gradient[i]))) << row.dump() << i;
    ++compared;
  }
  EXPECT_EQ(compared, 60u);
}

// Moments of n draws lie within 5 standard errors of those of the distribution, the largest distance of the two
// distribution functions below Kolmogorov's limit for one in 10^6.
TEST(GaussianPolicy, DrawsFromTheNormalDistribution) {
  const kernels::FlushSubnormals exact;
  constexpr std::size_t n = 200000;
  std::vector<double> draws(n);
  for (std::size_t i = 0; i < n; ++i) {
    RandomStream random(kSeed, i, RandomPurpose::explore);
    draws[i] = draw_normal(random);
    EXPECT_EQ(random.position(), 2u);
  }
  double mean = 0, squares = 0, cubes = 0, fourths = 0;
  for (const double x : draws) {
    mean += x / n;
    squares += x * x / n;
    cubes += x * x * x / n;
    fourths += x * x * x * x / n;
  }
  const double error = 1 / std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(mean, 0, 5 * error);
  EXPECT_NEAR(squares, 1, 5 * std::sqrt(2.0) * error);
  EXPECT_NEAR(cubes, 0, 5 * std::sqrt(15.0) * error);
  EXPECT_NEAR(fourths, 3, 5 * std::sqrt(96.0) * error);
  std::sort(draws.begin(), draws.end());
  double distance = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double below = 0.5 * std::erfc(-draws[i] / std::sqrt(2.0));
    distance = std::max(
        {distance, std::fabs(below - static_cast<double>(i) / n), std::fabs(below - static_cast<double>(i + 1) / n)});
  }
  EXPECT_LT(distance, 2.7 * error);
  EXPECT_LT(std::max(draws.back(), -draws.front()), 5.8);
}

TEST(GaussianPolicy, GivesFiniteActionsOrNone) {
  const kernels::FlushSubnormals exact;
  const auto policy = make_gaussian_policy(1, 1, 1e-6);
  constexpr float kMost = std::numeric_limits<float>::max(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& outputs :
       {std::vector{kMost, kMost}, {-kMost, kMost}, {0.0f, kMost}, {kMost, -kMost}, {0.0f, -kMost}}) {
    RandomStream random(kSeed, 1, RandomPurpose::explore);
    const Action action = must(policy->draw(0, outputs, random));
    EXPECT_LE(std::fabs(action.values[0]), 1e18f);
    std::vector<float> gradient(2);
    policy->find_gradient(0, 0.01, gradient);
    EXPECT_TRUE(std::isfinite(gradient[0]) && std::isfinite(gradient[1]));
  }
  for (const std::vector<float>& outputs :
       {std::vector{kNan, 0.0f}, {0.0f, kNan}, {std::numeric_limits<float>::infinity(), 0.0f}}) {
    RandomStream random(kSeed, 1, RandomPurpose::explore);
    const auto refused = policy->draw(0, outputs, random);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::halted);
    EXPECT_EQ(random.position(), 0u);
  }
}

// Sessions keep what they drew by themselves.
TEST(GaussianPolicy, KeepsSessionsApart) {
  const kernels::FlushSubnormals exact;
  const auto both = make_gaussian_policy(2, 2, 0.1), alone = make_gaussian_policy(1, 2, 0.1);
  const std::vector<float> one{0.5f, -1, 0.25f, 1}, other{-2, 3, 0, -1};
  RandomStream a(kSeed, 1, RandomPurpose::explore), b(kSeed, 2, RandomPurpose::explore), c = a;
  const Action first = must(both->draw(0, one, a));
  must(both->draw(1, other, b));
  const Action same = must(alone->draw(0, one, c));
  EXPECT_TRUE(std::ranges::equal(first.values, same.values));
  std::vector<float> of_both(4), of_one(4);
  both->find_gradient(0, 0.01, of_both);
  alone->find_gradient(0, 0.01, of_one);
  EXPECT_EQ(of_both, of_one);
}

}  // namespace
}  // namespace weft::agent::policy_test
