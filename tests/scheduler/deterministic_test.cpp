// SPDX-License-Identifier: Apache-2.0

#include "scheduler/deterministic.hpp"

#include <gtest/gtest.h>

#include "checked_program.hpp"

namespace weft::scheduler::deterministic_test {
namespace {

using Event = DeterministicExecutor::Event;

std::vector<Event> events(DeterministicExecutor& executor, CheckedProgram& program, std::uint64_t n) {
  std::vector<Event> list;
  executor.begin(program, n);
  while (const auto event = executor.next()) list.push_back(*event);
  return list;
}

TEST(DeterministicExecutor, SeedZeroIsAscending) {
  DeterministicExecutor executor;
  CheckedProgram program(2, 1);
  EXPECT_EQ(events(executor, program, 2), (std::vector<Event>{{0, 0, false},
                                                              {0, 0, true},
                                                              {1, 0, false},
                                                              {1, 0, true},
                                                              {0, 1, false},
                                                              {0, 1, true},
                                                              {1, 1, false},
                                                              {1, 1, true}}));
}

TEST(DeterministicExecutor, EverySeedGivesOneResultInItsOwnOrder) {
  CheckedProgram reference(10, 1);
  make_deterministic_executor(0)->run(reference, 100);
  std::vector<std::vector<Event>> orders;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CheckedProgram program(10, 1);
    DeterministicExecutor executor(seed);
    EXPECT_EQ(executor.run(program, 100), 100u);
    EXPECT_EQ(program.broken, 0);
    EXPECT_EQ(program.digest(), reference.digest()) << "seed " << seed;
    CheckedProgram again(10, 1);
    orders.push_back(events(executor, again, 100));
    EXPECT_EQ(orders.back().size(), 2u * 10 * 100);
    CheckedProgram third(10, 1);
    EXPECT_EQ(events(executor, third, 100), orders.back()) << "seed " << seed;
    if (seed > 1) {
      EXPECT_NE(orders.back(), orders.front());
    }
  }
}

TEST(DeterministicExecutor, DrawnOrdersLetNeighboursRunAheadByOneStep) {
  DeterministicExecutor executor(3);
  CheckedProgram program(6, 2);
  std::vector<std::uint64_t> progress(6, 0);
  std::uint64_t widest = 0;
  executor.begin(program, 200);
  while (const auto event = executor.next()) {
    if (!event->boundary) continue;
    progress[event->region] = event->step + 1;
    for (const std::uint32_t neighbour : program.neighbours(event->region)) {
      widest = std::max(widest, event->step + 1 - std::min(event->step + 1, progress[neighbour]));
    }
  }
  EXPECT_EQ(widest, 1u);
}

TEST(DeterministicExecutor, AsksAtBlocksAndStops) {
  for (const std::uint64_t seed : {0, 1, 2}) {
    CheckedProgram program(4, 1);
    program.block_steps = 8;
    program.stop_at = 16;
    DeterministicExecutor executor(seed);
    EXPECT_EQ(executor.run(program, 100), 16u);
    EXPECT_EQ(program.questions, (std::vector<std::uint64_t>{8, 16}));
    EXPECT_EQ(program.broken, 0);
  }
}

TEST(DeterministicExecutor, StepsOneEventAtATime) {
  DeterministicExecutor executor(9);
  CheckedProgram program(3, 1);
  executor.begin(program, 4);
  EXPECT_EQ(executor.steps_done(), 0u);
  int count = 0;
  while (executor.next()) ++count;
  EXPECT_EQ(count, 2 * 3 * 4);
  EXPECT_EQ(executor.steps_done(), 4u);
  EXPECT_FALSE(executor.next());
}

}  // namespace
}  // namespace weft::scheduler::deterministic_test
