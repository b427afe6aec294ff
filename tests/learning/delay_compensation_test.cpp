// SPDX-License-Identifier: Apache-2.0

// Compensation for errors that come late to pipelined layers, against the equations of Kosson et al. 2021
// (arXiv:2003.11666) in float64. The same bits everywhere: exactness_test.cpp.

#include "learning/optimizer.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>
#include <vector>

namespace weft::learning::delay_compensation_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

constexpr DelayCompensation kAll[] = {DelayCompensation::spike, DelayCompensation::prediction, DelayCompensation::both};

OptimizerOptions momentum(float m, float dampening) {
  OptimizerOptions options;
  options.momentum = m;
  options.dampening = dampening;
  return options;
}

// One weight. The paper's forms: v' = m v + g, w' = w - lr (a v' + b g), a = m^D, b = (1 - m^D) / (1 - m); what is
// computed with is w - lr D v. Weft keeps the latter alone.
TEST(DelayCompensation, FollowsThePapersEquations) {
  const double lr = 0.1;
  const std::vector<double> gradients{0.5, -0.25, 1.5, 0.125, 0, 0, -2, 0.75, 0.3, -0.6};
  for (const double m : {0.5, 0.875, 0.96875})
    for (const std::uint32_t delay : {1u, 2u, 6u, 30u})
      for (const DelayCompensation compensation : kAll) {
        const double left = std::pow(m, delay);
        const bool is_spike = compensation != DelayCompensation::prediction;
        const double a = is_spike ? left : 1, b = is_spike ? (1 - left) / (1 - m) : 0;
        const double ahead = compensation == DelayCompensation::spike ? 0 : delay;
        const kernels::StepShares shares = delayed_shares(momentum(static_cast<float>(m), 0.0f), compensation, delay);
        double w = 1, v = 0, kept = 1;
        for (const double g : gradients) {
          v = m * v + g;
          w -= lr * (a * v + b * g);
          kept -= lr * (double{shares.velocity} * v + double{shares.gradient} * g);
          EXPECT_NEAR(kept, w - lr * ahead * v, 2e-6 * (1 + ahead / m))
              << name(compensation) << ", momentum " << m << ", delay " << delay;
        }
      }
}

TEST(DelayCompensation, CountsGradientsAsTheVelocityDoes) {
  const kernels::StepShares whole = delayed_shares(momentum(0.5f, 0.0f), DelayCompensation::spike, 2);
  EXPECT_EQ(whole, (kernels::StepShares{0.25f, 1.5f}));
  EXPECT_EQ(delayed_shares(momentum(0.5f, 0.5f), DelayCompensation::spike, 2), (kernels::StepShares{0.25f, 0.75f}));
  // One update late is Nesterov's form.
  EXPECT_EQ(delayed_shares(momentum(0.5f, 0.0f), DelayCompensation::spike, 1), (kernels::StepShares{0.5f, 1.0f}));
  for (const DelayCompensation each : kAll)
    EXPECT_EQ(delayed_shares(momentum(0.5f, 0.0f), each, 0), kernels::StepShares{});
  EXPECT_EQ(delayed_shares(momentum(0.5f, 0.0f), DelayCompensation::none, 7), kernels::StepShares{});
}

/// Changes of the weights of three layers by one sample.
std::vector<std::vector<double>> changes(Rule rule, Schedule schedule, DelayCompensation compensation) {
  const auto spec = mesh::NetworkBuilder("three", GridShape{1, 1, 3, 1})
                        .input("x", 6)
                        .dense({0, 0, 0, 0}, 9, kernels::Activation::tanh)
                        .dense({0, 0, 1, 0}, 5, kernels::Activation::tanh)
                        .dense({0, 0, 2, 0}, 3)
                        .output("y", {0, 0, 2, 0})
                        .seed(4)
                        .spec();
  LearningOptions options{.rule = rule, .schedule = schedule, .delay_compensation = compensation};
  options.optimizer.lr = 0.25f;
  options.optimizer.momentum = options.optimizer.dampening = 0.75f;
  LearningRun run(spec, options);
  const auto x = noise(4 * 6, 3);
  // Samples of no label fill the history; then one is learned from.
  run.train(x, {kNoLabel, kNoLabel, kNoLabel, 1}, {}, 4);
  const auto fill = noise(12 * 6, 5);
  std::vector<std::vector<double>> all;
  const auto before = LearningRun(spec, options).weights();
  run.train(fill, std::vector<std::uint32_t>(12, kNoLabel), {}, 12);
  must(run.learner->drain());
  const auto after = run.weights();
  for (std::size_t p = 0; p < before.size(); ++p) {
    all.emplace_back();
    for (std::size_t i = 0; i < before[p].size(); ++i) all.back().push_back(after[p][i] - before[p][i]);
  }
  return all;
}

TEST(DelayCompensation, IsOfEachLayersOwnDelay) {
  for (const Rule rule : {Rule::backprop, Rule::dfa, Rule::local_ce, Rule::fw_dtp}) {
    const auto plain = changes(rule, Schedule::pipelined, DelayCompensation::none);
    for (const DelayCompensation compensation : kAll) {
      const auto moved = changes(rule, Schedule::pipelined, compensation);
      for (std::size_t p = 0; p < moved.size(); ++p) {
        const double r = 2 - static_cast<double>(p / 2);  // links before the output
        const double delay = rule == Rule::local_ce ? 0 : rule == Rule::dfa ? r + std::min(r, 1.0) : 2 * r;
        const double left = std::pow(0.75, delay);
        double share = 1;  // of a first step, whose velocity is its gradient
        if (compensation != DelayCompensation::prediction) share = left + (1 - left) / 0.25;
        if (compensation != DelayCompensation::spike) share += delay;
        for (std::size_t i = 0; i < moved[p].size(); ++i)
          EXPECT_NEAR(moved[p][i], share * plain[p][i], 1e-6) << name(rule) << ", " << name(compensation) << ", " << p;
      }
    }
  }
}

TEST(DelayCompensation, LeavesSettledSamplesAlone) {
  for (const DelayCompensation compensation : kAll)
    EXPECT_EQ(changes(Rule::backprop, Schedule::settle, compensation),
              changes(Rule::backprop, Schedule::settle, DelayCompensation::none));
}

TEST(DelayCompensation, IsRefusedWhereItHasNoMeaning) {
  const auto expect_refused = [](const std::string& json, std::initializer_list<std::string_view> fragments) {
    const auto read = read_learning(json);
    ASSERT_FALSE(read) << json;
    expect_error(read, read.error().code(), fragments);
  };
  const std::string start = R"({"schedule": "pipelined", "delay_compensation": "spike", "optimizer": )";
  expect_refused(start + R"({"type": "adamw"}})", {"learning.delay_compensation", "'spike'", "'adamw'", "no velocity"});
  expect_refused(start + R"({"nesterov": true}})", {"learning.delay_compensation", "nesterov"});
  expect_refused(start + R"({"momentum": 0}})", {"learning.delay_compensation", "momentum 0"});
  expect_refused(start + R"({"momentum": 1}})", {"learning.delay_compensation", "momentum 1"});
  expect_refused(R"({"delay_compensation": "spikes"})", {"learning.delay_compensation", "spikes", "spike"});
  LearningOptions options{.schedule = Schedule::pipelined, .delay_compensation = DelayCompensation::both};
  EXPECT_EQ(must(read_learning(write_learning(options))), options);
}

}  // namespace
}  // namespace weft::learning::delay_compensation_test
