// SPDX-License-Identifier: Apache-2.0

// Layers that speak to each other in signs: no slope, so that gradients end there, and targets go on.

#include <gtest/gtest.h>

#include "networks.hpp"

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
    if (rule == Rule::backprop)
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

}  // namespace
}  // namespace weft::learning::sign_learning_test
