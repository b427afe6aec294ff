// SPDX-License-Identifier: Apache-2.0

#include "learning/learner.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <cmath>
#include <string>

namespace weft::learning::learner_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

TEST(Learner, RefusesWhatCannotBeLearned) {
  auto spec = digits_network(1);
  spec.outputs.clear();
  auto mesh = mesh::Mesh::build(spec, {});
  ASSERT_TRUE(mesh);
  EXPECT_EQ(Learner::build(*mesh, {}).error().code(), Errc::invalid_argument);

  auto whole = mesh::Mesh::build(digits_network(1), {});
  LearningOptions options;
  options.learners = 2;
  EXPECT_NE(Learner::build(*whole, options).error().text().find("2 of 1 sessions"), std::string::npos);
}

TEST(Learner, RefusesBadSamplesAndChangesNothing) {
  auto mesh = mesh::Mesh::build(digits_network(1), {});
  auto learner = *Learner::build(*mesh, {});
  const auto before = mesh->state_hash();
  std::vector<float> x(64, 0.5f);
  std::vector<std::uint32_t> label{3};
  const auto learn = [&](std::string_view port, std::string_view output) {
    const mesh::RunInput input{port, x};
    const Target target{output, label, {}};
    return learner->learn({&input, 1}, {&target, 1}, 1);
  };
  EXPECT_EQ(learn("nose", "digit").error().code(), Errc::unknown_name);
  EXPECT_EQ(learn("pixels", "letter").error().code(), Errc::unknown_name);
  label[0] = 10;
  EXPECT_EQ(learn("pixels", "digit").error().code(), Errc::out_of_range);
  label[0] = 3;
  x[7] = NAN;
  EXPECT_EQ(learn("pixels", "digit").error().code(), Errc::not_finite);
  x.pop_back();
  EXPECT_EQ(learn("pixels", "digit").error().code(), Errc::shape_mismatch);
  EXPECT_EQ(mesh->state_hash(), before);
}

// Feedback weights are drawn output by output, and gradients are added in their order.
TEST(Learner, LearnsTheSameInWhateverOrderOutputsAreNamed) {
  for (const Rule rule : all_rules())
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      SCOPED_TRACE(std::string(name(rule)) + ", " + std::string(name(schedule)));
      const LearningOptions options = with_defaults({.rule = rule, .schedule = schedule});
      const mesh::NetworkSpec spec = mixed_network(3);
      mesh::NetworkSpec reversed = spec;
      std::reverse(reversed.outputs.begin(), reversed.outputs.end());
      const mesh::NetworkSpec read = must(mesh::read_network(must(mesh::write_network(reversed)), "a file"));
      const Samples data(spec, options, 40);
      const auto told = [&](const mesh::NetworkSpec& network) {
        LearningRun run(network, options);
        data.train(*run.learner, 0, 40);
        return run.told();
      };
      const std::string expected = told(spec);
      EXPECT_EQ(told(reversed), expected);
      EXPECT_EQ(told(read), expected);
    }
}

TEST(Learner, AnUnlabelledSampleIsRunAndNotLearnedFrom) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    LearningRun run(digits_network(1), {.schedule = schedule});
    const auto weights = run.weights();
    run.train(std::vector<float>(64 * 20, 0.5f), std::vector<std::uint32_t>(20, kNoLabel), {}, 20);
    EXPECT_GE(run.mesh->ticks(), 20u);
    EXPECT_EQ(run.weights(), weights);
  }
}

// The last labels were learned again after a drain, beside the outputs of the input that stays.
TEST(Learner, LearnsNothingAgainAfterADrain) {
  for (const Late late : {Late::none, Late::again}) {
    const LearningOptions options{.schedule = Schedule::pipelined, .late = late};
    LearningRun run(digits_network(1), options);
    const Samples data(digits_network(1), options, 40);
    data.train(*run.learner, 0, 20);
    must(run.learner->drain());
    const auto weights = run.weights();
    const auto unlabelled = data.batch(20, 20);
    must(run.learner->learn(unlabelled.inputs, {}, 20));
    must(run.learner->drain());
    EXPECT_EQ(run.weights(), weights) << name(late);
    data.train(*run.learner, 0, 20);
    must(run.learner->drain());
    EXPECT_NE(run.weights(), weights) << name(late);
  }
}

