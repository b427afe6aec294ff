// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/region_graph.hpp"

#include "scheduler/deterministic.hpp"

#include <gtest/gtest.h>

#include "checked_program.hpp"
#include <chrono>

namespace weft::scheduler::internal::region_graph_test {
namespace {

std::uint64_t expected_digest(std::size_t regions, std::uint64_t seed, std::uint64_t n) {
  CheckedProgram program(regions, seed);
  DeterministicExecutor().run(program, n);
  return program.digest();
}

Arenas arenas_of(const topology::Machine& machine, std::size_t threads) {
  return Arenas(machine, topology::core_assignments(machine, threads), false);
}

void work_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(RegionGraph, KeepsAGraphForEachShape) {
  const auto machine = topology::Machine::discover().value();
  const Arenas arenas = arenas_of(machine, 3);
  RegionGraph graph(arenas, {});
  // More shapes than are kept, in turn, and programs of one shape.
  for (int round = 0; round < 5; ++round)
    for (const std::size_t regions : {2, 5, 9, 16, 23, 5})
      for (const std::uint64_t seed : {1, 2}) {
        CheckedProgram program(regions, seed);
        std::uint64_t done = 0;
        ASSERT_TRUE(graph.run(program, 0, 101 + round, done));
        EXPECT_EQ(done, 101u + static_cast<unsigned>(round));
        EXPECT_EQ(program.broken, 0);
        EXPECT_EQ(program.digest(), expected_digest(regions, seed, done)) << regions << ", " << seed;
      }
}

TEST(RegionGraph, GoesOnWhereARunStoodStill) {
  const auto machine = topology::Machine::discover().value();
  const Arenas arenas = arenas_of(machine, 2);
  RegionGraph graph(arenas, {});
  CheckedProgram program(7, 4);
  std::uint64_t done = 0;
  for (std::uint64_t first = 0; first < 300; first = done) {
    ASSERT_TRUE(graph.run(program, first, first + 1 + first % 5, done));
    ASSERT_EQ(done, first + 1 + first % 5);
  }
  EXPECT_EQ(program.broken, 0);
  EXPECT_EQ(program.digest(), expected_digest(7, 4, done));
}

TEST(RegionGraph, CrossesNodes) {
  const auto machine = topology::Machine::synthetic("node:3 core:2 pu:1").value();
  const Arenas arenas = arenas_of(machine, 6);
  ASSERT_EQ(arenas.nodes().size(), 3u);
  RegionGraph graph(arenas, {});
  for (const std::uint32_t cores : {0u, 6u}) {
    CheckedProgram program(18, 5);
    program.cores = cores;
    std::uint64_t done = 0;
    ASSERT_TRUE(graph.run(program, 0, 300, done));
    EXPECT_EQ(program.broken, 0);
    EXPECT_EQ(program.digest(), expected_digest(18, 5, 300));
  }
}

// More threads than cores: each finds its core used by others now and then, and backs off; so does the caller.
TEST(RegionGraph, EndsWhileThreadsRest) {
  const auto machine = topology::Machine::discover().value();
  const Arenas arenas = arenas_of(machine, 2 * machine.usable_cpus() + 1);
  const auto begin = std::chrono::steady_clock::now();
  {
    RegionGraph graph(arenas, {.hooks = {}, .watches_cores = true});
    for (int round = 0; round < 4; ++round) {
      CheckedProgram program(24, 3);
      program.work = [](std::size_t, std::uint64_t) { work_for(std::chrono::microseconds(10)); };
      std::uint64_t done = 0;
      ASSERT_TRUE(graph.run(program, 0, 300, done));
      ASSERT_EQ(program.broken, 0);
      ASSERT_EQ(program.digest(), expected_digest(24, 3, 300));
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << "nobody waits for who backs off";
}

}  // namespace
}  // namespace weft::scheduler::internal::region_graph_test
