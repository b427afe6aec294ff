// SPDX-License-Identifier: Apache-2.0

// Metacognition over a layer that learns: gradient storms.

#include "mesh/layers/metacognition.hpp"

#include "learning/learner_snapshot.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/cell.hpp"

#include "networks.hpp"
#include <memory>
#include <string>
#include <vector>

namespace weft::learning::metacognition_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

constexpr std::size_t kIn = 6, kOut = 3;
constexpr Coord kWatched{0, 0, 0, 0}, kWatching{0, 1, 0, 0};

mesh::NetworkSpec network() {
  return mesh::NetworkBuilder("stormy", GridShape{1, 2, 3, 1})
      .input("x", kIn)
      .dense(kWatched, 10, kernels::Activation::tanh)
      .dense({0, 0, 1, 0}, 10, kernels::Activation::tanh)
      .dense({0, 0, 2, 0}, kOut)
      .layer(kWatching, "metacognition")
      .from({kWatched})
      .option("statistic", std::string("gradient_storm"))
      .option("above", 8.0)
      .option("horizon", 40.0)
      .option("cooldown", 50.0)
      .option("action", std::string("morph"))
      .option("to", std::string("bfloat16"))
      .output("y", {0, 0, 2, 0})
      .seed(4)
      .spec();
}

struct StormyRun : LearningRun {
  explicit StormyRun(Schedule schedule) : LearningRun(network(), options(schedule)) {}
  static LearningOptions options(Schedule schedule) {
    return {.schedule = schedule, .loss = Loss::mse, .optimizer = {.kind = OptimizerKind::sgd, .lr = 0.001f}};
  }
  /// Samples whose targets, and so whose errors, are of size `scale`.
  void learn(std::size_t samples, std::uint64_t seed, float scale) {
    train(noise(samples * kIn, seed), {}, noise(samples * kOut, seed + 1, scale), samples);
  }
  std::uint64_t actions() const { return actions_of(*mesh); }
  Dtype dtype() const { return store().encoding(node(kWatched)).dtype; }
};

TEST(MetacognitionInLearning, ActsOnAGradientStormOnly) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    StormyRun run(schedule);
    run.learn(400, 1, 0.5f);
    EXPECT_EQ(run.actions(), 0u);
    EXPECT_EQ(run.dtype(), Dtype::float32);
    run.learn(10, 3, 50.0f);
    EXPECT_GE(run.actions(), 1u);
    EXPECT_EQ(run.dtype(), Dtype::bfloat16);
  }
}

// The rms of all of the layer's gradients: the first step of sgd moves each weight by lr times its gradient.
TEST(MetacognitionInLearning, MeasuresTheGradientThatMovesTheWeights) {
  StormyRun run(Schedule::settle);
  const auto before = run.weights(kWatched);
  run.learn(1, 5, 40.0f);
  double squares = 0, count = 0;
  const float lr = run.learner->options().optimizer.lr;
  const auto after = run.weights(kWatched);
  for (std::size_t i = 0; i < before.size(); ++i)
    for (std::size_t k = 0; k < before[i].size(); ++k, ++count)
      squares += std::pow((double{after[i][k]} - before[i][k]) / lr, 2);
  const double size = static_cast<double>(run.learner->gradient_size(run.node(kWatched), 0));
  EXPECT_GT(size, 0.0);
  EXPECT_NEAR(size, std::sqrt(squares / count), 1e-3 * size);
}

}  // namespace
}  // namespace weft::learning::metacognition_test
