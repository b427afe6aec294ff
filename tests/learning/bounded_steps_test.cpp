// SPDX-License-Identifier: Apache-2.0

// The bound on a layer's own step (LearningOptions::step_limit) under backprop, and its share in deep networks: against
// sums in float64, and on what grew until it halted.

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace weft::learning::bounded_steps_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using kernels::Activation;

constexpr float kNone = 1e20f;

/// Dense layers of 8 in a row, the last one linear.
mesh::NetworkSpec row_network(std::uint32_t layers, std::uint64_t seed) {
  auto builder = mesh::NetworkBuilder("row", GridShape{1, 1, layers, 1});
  builder.input("x", 6);
  for (std::uint32_t i = 0; i + 1 < layers; ++i) builder.dense({0, 0, i, 0}, 8, Activation::tanh);
  return builder.dense({0, 0, layers - 1, 0}, 4).output("y", {0, 0, layers - 1, 0}).seed(seed).spec();
}

LearningOptions by_sgd(Schedule schedule, float limit) {
  LearningOptions options{.schedule = schedule};
  options.optimizer = kernels::default_options(OptimizerKind::sgd);
  options.optimizer.lr = 0.5f;
  options.step_limit = limit;
  return options;
}

const std::vector<float> kX{0.5f, -1.25f, 0.75f, 0.3f, -0.1f, 1.5f};

struct Moved {
  std::vector<std::vector<double>> before, after;
  double step(std::size_t parameter, std::size_t i) const { return after[parameter][i] - before[parameter][i]; }
};

Moved moved(const mesh::NetworkSpec& spec, const LearningOptions& options) {
  LearningRun run(spec, options);
  Moved all{run.weights(), {}};
  run.train(kX, {2});
  must(run.learner->drain());
  all.after = run.weights();
  return all;
}

// A layer's step is min(1, limit / (lr |x|^2)) of what it would be; what it sends on is the whole gradient.
TEST(BoundedSteps, ShortenEachLayersOwnStepAlone) {
  const mesh::NetworkSpec spec = row_network(3, 21);
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    constexpr float kLimit = 0.2f;
    const Moved free = moved(spec, by_sgd(schedule, kNone)), bound = moved(spec, by_sgd(schedule, kLimit));
    std::vector<double> x(kX.begin(), kX.end());
    for (std::size_t l = 0; l < 3; ++l) {
      const auto &w = free.before[2 * l], &b = free.before[2 * l + 1];
      double squares = 0;
      for (const double each : x) squares += each * each;
      const double factor = std::min(1.0, double{kLimit} / (0.5 * squares));
      EXPECT_LT(factor, 0.9) << "the limit is reached, or this test says nothing";
      for (std::size_t i = 0; i < w.size(); ++i)
        EXPECT_NEAR(bound.step(2 * l, i), factor * free.step(2 * l, i), 2e-7) << "layer " << l << ", weight " << i;
      for (std::size_t i = 0; i < b.size(); ++i)
        EXPECT_NEAR(bound.step(2 * l + 1, i), factor * free.step(2 * l + 1, i), 2e-7)
            << "layer " << l << ", bias " << i;
      std::vector<double> y = b;
      for (std::size_t o = 0; o < y.size(); ++o) {
        for (std::size_t k = 0; k < x.size(); ++k) y[o] += w[o * x.size() + k] * x[k];
        y[o] = std::tanh(y[o]);
      }
      x = y;
    }
  }
}

TEST(BoundedSteps, ChangeNoBitWhereTheyAreNotReached) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
    EXPECT_EQ(moved(row_network(3, 21), by_sgd(schedule, 4.0f)).after,
              moved(row_network(3, 21), by_sgd(schedule, kNone)).after);
}

// Changes of n layers add up, and errors come 2 n steps late: of more than four, each has (4 / n)^2 of the limit.
TEST(BoundedSteps, AreShorterInDeepNetworks) {
  double squares = 0;
  for (const double each : kX) squares += each * each;
  for (const std::uint32_t layers : {4u, 8u}) {
    constexpr float kLimit = 0.4f;
    const Moved free = moved(row_network(layers, 5), by_sgd(Schedule::settle, kNone));
    const Moved bound = moved(row_network(layers, 5), by_sgd(Schedule::settle, kLimit));
    const double share = 16.0 / (layers * layers), factor = share * double{kLimit} / (0.5 * squares);
    double largest = 0;
    for (std::size_t i = 0; i < free.before[0].size(); ++i) {
      EXPECT_NEAR(bound.step(0, i), factor * free.step(0, i), 2e-7) << layers << " layers, weight " << i;
      largest = std::max(largest, std::abs(free.step(0, i)));
    }
    EXPECT_GT(largest, 1e-5) << "errors have reached the first layer, or this test says nothing";
  }
}

