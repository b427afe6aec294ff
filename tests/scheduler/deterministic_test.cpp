// SPDX-License-Identifier: Apache-2.0

#include "scheduler/deterministic.hpp"

#include <gtest/gtest.h>

#include "checked_program.hpp"
#include "order_walk.hpp"
#include <set>
#include <string>

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

/// Four things of each half-step that may come in any order, and all sequences of halves and things that were seen.
class FreeThings final : public CheckedProgram {
 public:
  FreeThings() : CheckedProgram(2, 1) {}
  void use_order(Order* order) noexcept override { order_ = order; }
  void run_interior(std::size_t r, std::uint64_t step) noexcept override {
    CheckedProgram::run_interior(r, step);
    std::string things = "abc";
    if (order_) arrange(things.begin(), things.end(), *order_);
    sequence += std::to_string(r) + things;
  }
  void run_boundary(std::size_t r, std::uint64_t step) noexcept override {
    CheckedProgram::run_boundary(r, step);
    sequence += std::to_string(r);
  }
  std::string sequence;

 private:
  Order* order_ = nullptr;
};

TEST(DeterministicExecutor, FollowsEveryOrderOnce) {
  CheckedProgram reference(2, 1);
  DeterministicExecutor().run(reference, 1);
  DeterministicExecutor executor;
  test::OrderWalk walk;
  executor.follow(&walk);
  std::set<std::string> seen;
  std::size_t runs = 0;
  do {
    FreeThings program;
    ASSERT_EQ(executor.run(program, 1), 1u);
    ASSERT_EQ(program.digest(), reference.digest());
    ASSERT_FALSE(walk.is_broken());
    seen.insert(program.sequence);
    ++runs;
  } while (walk.next());
  EXPECT_EQ(runs, 6u * 6 * 6) << "two halves of two regions, three things in each interior";
  EXPECT_EQ(seen.size(), runs);
  executor.follow(nullptr);
  FreeThings program;
  executor.run(program, 1);
  EXPECT_EQ(program.sequence, "0abc01abc1");
}

TEST(DeterministicExecutor, DrawsTheOrderOfWhatAProgramLeavesOpen) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    FreeThings program, again;
    DeterministicExecutor(seed).run(program, 3);
    DeterministicExecutor(seed).run(again, 3);
    EXPECT_EQ(program.sequence, again.sequence);
    seen.insert(program.sequence);
  }
  EXPECT_GT(seen.size(), 35u);
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
