// SPDX-License-Identifier: Apache-2.0
// Each loss from its targets to the weights, against formulas in binary64. The same bits everywhere:
// exactness_test.cpp.

#include "learning/learner.hpp"
#include "learning/sample_stream.hpp"

#include <gtest/gtest.h>

#include "lossy_networks.hpp"
#include "networks.hpp"
#include <algorithm>
#include <cmath>
#include <string>

namespace weft::learning::loss_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

constexpr float kDelta = 0.5f;

LearningOptions options_of(Loss loss) {
  LearningOptions options;
  options.loss = loss;
  if (loss == Loss::huber) options.delta = kDelta;
  if (loss == Loss::multi_head_cross_entropy) options.heads = kHeads;
  options.optimizer.kind = OptimizerKind::sgd;
  options.optimizer.lr = 0.5f;
  return options;
}

class EachLoss : public ::testing::TestWithParam<int> {
 protected:
  Loss loss() const { return static_cast<Loss>(GetParam()); }
};

/// The loss of one value, and its slope.
std::pair<double, double> of_value(Loss loss, double y, double target) {
  const double d = y - target, a = std::fabs(d), sign = d > 0 ? 1 : d < 0 ? -1 : 0;
  if (loss == Loss::mse) return {d * d, 2 * d};
  if (loss == Loss::mae) return {a, sign};
  if (loss == Loss::huber)
    return a <= kDelta ? std::pair(d * d / 2, d) : std::pair(kDelta * (a - kDelta / 2.0), kDelta * sign);
  EXPECT_EQ(loss, Loss::binary_cross_entropy) << "a loss without a reference";
  const double s = 1 / (1 + std::exp(-y));
  return {-target * std::log(s) - (1 - target) * std::log(1 - s), s - target};
}

/// Losses of the parts of an output that have a target each, and the slope of their mean.
std::pair<std::vector<double>, std::vector<double>> reference(Loss loss, const std::vector<double>& y,
                                                              const LossSamples& given) {
  std::vector<double> losses, slope(y.size(), 0.0);
  if (targets_of(loss) == LossTargets::values) {
    losses.push_back(0);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto [value, d] = of_value(loss, y[i], double{given.values[i]});
      losses[0] += value / static_cast<double>(y.size());
      slope[i] = d / static_cast<double>(y.size());
    }
    return {losses, slope};
  }
  const auto widths = loss == Loss::multi_head_cross_entropy ? kHeads : std::vector<std::uint32_t>{kOut};
  const auto labelled = static_cast<double>(
      widths.size() - static_cast<std::size_t>(std::count(given.labels.begin(), given.labels.end(), kNoLabel)));
  std::size_t start = 0;
  for (std::size_t head = 0; head < widths.size(); start += widths[head++]) {
    const std::uint32_t label = given.labels[head];
    double sum = 0;
    for (std::size_t i = 0; i < widths[head]; ++i) sum += std::exp(y[start + i]);
    losses.push_back(label == kNoLabel ? 0 : std::log(sum) - y[start + label]);
    for (std::size_t i = 0; label != kNoLabel && i < widths[head]; ++i)
      slope[start + i] = (std::exp(y[start + i]) / sum - (i == label)) / labelled;
  }
  return {losses, slope};
}

