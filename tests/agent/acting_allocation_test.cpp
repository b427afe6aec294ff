// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new.

// Costs of a step of an agent that acts, counted instead of timed: how often it asks for memory.

#include "agent/agent.hpp"

#include <gtest/gtest.h>

#include "tests/agent/acting.hpp"
#include "tests/allocations.hpp"

namespace weft::agent::test::acting_allocation_test {
namespace {

using mesh::testing_support::must;
using weft::testing_support::allocations_during;

// Small form of what a step costs: no clock, which a shared machine would make lie. Episodes that begin and end count
// too. Measured: 15 of a step in one environment, 22 in four.
TEST(ActingStep, AsksForMemoryNoMoreOftenThanItDid) {
  if (!WEFT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  for (const auto& [environments, most] : {std::pair(1, 18), std::pair(4, 26)}) {
    const std::string section = R"({"environment": {"type": "cartpole"}, "seed": 5, "environments": )";
    auto made = must(ReplayableMesh::begin(network(section + std::to_string(environments) + "}"), true, shape(1)));
    must(made.loop()->run(2000));
    made.loop()->clear_ended();
    const long asked = allocations_during([&] { must(made.loop()->run(1000)); });
    EXPECT_LE(asked, 1000L * most) << environments;
  }
}

}  // namespace
}  // namespace weft::agent::test::acting_allocation_test
