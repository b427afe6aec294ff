// SPDX-License-Identifier: Apache-2.0
// Samples with weights of their own that learn() takes: against teach(), against samples without a label, and against
// other rates.

#include "learning/learner_snapshot.hpp"

#include <gtest/gtest.h>

#include "late_script.hpp"
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace weft::learning::weights_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

struct Way {
  Rule rule;
  Schedule schedule;
  LearningOptions options() const {
    LearningOptions all{.rule = rule, .schedule = schedule};
    all.optimizer.lr = 0.01f;
    all.weights = true;
    return all;
  }
};
std::vector<Way> ways() {
  std::vector<Way> all;
  for (const Rule rule : all_rules())
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) all.push_back({rule, schedule});
  return all;
}

/// Samples [first, first + count) with their weights, the same at each output.
Status learn(LearningRun& run, const Samples& data, std::uint64_t first, std::uint64_t count,
             const std::vector<float>& weights) {
  Samples::Batch batch = data.batch(first, count);
  for (Target& target : batch.targets) target.weights = weights;
  return run.learner->learn(batch.inputs, batch.targets, count);
}

class Weights : public ::testing::TestWithParam<Way> {};

TEST_P(Weights, MultiplyGradientsAsTeachDoes) {
  const LearningOptions options = GetParam().options();
  LearningOptions late = options;
  late.late = Late::meet;
  if (!check_options(late)) GTEST_SKIP() << "keeps no past";
  const Samples data(mixed_network(3), options, 30);
  LearningRun learned(mixed_network(3), options), taught(mixed_network(3), late);
  for (std::uint64_t s = 0; s < data.count; ++s) {
    const float weight = 0.5f * static_cast<float>(s % 5);  // one in five weighs nothing
    must(learn(learned, data, s, 1, {weight}));
    Samples::Batch batch = data.batch(s, 1);
    for (Target& target : batch.targets) target.weights = {&weight, 1};
    must(taught.learner->teach(must(taught.learner->observe(batch.inputs)), batch.targets));
    ASSERT_EQ(taught.weights(), learned.weights()) << "sample " << s;
  }
  must(learned.learner->drain());
  must(taught.learner->drain());
  EXPECT_EQ(taught.hash(), learned.hash());
  const auto a = learned.learner->scores(), b = taught.learner->scores();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].label, b[i].label) << i;
    EXPECT_EQ(a[i].loss, b[i].loss) << i;
  }
}

// A sample that weighs nothing is scored, and leaves momenta, inverses and counts of updates as one without a label.
TEST_P(Weights, OfZeroScoreAndLearnNothing) {
  const LearningOptions options = GetParam().options();
  const Samples data(mixed_network(3), options, 30);
  Samples unlabelled = data;
  for (Samples::Port& target : unlabelled.targets)
    for (std::uint64_t s = 0; s < data.count; s += 3)
      std::fill_n(target.labels.begin() + static_cast<std::ptrdiff_t>(s), 1, kNoLabel);
  LearningRun weighed(mixed_network(3), options), other(mixed_network(3), options);
  for (std::uint64_t s = 0; s < data.count; s += 6) {  // several at once
    must(learn(weighed, data, s, 6, {0, 1, 1, 0, 1, 1}));
    must(learn(other, unlabelled, s, 6, {}));
  }
  must(weighed.learner->drain());
  must(other.learner->drain());
  EXPECT_EQ(weighed.hash(), other.hash());
  const auto scored = [](const LearningRun& run) {
    const auto all = run.learner->scores();
    return std::count_if(all.begin(), all.end(), [](const Score& score) { return score.label != kNoLabel; });
  };
  EXPECT_GT(scored(weighed), scored(other));
}

