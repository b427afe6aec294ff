// SPDX-License-Identifier: Apache-2.0

// When dropout drops: in the firings that an error will speak of, and in no others.

#include "learning/learner_snapshot.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/runtime/state.hpp"

#include "networks.hpp"
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace weft::learning::dropout_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

constexpr std::size_t kIn = 6, kWide = 40, kOut = 4;
constexpr Coord kDropout{0, 0, 1, 0};

mesh::NetworkSpec network(double rate) {
  return mesh::NetworkBuilder("dropping", GridShape{1, 1, 3, 1})
      .input("x", kIn)
      .dense({0, 0, 0, 0}, kWide, kernels::Activation::tanh)
      .layer(kDropout, "dropout")
      .option("rate", rate)
      .dense({0, 0, 2, 0}, kOut)
      .output("y", {0, 0, 2, 0})
      .seed(11)
      .spec();
}

struct DropoutRun : LearningRun {
  explicit DropoutRun(double rate, const LearningOptions& options = {}, std::size_t sessions = 1)
      : LearningRun(network(rate), options, shape(1, sessions)) {}

  /// Learns drawn labels; `labelled` false: runs without learning.
  void learn(std::size_t samples, std::uint64_t seed, bool labelled = true) {
    Samples data(mesh->spec(), learner->options(), samples, mesh->sessions(), seed);
    if (!labelled) std::fill(data.targets[0].labels.begin(), data.targets[0].labels.end(), kNoLabel);
    data.train(*learner, 0, samples);
  }
  std::vector<float> at(Coord where, std::size_t session = 0) const { return output_of(*mesh, where, session); }
  /// Zeros in the dropout layer's output. tanh gives none.
  std::size_t dropped(std::size_t session = 0) const {
    const std::vector<float> y = at(kDropout, session);
    return static_cast<std::size_t>(std::count(y.begin(), y.end(), 0.0f));
  }
};

TEST(DropoutInLearning, DropsLabelledSamplesOnly) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    DropoutRun run(0.5, {.schedule = schedule});
    run.learn(20, 1, false);
    EXPECT_EQ(run.dropped(), 0u);
    run.learn(20, 2);
    EXPECT_GT(run.dropped(), 5u);
    EXPECT_LT(run.dropped(), 35u);
    run.learn(20, 3, false);
    EXPECT_EQ(run.dropped(), 0u);
  }
}

TEST(DropoutInLearning, ScalesWhatItKeeps) {
  DropoutRun run(0.75);
  run.learn(3, 4);
  // Settled: the layer before holds what the dropout layer read.
  const std::vector<float> y = run.at(kDropout), x = run.at({0, 0, 0, 0});
  for (std::size_t j = 0; j < kWide; ++j) EXPECT_TRUE(y[j] == 0.0f || y[j] == 4.0f * x[j]) << j;
}

TEST(DropoutInLearning, EvaluationDropsNothing) {
  DropoutRun run(0.5);
  run.learn(50, 5);
  mesh::Mesh plain = must(mesh::Mesh::build(network(0.0), {.threads = 1}));
  for (const Coord at : {Coord{0, 0, 0, 0}, Coord{0, 0, 2, 0}}) {
    const auto values = run.weights(at);
    mesh::WeightStore& store = mesh::MeshAccess::weights(plain);
    auto to = store.of(*plain.graph().find_layer(at));
    for (std::size_t i = 0; i < to.size(); ++i) must(store.write(to[i], values[i], "weights"));
  }
  const std::vector<float> x = noise(4 * kIn, 6);
  std::vector<float> want(4 * kOut), held(4 * kOut), passed(4 * kOut);
  const mesh::RunInput input{"x", x};
  const mesh::RunOutput into_want{"y", want}, into_held{"y", held}, into_passed{"y", passed};
  must(plain.forward({&input, 1}, 4, {&into_want, 1}));
  must(mesh::MeshAccess::evaluate_copies(*run.mesh, 0, {&input, 1}, 4, 10, {&into_held, 1}));
  must(run.mesh->forward({&input, 1}, 4, {&into_passed, 1}));
  EXPECT_EQ(bits(held), bits(want));
  EXPECT_EQ(bits(passed), bits(want));
  // And ticks without the learner.
  run.learner.reset();
  must(run.mesh->tick(5));
  EXPECT_EQ(run.dropped(), 0u);
}

TEST(DropoutInLearning, DropsNothingOfSessionsThatDoNotLearn) {
  DropoutRun run(0.5, {.learners = 2}, 3);
  run.learn(10, 7);
  EXPECT_GT(run.dropped(0), 0u);
  EXPECT_GT(run.dropped(1), 0u);
  EXPECT_NE(bits(run.at(kDropout, 0)), bits(run.at(kDropout, 1)));
  EXPECT_EQ(run.dropped(2), 0u);
}

// A gradient through dropout is that of the network with this very mask: a step moves no weight whose input was
// dropped.
TEST(DropoutInLearning, WeightsOfDroppedInputsStay) {
  DropoutRun run(0.5);
  const std::vector<float> before = run.weights({0, 0, 2, 0})[0];
  run.learn(1, 8);
  // The output that was scored read what the dropout layer committed a tick before.
  const std::vector<float> after = run.weights({0, 0, 2, 0})[0];
  const float* y = mesh::MeshAccess::state(*run.mesh).output(run.node(kDropout), run.mesh->ticks() - 1).data;
  std::size_t moved = 0;
  for (std::size_t o = 0; o < kOut; ++o)
    for (std::size_t k = 0; k < kWide; ++k) {
      if (y[k] == 0.0f)
        EXPECT_EQ(before[o * kWide + k], after[o * kWide + k]) << k;
      else
        moved += before[o * kWide + k] != after[o * kWide + k];
    }
  EXPECT_GT(moved, kWide);
}

}  // namespace
}  // namespace weft::learning::dropout_test
