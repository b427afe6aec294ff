// SPDX-License-Identifier: Apache-2.0

// Settled samples in a network that is deep: what errors meet later is kept one copy a hop, and not as rings of all
// ticks. Hashes of the same runs by rings: tests/data/golden_hashes.json.

#include "learning/memory_estimate.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/state.hpp"

#include "../allocations.hpp"
#include "networks.hpp"
#include "tests/support/source_path.hpp"
#include <memory>

namespace weft::learning::deep_test {
namespace {

using mesh::testing_support::must;
using weft::testing_support::allocations_during;

constexpr std::uint64_t kSamples = 30;

mesh::NetworkSpec deep_network() {
  const std::string path = source_path("tests/data/deep.json");
  const auto bytes = must(storage::real_file_system().read(path, 1 << 20));
  return must(mesh::read_network(as_text(bytes), path));
}

struct Deep {
  explicit Deep(Rule rule, mesh::MeshOptions shape = {}) : sessions(shape.sessions) {
    mesh = std::make_unique<mesh::Mesh>(must(mesh::Mesh::build(deep_network(), shape)));
    LearningOptions options;
    options.rule = rule;
    options.optimizer.lr = 0.02f;
    learner = must(Learner::build(*mesh, options));
    for (std::uint64_t s = 0; s < kSamples; ++s)
      for (std::size_t b = 0; b < sessions; ++b) {
        RandomStream random(5, s * 64 + b, RandomPurpose::test);
        for (int i = 0; i < 4; ++i) inputs.push_back(random.next_normal());
      }
    for (std::uint64_t s = 0; s < kSamples; ++s) labels.push_back(s % 7 == 6 ? kNoLabel : s % 3);
  }
  void learn(std::uint64_t first, std::uint64_t count) {
    const mesh::RunInput input{"a", std::span(inputs).subspan(first * 4 * sessions, count * 4 * sessions)};
    const Target target{"y", std::span(labels).subspan(first, count), {}};
    must(learner->learn({&input, 1}, {&target, 1}, count));
    learner->clear_scores();
  }

  std::size_t sessions;
  std::unique_ptr<mesh::Mesh> mesh;
  std::unique_ptr<Learner> learner;
  std::vector<float> inputs;
  std::vector<std::uint32_t> labels;
};

class DeepSettle : public ::testing::TestWithParam<Rule> {};

TEST_P(DeepSettle, KeepsTwoTicksInRings) {
  const Deep deep(GetParam());
  EXPECT_EQ(mesh::MeshAccess::state(std::as_const(*deep.mesh)).depth(), 2u);
}

TEST_P(DeepSettle, EndsInTheSameStateOnEveryMachineShape) {
  Deep reference(GetParam());
  reference.learn(0, kSamples);
  const std::string hash = to_string(reference.mesh->state_hash(0));
  for (const kernels::Isa isa : kernels::available_isas())
    for (const std::size_t threads : {1, 3})
      for (const auto executor : {mesh::ExecutorKind::tbb, mesh::ExecutorKind::deterministic}) {
        const test::ForIsa scope(isa);
        mesh::MeshOptions shape;
        shape.threads = threads;
        shape.sessions = threads;
        shape.executor = executor;
        shape.grain_bytes = 0;
        shape.pin = false;
        Deep deep(GetParam(), shape);
        for (std::uint64_t s = 0; s < kSamples; ++s) deep.learn(s, 1);
        EXPECT_EQ(to_string(deep.mesh->state_hash(0)), hash) << name(isa) << ", " << threads << " threads";
      }
}

TEST_P(DeepSettle, GoesBackInMemory) {
  Deep deep(GetParam());
  deep.learn(0, 10);
  mesh::Snapshot saved;
  deep.mesh->take_snapshot(saved);
  deep.learn(10, 10);
  const std::string hash = to_string(deep.mesh->state_hash(0));
  must(deep.mesh->restore_snapshot(saved));
  deep.learn(10, 10);
  EXPECT_EQ(to_string(deep.mesh->state_hash(0)), hash);
}

TEST_P(DeepSettle, AllocatesNothingAsItLearns) {
  if (!WEFT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  mesh::MeshOptions shape;
  shape.threads = 1;
  Deep deep(GetParam(), shape);
  deep.learn(0, kSamples);
  EXPECT_EQ(allocations_during([&] { deep.learn(0, kSamples); }), 0);
}

INSTANTIATE_TEST_SUITE_P(Rules, DeepSettle,
                         ::testing::Values(Rule::backprop, Rule::fw_dtp, Rule::dfa, Rule::gap, Rule::chain),
                         [](const auto& row) { return std::string(name(row.param)); });

/// Bytes of history that a chain of `cells` is told to take.
std::uint64_t history(std::size_t cells, Schedule schedule) {
  mesh::NetworkBuilder builder("chain", {1, 1, static_cast<std::uint32_t>(cells), 1});
  builder.input("x", 2);
  for (std::uint32_t x = 0; x < cells; ++x) builder.dense({0, 0, x, 0}, 2);
  const auto graph =
      must(mesh::Graph::build(builder.output("y", {0, 0, static_cast<std::uint32_t>(cells - 1), 0}).spec()));
  LearningOptions options;
  options.schedule = schedule;
  const auto estimate = must(estimate_memory(graph, with_defaults(options), 1, UINT64_MAX));
  for (const auto& [name, bytes] : estimate.parts)
    if (name == "history") return bytes;
  return 0;
}

TEST(History, IsLinearInTheDepthOfASettledChain) {
  const std::uint64_t some = history(1000, Schedule::settle);
  EXPECT_GT(some, 1000u * 2 * 64);
  EXPECT_LT(history(2000, Schedule::settle), 2 * some + 4096);
  // A new sample every tick: each activation waits for the error's round trip.
  EXPECT_GT(history(2000, Schedule::pipelined), 3 * history(1000, Schedule::pipelined));
}

}  // namespace
}  // namespace weft::learning::deep_test
