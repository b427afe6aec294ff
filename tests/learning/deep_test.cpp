// SPDX-License-Identifier: Apache-2.0

// Memory of the past in a network that is deep: of a settled sample what errors meet later is kept one copy a hop, and
// not as rings of all ticks; a pipelined layer keeps the ticks that its own errors look back to. Hashes of the same
// runs by rings of all ticks: tests/data/golden_hashes.json.

#include "learning/memory_estimate.hpp"

#include "mesh/network/graph.hpp"
#include "mesh/persistence/mesh_load.hpp"
#include "mesh/runtime/state.hpp"

#include "formats/entity/entity.hpp"

#include <gtest/gtest.h>

#include "../allocations.hpp"
#include "networks.hpp"
#include <algorithm>
#include <bit>

namespace weft::learning::deep_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

class DeepSettle : public ::testing::TestWithParam<Rule> {};

// Records hold what errors come back to; a local error comes back to nothing, and needs no more ticks when pipelined.
TEST_P(DeepSettle, KeepsAFewTicksInRingsAndAllocatesNothingAsItLearns) {
  const LearningOptions options{.rule = GetParam()};
  LearningRun deep(deep_network(), options);
  EXPECT_EQ(mesh::MeshAccess::state(std::as_const(*deep.mesh)).depth(), GetParam() == Rule::local_ce ? 4u : 2u);
  if (!WEFT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  const Samples samples(deep_network(), options, 30);
  const Samples::Batch batch = samples.batch(0, 30);
  const auto learn = [&] {
    must(deep.learner->learn(batch.inputs, batch.targets, 30));
    deep.learner->clear_scores();
  };
  learn();
  EXPECT_EQ(weft::testing_support::allocations_during(learn), 0);
}

INSTANTIATE_TEST_SUITE_P(Rules, DeepSettle, ::testing::ValuesIn(test::all_rules()),
                         [](const auto& row) { return std::string(name(row.param)); });

mesh::NetworkSpec chain(std::size_t cells) {
  mesh::NetworkBuilder builder("chain", {1, 1, static_cast<std::uint32_t>(cells), 1});
  builder.input("x", 2);
  for (std::uint32_t x = 0; x < cells; ++x) builder.dense({0, 0, x, 0}, 2);
  return builder.output("y", {0, 0, static_cast<std::uint32_t>(cells - 1), 0}).spec();
}

/// Bytes of history that a chain of `cells` is told to take.
std::uint64_t history(std::size_t cells, Schedule schedule, Rule rule = Rule::backprop) {
  const auto graph = must(mesh::Graph::build(chain(cells)));
  LearningOptions options;
  options.schedule = schedule;
  options.rule = rule;
  const auto estimate = must(estimate_memory(graph, with_defaults(options), 1, UINT64_MAX));
  for (const auto& [name, bytes] : estimate.parts)
    if (name == "history") return bytes;
  return 0;
}

TEST(History, IsLinearInTheDepthOfASettledChain) {
  const std::uint64_t some = history(1000, Schedule::settle);
  EXPECT_GT(some, 1000u * 2 * 64);
  EXPECT_LT(history(2000, Schedule::settle), 2 * some + 4096);
}

// A new sample every tick: a layer r links before the output keeps what it published since the sample passed it, r
// ticks to the output and, but for dfa, r ticks back; a tick more for its reader, and two that neighbours are ahead.
TEST(History, OfAPipelinedChainIsWhatEachLayerWaitsForAndNoMore) {
  constexpr std::uint64_t kRow = 64;  // bytes of two floats, padded
  for (const Rule rule : {Rule::backprop, Rule::fw_dtp, Rule::gap, Rule::chain, Rule::dfa})
    for (const std::uint64_t cells : {2u, 3u, 15u, 16u, 100u, 1000u, 3000u}) {
      std::uint64_t expected = 0, least = 0;
      for (std::uint64_t r = 0; r < cells; ++r) {
        const std::uint64_t waits = rule == Rule::dfa ? r + std::min<std::uint64_t>(r, 1) : 2 * r;
        least += (waits + 1) * kRow;
        expected += std::bit_ceil(waits + 4) * kRow;
        if (r == cells - 1) expected += std::bit_ceil(waits + 4) * kRow;  // the input
      }
      EXPECT_EQ(history(cells, Schedule::pipelined, rule), expected) << name(rule) << ", " << cells;
      if (cells < 100) continue;  // there the 3 ticks more weigh most
      EXPECT_LE(2 * expected, 3 * least + 8 * cells * kRow)
          << "rounded up to powers of two: at most half as much again";
    }
}

// Up to 15 links a settled sample's past is in rings: of a layer r links before the output the last r + 1 ticks.
TEST(History, OfAShallowSettledChainIsWhatEachLayerWaitsForAndNoMore) {
  constexpr std::uint64_t kRow = 64;
  for (const Rule rule : {Rule::backprop, Rule::fw_dtp, Rule::gap, Rule::chain, Rule::dfa})
    for (const std::uint64_t cells : {2u, 3u, 8u, 15u}) {
      std::uint64_t expected = std::bit_ceil(cells + 3) * kRow;  // the input
      for (std::uint64_t r = 0; r < cells; ++r) expected += std::bit_ceil(r + 4) * kRow;
      EXPECT_EQ(history(cells, Schedule::settle, rule), expected) << name(rule) << ", " << cells;
    }
}

// Between two samples a settled learner's file holds the present tick alone; one whose errors are under way all it has.
TEST(History, OfASettledLearnerIsNotSaved) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    const LearningOptions options{.schedule = schedule};
    LearningRun run(chain(8), options);
    const Samples samples(chain(8), options, 6);
    samples.train(*run.learner, 0, 4);
    const mesh::State& state = mesh::MeshAccess::state(std::as_const(*run.mesh));
    const bool is_settled = schedule == Schedule::settle;
    EXPECT_EQ(kept_ticks(*run.learner), is_settled ? 1u : 0u);
    const auto file = must(formats::decode_entity(run.file(), "file"));
    EXPECT_EQ(must(file.find("state/session/0")).bytes.size(),
              is_settled ? state.session_bytes_of({}, 1) : state.session_bytes());
    // Loaded without a learner, and with one that goes on.
    const mesh::Mesh alone = must(mesh::load_mesh(run.file(), "file"));
    EXPECT_EQ(must(alone.output("y"))[0], must(run.mesh->output("y"))[0]);
    LearningRun next(run.file(), options);
    for (LearningRun* const each : {&run, &next}) samples.train(*each->learner, 4, 2);
    EXPECT_EQ(next.mesh->state_hash(), run.mesh->state_hash());
  }
}

class DeepPipelined : public ::testing::TestWithParam<Rule> {};

TEST_P(DeepPipelined, KeepsOfEachLayerWhatItsDeepestErrorLooksBackTo) {
  const LearningRun deep(deep_network(), {.rule = GetParam(), .schedule = Schedule::pipelined});
  const mesh::State::Options& kept = mesh::MeshAccess::state(std::as_const(*deep.mesh)).options();
  ASSERT_EQ(kept.node_depths.size(), deep.mesh->graph().nodes().size());
  EXPECT_EQ(kept.depth, *std::ranges::max_element(kept.node_depths));
  EXPECT_EQ(kept.depth_of(*deep.mesh->graph().find_output("y")), 4u);
  EXPECT_GE(kept.depth, GetParam() == Rule::dfa ? 16u : 32u);
}

INSTANTIATE_TEST_SUITE_P(Rules, DeepPipelined,
                         ::testing::Values(Rule::backprop, Rule::fw_dtp, Rule::dfa, Rule::gap, Rule::chain),
                         [](const auto& row) { return std::string(name(row.param)); });

}  // namespace
}  // namespace weft::learning::deep_test
