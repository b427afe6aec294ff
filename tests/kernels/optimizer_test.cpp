// SPDX-License-Identifier: Apache-2.0

#include "kernels/optimizer.hpp"

#include "comparing.hpp"

namespace weft::kernels {
namespace {

using namespace testing_support;

std::vector<float> values(RandomStream& random, std::size_t n, float scale, bool special) {
  return (special ? special_matrix(random, 1, n) : random_matrix(random, 1, n, scale)).values();
}
double d(float x) { return static_cast<double>(x); }

/// AdamW's step of this number.
void adamw_at(std::uint64_t step, std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1,
              float beta2, float epsilon, float weight_decay) {
  float corrections[2];
  --step;
  adamw_step(&step, beta1, beta2, corrections);
  adamw(n, w, m, v, g, lr, beta1, beta2, epsilon, weight_decay, corrections);
}

TEST(Optimizer, SgdAndMomentumFollowTheFormulas) {
  const FlushSubnormals flush;
  RandomStream random(81, 0, RandomPurpose::test);
  constexpr std::size_t kN = 131;
  const std::vector<float> w0 = values(random, kN, 1, false), v0 = values(random, kN, 1, false),
                           g = values(random, kN, 1, false);
  std::vector<float> w = w0;
  sgd(kN, w.data(), g.data(), 0.1f, 0.01f);
  for (std::size_t i = 0; i < kN; ++i) EXPECT_NEAR(d(w[i]), d(w0[i]) - 0.1 * (d(g[i]) + 0.01 * d(w0[i])), 3e-7);
  for (const bool nesterov : {false, true}) {
    w = w0;
    std::vector<float> v = v0;
    momentum(kN, w.data(), v.data(), g.data(), 0.1f, 0.9f, 0.25f, nesterov, 0.01f);
    for (std::size_t i = 0; i < kN; ++i) {
      const double t = d(g[i]) + 0.01 * d(w0[i]), velocity = 0.9 * d(v0[i]) + 0.75 * t;
      EXPECT_NEAR(d(v[i]), velocity, 6e-7);
      EXPECT_NEAR(d(w[i]), d(w0[i]) - 0.1 * (nesterov ? t + 0.9 * velocity : velocity), 6e-7);
    }
  }
}

TEST(Optimizer, AdamwFollowsTheFormulaForManySteps) {
  const FlushSubnormals flush;
  RandomStream random(82, 0, RandomPurpose::test);
  constexpr std::size_t kN = 67;
  std::vector<float> w = values(random, kN, 1, false), m(kN), v(kN);
  std::vector<double> want(w.begin(), w.end()), first(kN), second(kN);
  // The hyperparameters as the kernel receives them.
  const double lr = d(0.01f), beta1 = d(0.9f), beta2 = d(0.999f), epsilon = d(1e-8f), decay = d(0.1f);
  for (std::uint64_t step = 1; step <= 300; ++step) {
    const std::vector<float> g = values(random, kN, 0.3f, false);
    adamw_at(step, kN, w.data(), m.data(), v.data(), g.data(), 0.01f, 0.9f, 0.999f, 1e-8f, 0.1f);
    for (std::size_t i = 0; i < kN; ++i) {
      first[i] = beta1 * first[i] + (1 - beta1) * d(g[i]);
      second[i] = beta2 * second[i] + (1 - beta2) * d(g[i]) * d(g[i]);
      const double c1 = 1 - std::pow(beta1, static_cast<double>(step)),
                   c2 = 1 - std::pow(beta2, static_cast<double>(step));
      want[i] -= lr * decay * want[i] + lr * (first[i] / c1) / (std::sqrt(second[i] / c2) + epsilon);
    }
  }
  for (std::size_t i = 0; i < kN; ++i) {
    EXPECT_NEAR(d(m[i]), first[i], 1e-6);
    EXPECT_NEAR(d(v[i]), second[i], 1e-6);
    EXPECT_NEAR(d(w[i]), want[i], 2e-5);
  }
}

TEST(Optimizer, TheFirstAdamwStepIsTheLearningRateInTheGradientsDirection) {
  // m / c1 is g and v / c2 is g^2, whatever the betas: bias correction at step 1.
  const FlushSubnormals flush;
  float w[2] = {1.0f, 1.0f}, m[2] = {}, v[2] = {};
  const float g[2] = {0.5f, -4.0f};
  adamw_at(1, 2, w, m, v, g, 0.125f, 0.5f, 0.75f, 0.0f, 0.0f);
  EXPECT_EQ(w[0], 0.875f);
  EXPECT_EQ(w[1], 1.125f);
}

TEST(Optimizer, AdamwCountsItsStepsAndCorrectsByThem) {
  const FlushSubnormals flush;
  for (const std::uint64_t before :
       {std::uint64_t{0}, std::uint64_t{6}, std::uint64_t{12345}, (std::uint64_t{1} << 40) - 1}) {
    std::uint64_t step = before;
    float corrections[2];
    adamw_step(&step, 0.9f, 0.99999f, corrections);
    EXPECT_EQ(step, before + 1);
    const double c1 = 1 - std::pow(d(0.9f), static_cast<double>(step)),
                 c2 = 1 - std::pow(d(0.99999f), static_cast<double>(step));
    EXPECT_FLOAT_EQ(corrections[0], static_cast<float>(c1));
    EXPECT_FLOAT_EQ(corrections[1], static_cast<float>(c2));
  }
}

TEST(Optimizer, GivesTheScalarBitsOnEveryIsa) {
  RandomStream random(83, 0, RandomPurpose::test);
  for (const std::size_t n : kSizes)
    for (const bool special : {false, true}) {
      const std::vector<float> w0 = values(random, n, 1, special), v0 = values(random, n, 1, special),
                               g = values(random, n, 1, special);
      std::vector<float> squares = values(random, n, 1, false);
      for (float& s : squares) s *= s;
      expect_one_result_on_every_isa("optimisers of " + std::to_string(n), [&] {
        std::vector<float> all;
        const auto take = [&](const std::vector<float>& v) {
          for (const float x : v) all.push_back(x);
        };
        std::vector<float> w = w0, v = v0, s = squares;
        sgd(n, w.data(), g.data(), 0.1f, 0.01f);
        take(w);
        for (const bool nesterov : {false, true}) {
          momentum(n, w.data(), v.data(), g.data(), 0.1f, 0.9f, 0.1f, nesterov, 0.01f);
          take(w), take(v);
        }
        for (const std::uint64_t step : {std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{1} << 40}) {
          adamw_at(step, n, w.data(), v.data(), s.data(), g.data(), 0.01f, 0.9f, 0.999f, 1e-8f, 0.1f);
          take(w), take(v), take(s);
        }
        return all;
      });
    }
}

TEST(Optimizer, WritesNothingPastTheEnd) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const std::size_t n : kSizes) {
      std::vector<float> w(n + 1, 1.0f), m(n + 1, 1.0f), v(n + 1, 1.0f);
      const std::vector<float> g(n, 1.0f);
      sgd(n, w.data(), g.data(), 0.1f, 0.0f);
      momentum(n, w.data(), m.data(), g.data(), 0.1f, 0.9f, 0.0f, true, 0.0f);
      adamw_at(1, n, w.data(), m.data(), v.data(), g.data(), 0.1f, 0.9f, 0.9f, 1e-8f, 0.0f);
      EXPECT_EQ(w[n], 1.0f);
      EXPECT_EQ(m[n], 1.0f);
      EXPECT_EQ(v[n], 1.0f);
    }
  }
}

}  // namespace
}  // namespace weft::kernels
