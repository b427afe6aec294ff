// SPDX-License-Identifier: Apache-2.0

// Layers that speak to each other in signs: no slope, so that gradients end there, and targets go on.

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <cstdio>
#include <string>

namespace weft::learning::sign_learning_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

/// The place of the largest of six inputs, from signs of one layer only.
mesh::NetworkSpec network() {
  return mesh::NetworkBuilder("signs", GridShape{1, 1, 4, 1})
      .input("x", 6)
      .dense({0, 0, 0, 0}, 40, kernels::Activation::tanh)
      .layer({0, 0, 1, 0}, "sign")
      .dense({0, 0, 2, 0}, 40, kernels::Activation::tanh)
      .dense({0, 0, 3, 0}, 6)
      .output("y", {0, 0, 3, 0})
      .seed(6)
      .spec();
}

TEST(SignLearning, TargetsPassSignsAndGradientsEndThere) {
  const auto start = LearningRun(network(), {}).weights({0, 0, 0, 0});
  for (const Rule rule : all_rules()) {
    LearningRun run(network(), {.rule = rule});
    Samples(network(), {.rule = rule}, 20).train(*run.learner, 0, 20);
    // chain sends gradients, and backprop too; but what passes a step is the target, of which chain has one.
    // gap_original has a target for the types alone that the original has one for.
    if (rule == Rule::backprop || rule == Rule::gap_original)
      EXPECT_EQ(run.weights({0, 0, 0, 0}), start);
    else
      EXPECT_NE(run.weights({0, 0, 0, 0}), start) << name(rule);
  }
}

/// Loss of the last 500 of 4,000 samples, or with the first layer as it was drawn.
double loss(Rule rule, bool has_fixed_first) {
  constexpr std::uint64_t kSamples = 4000, kLast = 500;
  auto spec = network();
  spec.layers[0].is_frozen = has_fixed_first;
  const LearningOptions options{.rule = rule};
  LearningRun run(spec, options);
  Samples(spec, options, kSamples, 1, 11, true).train(*run.learner, 0, kSamples);
  double sum = 0;
  for (const Score& score : run.learner->scores().last(kLast)) sum += score.loss;
  return sum / kLast;
}

TEST(SignLearning, TargetsBelowSignsAreWorthMoreThanRandomFeatures) {
  for (const Rule rule : {Rule::dtp, Rule::fw_dtp}) EXPECT_LT(loss(rule, false), 0.9 * loss(rule, true)) << name(rule);
}

/// Layers of the digits that speak to each other in steps: 64 signs with a zone of 0, or 16 choices among 4.
mesh::NetworkSpec stepping_digits(const std::string& step, bool has_fixed_first, std::uint64_t seed) {
  mesh::NetworkBuilder network("steps", GridShape{1, 1, 4, 1});
  network.input("x", 64).dense({0, 0, 0, 0}, 64, kernels::Activation::tanh).layer({0, 0, 1, 0}, step);
  if (step == "argmax")
    network.view({16, 4});
  else
    network.option("zone", 0.3);
  network.dense({0, 0, 2, 0}, 64, kernels::Activation::tanh).view({64});
  auto spec = network.dense({0, 0, 3, 0}, 10).output("y", {0, 0, 3, 0}).seed(seed).spec();
  spec.layers[0].is_frozen = has_fixed_first;
  return spec;
}

/// Share of wrong answers to 397 digits after eight passes over the 1,400 others, of three seeds.
double wrong(const std::string& step, Rule rule, bool has_fixed_first) {
  constexpr std::size_t kLearned = 1400, kPasses = 8, kSeeds = 3;
  static const Dataset data = digits();
  std::size_t errors = 0, asked = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    LearningRun run(stepping_digits(step, has_fixed_first, seed), {.rule = rule, .schedule = Schedule::pipelined});
    const std::vector<float> x(data.inputs.begin(), data.inputs.begin() + kLearned * 64);
    const std::vector<std::uint32_t> labels(data.labels.begin(), data.labels.begin() + kLearned);
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
      run.train(x, labels, {}, kLearned);
      run.learner->clear_scores();
    }
    const std::size_t rest = data.size - kLearned;
    std::vector<float> y(rest * 10);
    const mesh::RunInput in{"x", std::span(data.inputs).subspan(kLearned * 64)};
    const mesh::RunOutput out{"y", y};
    must(run.learner->predict({&in, 1}, rest, {&out, 1}));
    for (std::size_t i = 0; i < rest; ++i, ++asked) {
      const auto first = y.begin() + static_cast<std::ptrdiff_t>(10 * i);
      errors += std::max_element(first, first + 10) - first != static_cast<std::ptrdiff_t>(data.labels[kLearned + i]);
    }
  }
  return static_cast<double>(errors) / static_cast<double>(asked);
}

// A layer below steps learns something: with its weights as they were drawn the rest makes more errors.
TEST(SignLearning, DigitsAreLearnedThroughSignsWithAZoneAndThroughChoices) {
  for (const std::string step : {"sign", "argmax"})
    for (const Rule rule : {Rule::dtp, Rule::fw_dtp}) {
      const double learned = wrong(step, rule, false), fixed = wrong(step, rule, true);
      std::printf("%s by %s: %.4f of the answers wrong, %.4f with a fixed first layer\n", step.c_str(),
                  std::string(name(rule)).c_str(), learned, fixed);
      EXPECT_LT(learned, 0.8 * fixed) << step << " by " << name(rule);
    }
}

}  // namespace
}  // namespace weft::learning::sign_learning_test
