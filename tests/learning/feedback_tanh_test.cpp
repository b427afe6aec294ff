// SPDX-License-Identifier: Apache-2.0

// `feedback` tanh of layers that are not one product: what goes through drawn weights is bent, with the difference
// correction. Sources are equations of docs/learning.md in float64, and what follows from them.

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>
#include <string>

namespace weft::learning::feedback_tanh_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using Vector = std::vector<double>;

constexpr std::size_t kIn = 5, kTokens = 3, kWidth = 4, kOut = 6, kSeed = 7;

mesh::NetworkSpec network(const std::string& type) {
  mesh::NetworkBuilder builder("two", GridShape{1, 1, 2, 1});
  builder.input("x", kIn).dense({0, 0, 0, 0}, kTokens * kWidth);
  builder.layer({0, 0, 1, 0}, type, type == "conv1d" ? kOut : type == "attention" ? 0 : kOut).view({kTokens, kWidth});
  if (type == "attention") builder.option("heads", 2.0);
  if (type == "conv1d") builder.option("kernel", 2.0);
  return builder.output("y", {0, 0, 1, 0}).seed(kSeed).spec();
}

LearningOptions options(Feedback feedback, Rule rule = Rule::fw_dtp) {
  LearningOptions made{.rule = rule, .loss = Loss::mse};
  made.optimizer = {.kind = OptimizerKind::sgd, .lr = 1.0f};
  made.feedback = feedback;
  made.step_limit = made.displacement_limit = made.activation_limit = made.gradient_limit = 1e20f;
  return made;
}

/// Changes of the first layer's biases by one sample: the factor times the displacement that came to it.
Vector moved(const std::string& type, const LearningOptions& how, std::vector<float> target = {}) {
  LearningRun run(network(type), how);
  const auto before = run.weights();
  if (target.empty()) target = noise(run.mesh->graph().nodes()[2].width, 9);
  run.train(noise(kIn, 4), {}, target);
  const auto after = run.weights();
  Vector result;
  for (std::size_t i = 0; i < before[1].size(); ++i) result.push_back(after[1][i] - before[1][i]);
  return result;
}

TEST(FeedbackTanh, GoesThroughEachTokenOfADenseLayerAsTheEquationsSay) {
  LearningRun run(network("dense"), options(Feedback::tanh));
  const auto w = run.weights();
  const std::vector<float> x = noise(kIn, 4), target = noise(kTokens * kOut, 9);
  Vector a(kTokens * kWidth), y(kTokens * kOut), d(y.size()), dx(a.size());
  for (std::size_t o = 0; o < a.size(); ++o) {
    a[o] = w[1][o];
    for (std::size_t k = 0; k < kIn; ++k) a[o] += w[0][o * kIn + k] * x[k];
  }
  const auto& parameter = run.mesh->graph().nodes()[2].layer->parameters()[0];
  RandomStream random(kSeed, 16, RandomPurpose::feedback);
  std::vector<float> b(kOut * kWidth);
  parameter.init(random, b);
  for (std::size_t t = 0; t < kTokens; ++t)
    for (std::size_t o = 0; o < kOut; ++o) {
      double& sum = y[t * kOut + o];
      sum = w[3][o];
      for (std::size_t k = 0; k < kWidth; ++k) sum += w[2][o * kWidth + k] * a[t * kWidth + k];
      d[t * kOut + o] = -2 * (sum - target[t * kOut + o]) / static_cast<double>(y.size());
    }
  double dot = 0, aa = 0, tt = 0;
  for (std::size_t t = 0; t < kTokens; ++t)
    for (std::size_t k = 0; k < kWidth; ++k) {
      double now = 0, wanted = 0;
      for (std::size_t o = 0; o < kOut; ++o) {
        now += b[o * kWidth + k] * y[t * kOut + o];
        wanted += b[o * kWidth + k] * (y[t * kOut + o] + d[t * kOut + o]);
      }
      const std::size_t i = t * kWidth + k;
      dx[i] = std::tanh(wanted) - std::tanh(now);
      dot += a[i] * (a[i] + dx[i]), aa += a[i] * a[i], tt += (a[i] + dx[i]) * (a[i] + dx[i]);
    }
  const double factor = 0.5 + 0.5 * (dot / std::sqrt(aa * tt) + 1) / 2;
  const Vector found = moved("dense", options(Feedback::tanh), target);
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(found[i], factor * dx[i], 1e-6) << i;
}

// tanh rises nowhere by more than 1: each part of a displacement keeps its sign, and none grows.
TEST(FeedbackTanh, BendsWhatEveryLayerWithWeightsSends) {
  for (const std::string type : {"dense", "conv1d", "attention", "rnn", "lstm", "gru", "swiglu"})
    for (const Rule rule : {Rule::fw_dtp, Rule::sdtp}) {
      const Vector linear = moved(type, options(Feedback::linear, rule)),
                   bent = moved(type, options(Feedback::tanh, rule));
      ASSERT_EQ(linear.size(), bent.size());
      double differs = 0;
      for (std::size_t i = 0; i < bent.size(); ++i) {
        EXPECT_GE(bent[i] * linear[i], 0.0) << type << " " << i;
        // Factors of two link budgets, of 0.5 to 1, are within two of each other.
        EXPECT_LE(std::abs(bent[i]), 2 * std::abs(linear[i]) + 1e-7) << type << " " << i;
        differs = std::max(differs, std::abs(bent[i] - linear[i]));
      }
      EXPECT_GT(differs, 1e-6) << type << " by " << name(rule);
    }
}

TEST(FeedbackTanh, ATargetThatIsReachedSendsNothing) {
  for (const std::string type : {"dense", "conv1d", "attention", "lstm", "swiglu"}) {
    LearningRun run(network(type), options(Feedback::tanh));
    // Once more, with what it answered as its target.
    std::vector<float> y(run.mesh->graph().nodes()[2].width);
    const std::vector<float> x = noise(kIn, 4);
    const mesh::RunInput in{"x", x};
    const mesh::RunOutput out{"y", y};
    must(run.learner->predict({&in, 1}, 1, {&out, 1}));
    for (const double move : moved(type, options(Feedback::tanh), y)) EXPECT_EQ(move, 0.0) << type;
  }
}

}  // namespace
}  // namespace weft::learning::feedback_tanh_test