TEST_P(EachLoss, MovesTheWeightsAgainstItsGradient) {
  LearningRun run(one_layer(), options_of(loss()));
  LossSamples given(loss(), 3, 1);
  if (loss() == Loss::multi_head_cross_entropy) given.labels[1] = kNoLabel;  // of the others the mean
  const auto before = run.weights()[0];
  // A mesh's first sample is too young to be learned from.
  const mesh::RunInput input{"x", given.x};
  for (int i = 0; i < 2; ++i) must(run.learner->learn({&input, 1}, {}, 1));
  run.learner->clear_scores();
  given.give_to(*run.learner, 1);

  std::vector<double> y(kOut);
  for (std::size_t i = 0; i < kOut; ++i)
    for (std::size_t k = 0; k < kIn; ++k) y[i] += before[i * kIn + k] * double{given.x[k]};
  const auto [losses, slope] = reference(loss(), y, given);
  const auto after = run.weights()[0];
  for (std::size_t i = 0; i < kOut; ++i)
    for (std::size_t k = 0; k < kIn; ++k)
      EXPECT_NEAR(after[i * kIn + k], before[i * kIn + k] - 0.5 * slope[i] * double{given.x[k]}, 2e-6);
  const auto scores = run.learner->scores();
  ASSERT_EQ(scores.size(), losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(scores[i].token, i);
    EXPECT_NEAR(double{scores[i].loss}, losses[i], 1e-5 * (1 + losses[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Losses, EachLoss, ::testing::Range(0, kernels::kLossCount),
                         [](const auto& row) { return std::string(name(static_cast<Loss>(row.param))); });

TEST(Losses, RefuseTargetsThatDoNotFit) {
  mesh::Mesh mesh = must(mesh::Mesh::build(one_layer(), {}));
  const auto learn = [&](const LearningOptions& options, const LossSamples& given) {
    return must(Learner::build(mesh, options))->learn({}, std::vector<Target>{given.target()}, 1);
  };
  LossSamples given(Loss::binary_cross_entropy, 1, 1);
  given.values[4] = 1.5f;
  expect_error(learn(options_of(Loss::binary_cross_entropy), given), Errc::out_of_range,
               {"'y'", "value 4 is 1.5", "from 0 to 1"});
  given.values[4] = -0.5f;
  expect_error(learn(options_of(Loss::binary_cross_entropy), given), Errc::out_of_range, {"value 4 is -0.5"});
  EXPECT_TRUE(learn(options_of(Loss::huber), given));
  LossSamples heads(Loss::multi_head_cross_entropy, 1, 1);
  heads.labels = {0, 2, 0};
  expect_error(learn(options_of(Loss::multi_head_cross_entropy), heads), Errc::out_of_range,
               {"'y'", "label 2", "head's width 2"});
  heads.labels = {0, 1};
  expect_error(learn(options_of(Loss::multi_head_cross_entropy), heads), Errc::shape_mismatch, {"2 labels", "3 are"});
}

TEST(Losses, RefuseHeadsThatAreNotTheOutput) {
  mesh::Mesh mesh = must(mesh::Mesh::build(one_layer(), {}));
  LearningOptions options = options_of(Loss::multi_head_cross_entropy);
  options.heads = {3, 3};
  expect_error(Learner::build(mesh, options), Errc::shape_mismatch, {"learning.heads", "2 heads of 6", "'y' has 9"});
  options.heads = {};
  expect_error(Learner::build(mesh, options), Errc::shape_mismatch, {"0 heads of 0"});
  expect_error(read_learning(R"({"loss": "multi_head_cross_entropy"})"), Errc::not_found, {"learning", "heads"});
  expect_error(read_learning(R"({"heads": [3]})"), Errc::unknown_name, {"learning.heads", "multi_head_cross_entropy"});
  expect_error(read_learning(R"({"loss": "mse", "delta": 2})"), Errc::unknown_name,
               {"learning.delta: counts only with loss huber; it is mse"});
  expect_error(read_learning(R"({"loss": "huber", "delta": 0})"), Errc::out_of_range, {"learning.delta: found 0"});
}

TEST(Losses, StayInTheFile) {
  for (int i = 0; i < kernels::kLossCount; ++i) {
    const LearningOptions options = options_of(static_cast<Loss>(i));
    EXPECT_EQ(must(read_learning(write_learning(options))), options) << name(options.loss);
  }
}

TEST(Losses, AStreamRefusesTargetsOfAnotherKind) {
  for (int i = 0; i < kernels::kLossCount; ++i) {
    mesh::Mesh mesh = must(mesh::Mesh::build(one_layer(), {}));
    const Loss loss = static_cast<Loss>(i);
    const auto learner = must(Learner::build(mesh, options_of(loss)));
    Dataset data;
    data.size = 4, data.features = kIn, data.classes = 2;
    data.inputs = noise(data.size * kIn, 1);
    data.labels = {0, 1, 0, 1};
    const std::string which = "learning.loss: " + std::string(name(loss)) + " learns ";
    if (targets_of(loss) == LossTargets::values)
      expect_error(SampleStream::build(*learner, data, {}), Errc::unsupported, {which + "values"});
    if (targets_of(loss) == LossTargets::head_labels)
      expect_error(SampleStream::build(*learner, data, {}), Errc::shape_mismatch,
                   {"1 labels to learn a sample", "takes 3"});
    data.labels.clear();
    data.values = {1, 2, 3, 4};
    if (targets_of(loss) == LossTargets::values)
      expect_error(SampleStream::build(*learner, data, {}), Errc::shape_mismatch,
                   {"1 values to learn a sample", "takes 9"});
    else
      expect_error(SampleStream::build(*learner, data, {}), Errc::unsupported, {which + "classes"});
  }
}

}  // namespace
}  // namespace weft::learning::loss_test