// A rate that is stated makes the steps that it makes in any other program.
TEST(BoundedSteps, AreOfTheRulesOwnRate) {
  const auto limit_of = [](LearningOptions options) { return with_defaults(options).step_limit; };
  EXPECT_EQ(limit_of({}), 1.0f);
  EXPECT_EQ(limit_of({.optimizer = {.lr = 0.03f}}), 0.0f);
  EXPECT_EQ(limit_of({.optimizer = {.lr = 0.03f}, .step_limit = 2.0f}), 2.0f);
  EXPECT_EQ(limit_of({.optimizer = kernels::default_options(OptimizerKind::adamw)}), 0.0f);
  EXPECT_EQ(limit_of({.optimizer = kernels::default_options(OptimizerKind::sgd), .traces = true}), 0.0f);
  EXPECT_EQ(limit_of({.rule = Rule::fw_dtp, .optimizer = {.lr = 0.03f}}), 0.5f);
  // Whoever fills defaults in twice gets the same.
  EXPECT_EQ(with_defaults(with_defaults({})), with_defaults({}));
}

TEST(BoundedSteps, AreRefusedWithTraces) {
  LearningOptions options{.late = Late::meet, .traces = true};
  options.optimizer = kernels::default_options(OptimizerKind::sgd);
  EXPECT_TRUE(check_options(options));
  options.step_limit = 0.5f;
  const Status checked = check_options(options);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().text().find("step_limit 0.5; give 0"), std::string::npos) << checked.error().text();
}

/// Digits through linear layers and a cell that feeds back, where nothing else holds activations back.
bool halts(Schedule schedule, float limit) {
  LearningRun run(digits_network(0, Activation::linear), {.schedule = schedule, .step_limit = limit});
  auto stream = must(SampleStream::build(*run.learner, digits(), {}));
  return !stream.advance(1000);
}

TEST(BoundedSteps, KeepLinearDigitsFromHalting) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    EXPECT_TRUE(halts(schedule, kNone)) << name(schedule) << ": without a limit they halt, or this test says nothing";
    EXPECT_FALSE(halts(schedule, 0.0f)) << name(schedule) << ": by the default";
  }
}

// Activations of a loop of linear layers grow by a share of themselves with each tick; what pulls them back grows too,
// beyond the limit of a displacement.
TEST(BoundedSteps, KeepLoopsOfLinearLayersFromHaltingUnderDfa) {
  for (const std::uint64_t seed : {10u, 11u}) {
    LearningRun run(digits_network(seed, Activation::linear), {.rule = Rule::dfa});
    auto stream = must(SampleStream::build(*run.learner, digits(), {.epochs = 2, .seed = seed}));
    const Status done = stream.advance(1200);
    EXPECT_TRUE(done) << seed << ": " << done.error().text();
  }
}

// The slope of an angle by its parameter is the angle itself: without a bound steps of it grow without end.
TEST(BoundedSteps, KeepDiagonalCellsFromHaltingUnderEveryRule) {
  for (const std::uint64_t seed : {0u, 1u})
    for (const Rule rule : all_rules())
      for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
        const auto spec = mesh::NetworkBuilder("diagonal", GridShape{1, 1, 2, 1})
                              .input("pixels", 64)
                              .layer({0, 0, 0, 0}, "diagonal", 32)
                              .dense({0, 0, 1, 0}, 10)
                              .output("digit", {0, 0, 1, 0})
                              .seed(seed)
                              .spec();
        LearningRun run(spec, {.rule = rule, .schedule = schedule});
        auto stream = must(SampleStream::build(*run.learner, digits(), {.epochs = 2, .seed = seed}));
        const Status done = stream.advance(1200);
        EXPECT_TRUE(done) << name(rule) << " " << name(schedule) << " " << seed << ": " << done.error().text();
      }
}

}  // namespace
}  // namespace weft::learning::bounded_steps_test