// Slots of scores are used again every few hundred samples; those without a label kept what had stood there.
TEST(Learner, ASampleWithoutALabelHasAScoreWithoutOne) {
  constexpr std::uint64_t kSamples = 1500;
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    const LearningOptions options{.schedule = schedule};
    LearningRun run(mixed_network(3), options);
    Samples data(mixed_network(3), options, kSamples);
    for (std::uint64_t s = 0; s < kSamples; ++s)
      if (s % 5 != 2) data.targets[0].labels[s] = data.targets[1].labels[s] = kNoLabel;
    data.train(*run.learner, 0, kSamples);
    must(run.learner->drain());
    ASSERT_EQ(run.learner->scores().size(), 2 * kSamples);
    for (std::uint64_t s = 0; s < kSamples; ++s)
      for (const std::size_t output : {0, 1}) {
        const Score& score = run.learner->scores()[2 * s + output];
        ASSERT_EQ(score.sample, s);
        // A mesh's first ticks lie too close to its start to be learned from.
        if (s < 20) continue;
        ASSERT_EQ(score.label, data.targets[output].labels[s]) << s;
        ASSERT_EQ(score.loss != 0.0f, score.label != kNoLabel) << s;
      }
  }
}

TEST(Learner, MeanSquaredErrorLearnsAFunction) {
  const LearningOptions options{.loss = Loss::mse, .optimizer = {.kind = OptimizerKind::adamw, .lr = 0.01f}};
  LearningRun run(mesh::NetworkBuilder("sine", GridShape{1, 1, 2, 1})
                      .input("x", 1)
                      .dense({0, 0, 0, 0}, 32, kernels::Activation::tanh)
                      .dense({0, 0, 1, 0}, 1)
                      .output("y", {0, 0, 1, 0})
                      .seed(2)
                      .spec(),
                  options);
  RandomStream random(4, 0, RandomPurpose::test);
  constexpr std::size_t kSamples = 6000;
  std::vector<float> x(kSamples), y(kSamples);
  for (float& v : x) v = 4.0f * random.next_uniform() - 2.0f;
  for (std::size_t s = 0; s < kSamples; ++s) y[s] = static_cast<float>(std::sin(2.0 * x[s]));
  run.train(x, {}, y, kSamples);
  double first = 0, last = 0;
  const auto scores = run.learner->scores();
  for (std::size_t i = 0; i < 200; ++i) first += scores[i].loss, last += scores[kSamples - 1 - i].loss;
  EXPECT_LT(last, first / 50);
}

TEST(Learner, AnUpdateThatIsNotFiniteIsDroppedAndHaltsTheMesh) {
  LearningRun run(mesh::NetworkBuilder("line", GridShape{1, 1, 1, 1})
                      .input("x", 2)
                      .dense({0, 0, 0, 0}, 1)
                      .option("init", std::string("zero"))
                      .output("y", {0, 0, 0, 0})
                      .spec(),
                  {.loss = Loss::mse, .optimizer = {.lr = 0.03f}});
  // Output 0 is finite; the gradient 2 (0 - 10) 3e38 is not.
  const std::vector<float> x{3e38f, 1.0f}, y{10.0f};
  const mesh::RunInput input{"x", x};
  const Target target{"y", {}, y};
  expect_error(run.learner->learn({&input, 1}, {&target, 1}, 1), Errc::halted, {"[0,0,0,0]", "update_not_finite"});
  for (const auto& weights : run.weights())
    for (const double v : weights) EXPECT_EQ(v, 0.0);
}

}  // namespace
}  // namespace weft::learning::learner_test
