// SPDX-License-Identifier: Apache-2.0

// Layers inside containers that answer for faults in learning. Faults of firings: tests/mesh/inner_policies_test.cpp.

#include "learning/learner.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/weights/weight_store.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include "tests/mesh/fuse_layer.hpp"
#include <string>
#include <vector>

namespace weft::learning::inner_policies_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

constexpr Coord kMixture{0, 0, 1, 0};

/// Experts that fail by triggers of their own in "x", before a cell that learns and behind one.
mesh::NetworkSpec network() {
  register_fuse();
  mesh::NetworkSpec spec = must(mesh::read_network(R"({"weft": 2, "seed": 3, "grid": {"x": 3}, "inputs": {"x": [4]},
    "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 4, "from": ["x"]},
      {"at": [0, 0, 1, 0], "type": "parallel", "merge": "add", "policy": "hold", "from": ["x", [0, 0, 0, 0]], "layers": [
        {"type": "fuse", "trigger": 0, "policy": "restart"},
        {"type": "fuse", "trigger": 1, "policy": "hold"},
        {"type": "sequential", "policy": "restart", "layers": [{"type": "fuse", "trigger": 2}, {"type": "rms_norm"}]},
        {"type": "sequential", "layers": [
          {"type": "fuse", "trigger": 7, "policy": "restart"}, {"type": "fuse", "trigger": 3}]}]},
      {"at": [0, 0, 2, 0], "type": "dense", "out": 3}], "outputs": {"y": [0, 0, 2, 0]}})",
                                                   "policies"));
  spec.supervision = {actors::Policy::halt, 20, 0, actors::Policy::isolate};
  return spec;
}

LearningRun started(Schedule schedule, const mesh::MeshOptions& options = shape()) {
  LearningOptions learning{.schedule = schedule};
  learning.optimizer = kernels::default_options(kernels::OptimizerKind::adamw);
  learning.optimizer.lr = 0.01f;
  learning.horizon = 4;
  return LearningRun(network(), learning, options);
}

void learn(LearningRun& run, std::uint64_t sample, std::size_t at = 0, float trigger = 0.0f) {
  std::vector<float> x = noise(4, 900 + sample);
  if (trigger != 0.0f) x[at] = trigger;
  run.train(x, {static_cast<std::uint32_t>(sample % 3)});
}

/// Values that a fault may change: of each parameter of the container, and the optimiser's arrays beside them.
class Arrays final : public OutArchive {
 public:
  explicit Arrays(const LearningRun& run)
      : OutArchive(scopes::kRestart), first_(run.store().first(run.node(kMixture))) {
    std::as_const(*run.learner->saved()).visit_layer(run.node(kMixture), *this);
    for (const auto& parameter : run.store().of(run.node(kMixture)))
      all.at(parameter.index) += to_string(run.store().read(parameter));
  }
  std::vector<std::string> all = std::vector<std::string>(6);

 protected:
  void put(const Field& field, Element, std::span<const std::byte> bytes) override {
    if (field.second != Field::kOnly)
      all.at(field.second - first_) += std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

 private:
  static std::string to_string(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
  std::size_t first_;
};

TEST(InnerPoliciesOfLearning, RestoreWeightsAndOptimiserOfOneLayerAlone) {
  LearningRun run = started(Schedule::settle);
  const std::vector<std::string> built = Arrays(run).all;
  for (std::uint64_t sample = 0; sample < 6; ++sample) learn(run, sample);
  const std::vector<std::string> saved = Arrays(run).all;
  mesh::MeshAccess::take_cell_snapshots(*run.mesh);
  for (std::uint64_t sample = 6; sample < 12; ++sample) learn(run, sample);
  const std::vector<std::string> before = Arrays(run).all;
  learn(run, 12, 2, kBadGradient);
  const std::vector<std::string> after = Arrays(run).all;
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NE(saved[i], built[i]);
    EXPECT_NE(before[i], saved[i]);
    EXPECT_EQ(after[i], i == 2 || i == 3 ? saved[i] : before[i]) << "parameter " << i;
  }
}

TEST(InnerPoliciesOfLearning, AnswerForTheLayerThatFailsOnTheWayBack) {
  const auto events = [](std::size_t at, float trigger) {
    LearningRun run = started(Schedule::settle);
    learn(run, 0, at, trigger);
    const std::string all = events_of(*run.mesh);
    return all.substr(all.find(' ') + 1);
  };
  EXPECT_EQ(events(0, kThrowBack), "threw '0,0,1,0.layers[0]: it blew on the way back' restart 1\n");
  EXPECT_EQ(events(1, kThrowBack), "threw '0,0,1,0.layers[1]: it blew on the way back' hold 0\n");
  EXPECT_EQ(events(3, kThrowBack), "threw 'it blew on the way back' hold 0\n") << "the cell's";
  EXPECT_EQ(events(0, kBadGradient), "update_not_finite '0,0,1,0.layers[0]' restart 1\n");
  EXPECT_EQ(events(1, kBadGradient), "update_not_finite '0,0,1,0.layers[1]' hold 0\n");
  EXPECT_EQ(events(3, kBadGradient), "update_not_finite '' hold 0\n");
  // An error that is not finite spoils the gradient of the layer before; one that leaves the container is the cell's.
  EXPECT_EQ(events(3, kBadMessage), "update_not_finite '0,0,1,0.layers[3].layers[0]' restart 1\n");
  EXPECT_EQ(events(0, kBadMessage), "update_not_finite '' hold 0\n");
}

TEST(InnerPoliciesOfLearning, AnswerAlikeOnAllThreads) {
  constexpr float kWays[] = {kThrowBack, kBadGradient, kNan, kBadMessage, kThrow};
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    const auto course = [&](const mesh::MeshOptions& options) {
      LearningRun run = started(schedule, options);
      std::string all;
      for (std::uint64_t sample = 0; sample < 30; ++sample) {
        learn(run, sample, sample / 2 % 4, sample % 2 ? kWays[sample / 2 % 5] : 0.0f);
        all += run.hash() + " ";
      }
      return all + events_of(*run.mesh);
    };
    const std::string expected = course(shape(1));
    for (const char* found : {"layers[2]' restart", "layers[2]: the fuse blew' restart", "layers[1]' hold", " '' hold"})
      EXPECT_NE(expected.find(found), std::string::npos) << found << " in " << expected;
    for (const std::size_t threads : {2, 7}) EXPECT_EQ(course(shape(threads)), expected) << threads;
  }
}

}  // namespace
}  // namespace weft::learning::inner_policies_test
