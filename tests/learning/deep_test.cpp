// SPDX-License-Identifier: Apache-2.0

// Settled samples in a network that is deep: what errors meet later is kept one copy a hop, and not as rings of all
// ticks. Hashes of the same runs by rings: tests/data/golden_hashes.json.

#include "learning/memory_estimate.hpp"

#include "mesh/network/graph.hpp"
#include "mesh/runtime/state.hpp"

#include <gtest/gtest.h>

#include "../allocations.hpp"
#include "networks.hpp"

namespace weft::learning::deep_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

class DeepSettle : public ::testing::TestWithParam<Rule> {};

TEST_P(DeepSettle, KeepsTwoTicksInRingsAndAllocatesNothingAsItLearns) {
  const LearningOptions options{.rule = GetParam()};
  LearningRun deep(deep_network(), options);
  EXPECT_EQ(mesh::MeshAccess::state(std::as_const(*deep.mesh)).depth(), 2u);
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
