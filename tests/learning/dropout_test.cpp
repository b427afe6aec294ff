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

using mesh::testing_support::bits;
using mesh::testing_support::must;

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

struct LearningRun {
  explicit LearningRun(double rate, Schedule schedule = Schedule::settle, std::size_t sessions = 1,
                       std::size_t threads = 1, std::size_t learners = 1)
      : mesh(must(mesh::Mesh::build(network(rate),
                                    {.threads = threads, .sessions = sessions, .pin = false, .grain_bytes = 0}))) {
    LearningOptions options;
    options.schedule = schedule;
    options.learners = learners;
    options.optimizer.lr = 0.02f;
    learner = must(Learner::build(mesh, options));
  }
  ~LearningRun() { learner.reset(); }

  /// Learns the largest of the first four inputs; `labelled` false: runs without learning.
  void learn(std::size_t samples, std::uint64_t seed, bool labelled = true) {
    const std::vector<float> x = mesh::testing_support::noise(samples * mesh.sessions() * kIn, seed);
    std::vector<std::uint32_t> labels;
    const std::size_t learners = learner->options().learners;
    for (std::size_t s = 0; s < samples; ++s)
      for (std::size_t b = 0; b < learners; ++b) {
        const float* at = x.data() + (s * mesh.sessions() + b) * kIn;
        labels.push_back(labelled ? static_cast<std::uint32_t>(std::max_element(at, at + kOut) - at) : kNoLabel);
      }
    const mesh::RunInput input{"x", x};
    const Target target{"y", labels, {}};
    must(learner->learn({&input, 1}, {&target, 1}, samples));
  }
  std::vector<float> at(Coord where, std::size_t session = 0) const {
    return mesh::testing_support::output_of(mesh, where, session);
  }
  /// Of the dropout layer's output: how many are zero. tanh is not.
  std::size_t dropped(std::size_t session = 0) const {
    const std::vector<float> y = at(kDropout, session);
    return static_cast<std::size_t>(std::count(y.begin(), y.end(), 0.0f));
  }

  mesh::Mesh mesh;
  std::unique_ptr<Learner> learner;
};

TEST(DropoutInLearning, DropsLabelledSamplesOnly) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    LearningRun run(0.5, schedule);
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
  LearningRun run(0.75);
  run.learn(3, 4);
  // Settled: the layer before holds what the dropout layer read.
  const std::vector<float> y = run.at(kDropout), x = run.at({0, 0, 0, 0});
  for (std::size_t j = 0; j < kWide; ++j) EXPECT_TRUE(y[j] == 0.0f || y[j] == 4.0f * x[j]) << j;
}

TEST(DropoutInLearning, EvaluationDropsNothing) {
  LearningRun run(0.5);
  run.learn(50, 5);
  mesh::NetworkSpec plain_spec = network(0.0);
  mesh::Mesh plain = must(mesh::Mesh::build(plain_spec, {.threads = 1}));
  for (const Coord at : {Coord{0, 0, 0, 0}, Coord{0, 0, 2, 0}}) {
    auto from = mesh::MeshAccess::weights(run.mesh).of(*run.mesh.graph().find_layer(at));
    auto to = mesh::MeshAccess::weights(plain).of(*plain.graph().find_layer(at));
    for (std::size_t i = 0; i < from.size(); ++i)
      must(mesh::MeshAccess::weights(plain).write(to[i], mesh::MeshAccess::weights(run.mesh).read(from[i]), "weights"));
  }
  const std::vector<float> x = mesh::testing_support::noise(4 * kIn, 6);
  std::vector<float> want(4 * kOut), held(4 * kOut), passed(4 * kOut);
  const mesh::RunInput input{"x", x};
  const mesh::RunOutput into_want{"y", want}, into_held{"y", held}, into_passed{"y", passed};
  must(plain.forward({&input, 1}, 4, {&into_want, 1}));
  must(mesh::MeshAccess::evaluate_copies(run.mesh, 0, {&input, 1}, 4, 10, {&into_held, 1}));
  must(run.mesh.forward({&input, 1}, 4, {&into_passed, 1}));
  EXPECT_EQ(bits(held), bits(want));
  EXPECT_EQ(bits(passed), bits(want));
  // And ticks without the learner.
  run.learner.reset();
  must(run.mesh.tick(5));
  EXPECT_EQ(run.dropped(), 0u);
}

TEST(DropoutInLearning, DropsNothingOfSessionsThatDoNotLearn) {
  LearningRun run(0.5, Schedule::settle, 3, 1, 2);
  run.learn(10, 7);
  EXPECT_GT(run.dropped(0), 0u);
  EXPECT_GT(run.dropped(1), 0u);
  EXPECT_NE(bits(run.at(kDropout, 0)), bits(run.at(kDropout, 1)));
  EXPECT_EQ(run.dropped(2), 0u);
}

// A gradient through dropout is that of the network with this very mask: a step moves no weight whose input was
// dropped.
TEST(DropoutInLearning, WeightsOfDroppedInputsStay) {
  LearningRun run(0.5);
  const auto weights = [&] {
    return mesh::MeshAccess::weights(run.mesh).read(
        mesh::MeshAccess::weights(run.mesh).of(*run.mesh.graph().find_layer({0, 0, 2, 0}))[0]);
  };
  const std::vector<float> before = weights();
  run.learn(1, 8);
  // The output that was scored read what the dropout layer committed a tick before.
  const std::vector<float> after = weights();
  const float* y =
      mesh::MeshAccess::state(run.mesh).output(*run.mesh.graph().find_layer(kDropout), run.mesh.ticks() - 1).data;
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

TEST(DropoutInLearning, LearnsWithTheSameBitsEverywhereAndGoesOnFromASnapshot) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    LearningRun one(0.3, schedule);
    one.learn(1500, 9);
    one.learn(500, 10);
    const std::string want = to_string(one.mesh.state_hash(0));
    double first = 0, last = 0;
    const auto& scores = one.learner->scores();
    for (std::size_t i = 0; i < 200; ++i)
      first += scores[i].loss / 200, last += scores[scores.size() - 1 - i].loss / 200;
    EXPECT_LT(last, 0.7 * first);
    for (const kernels::Isa isa : kernels::available_isas()) {
      const test::ForIsa active(isa);
      LearningRun other(0.3, schedule, 1, 2);
      other.learn(1500, 9);
      const LearnerSnapshot blobs(*other.learner);
      const auto bytes = must(mesh::encode_mesh(other.mesh, true, {blobs.tensors(), "{}"}));
      const auto file = must(formats::decode_entity(ByteSpan(bytes), "test"));
      LearningRun resumed(0.3, schedule);
      must(mesh::restore_weights(resumed.mesh, file));
      must(mesh::restore_live(resumed.mesh, file));
      must(restore_learner(*resumed.learner, file));
      resumed.learn(500, 10);
      EXPECT_EQ(to_string(resumed.mesh.state_hash(0)), want) << kernels::name(isa);
    }
  }
}

}  // namespace
}  // namespace weft::learning::dropout_test