TEST_P(Weights, GoOnFromAFile) {
  const LearningOptions options = GetParam().options();
  const Samples data(mixed_network(3), options, 30);
  const auto weight = [](std::uint64_t s) { return std::vector{0.25f * static_cast<float>(s % 4)}; };
  LearningRun whole(mixed_network(3), options), begun(mixed_network(3), options);
  for (std::uint64_t s = 0; s < 15; ++s)
    for (LearningRun* const run : {&whole, &begun}) must(learn(*run, data, s, 1, weight(s)));
  LearningRun ended(begun.file(), options);
  for (std::uint64_t s = 15; s < 30; ++s)
    for (LearningRun* const run : {&whole, &ended}) must(learn(*run, data, s, 1, weight(s)));
  EXPECT_EQ(ended.hash(), whole.hash());
}

INSTANTIATE_TEST_SUITE_P(Of, Weights, ::testing::ValuesIn(ways()), [](const auto& row) {
  return std::string(name(row.param.rule)) + "_" + std::string(name(row.param.schedule));
});

// All gradients are halves, to the bit, and so is a step of half the rate.
TEST(SampleWeights, OfAHalfAreHalfTheRate) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    LearningOptions options{.schedule = schedule};
    options.optimizer.kind = OptimizerKind::sgd;
    options.optimizer.lr = 0.125f;
    options.learners = 2;
    LearningOptions slow = options;
    slow.optimizer.lr = 0.0625f;
    options.weights = true;
    const Samples data(digits_network(3), options, 20, 2);
    LearningRun halves(digits_network(3), options, shape(1, 2)), other(digits_network(3), slow, shape(1, 2));
    must(learn(halves, data, 0, 20, std::vector<float>(40, 0.5f)));
    must(learn(other, data, 0, 20, {}));
    EXPECT_EQ(halves.weights(), other.weights());
  }
}

// Of two learners the one weighs nothing: the other's gradients count by themselves.
TEST(SampleWeights, AreOfEachSampleAndLearner) {
  LearningOptions options;
  options.optimizer.kind = OptimizerKind::sgd;
  options.optimizer.lr = 0.125f;
  options.learners = 2;
  options.weights = true;
  const Samples data(digits_network(3), options, 4, 2);
  Samples alone = data;  // of the first and the third sample the first learner has no label, then the second
  std::vector<float> weights;
  for (std::uint64_t s = 0; s < 4; ++s) {
    const bool is_first = s % 2 == 0;
    weights.insert(weights.end(), {is_first ? 0.0f : 1.0f, is_first ? 1.0f : 0.0f});
    alone.targets[0].labels[2 * s + (is_first ? 0 : 1)] = kNoLabel;
  }
  LearningRun weighed(digits_network(3), options, shape(1, 2)), other(digits_network(3), options, shape(1, 2));
  must(learn(weighed, data, 0, 4, weights));
  must(learn(other, alone, 0, 4, {}));
  EXPECT_EQ(weighed.weights(), other.weights());
}

TEST(SampleWeights, AreRefusedBeforeAnythingIsLearned) {
  LearningOptions options;
  const Samples data(digits_network(3), options, 4);
  LearningRun none(digits_network(3), options);
  expect_error(learn(none, data, 0, 2, {1, 1}), Errc::invalid_argument, {"target of 'digit'", "learning.weights"});
  options.weights = true;
  LearningRun run(digits_network(3), options);
  const std::string before = run.hash();
  expect_error(learn(run, data, 0, 2, {1}), Errc::shape_mismatch, {"1 weights where 2 are expected"});
  expect_error(learn(run, data, 0, 2, {1, -0.5f}), Errc::out_of_range, {"weight -0.5"});
  expect_error(learn(run, data, 0, 2, {std::numeric_limits<float>::quiet_NaN(), 1}), Errc::not_finite, {"weight"});
  expect_error(learn(run, data, 0, 2, {std::numeric_limits<float>::infinity(), 1}), Errc::not_finite, {"weight"});
  EXPECT_EQ(run.hash(), before);
  options.replay.method = ReplayMethod::er;
  expect_error(check_options(options), Errc::invalid_argument, {"learning.weights", "learning.replay"});
}

}  // namespace
}  // namespace weft::learning::weights_test
