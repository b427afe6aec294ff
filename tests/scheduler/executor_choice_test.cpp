// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/executor_choice.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace weft::scheduler::internal::executor_choice_test {
namespace {

using namespace std::chrono_literals;
using Way = ExecutorChoice::Way;

// A program whose steps take so long on either; tells how much of the last second each way had.
class Program {
 public:
  Program(std::size_t regions, Nanoseconds resident, Nanoseconds graph) : regions_(regions), cost_{resident, graph} {}
  /// Share of the steps of this time that the graph ran.
  double graph_share(Nanoseconds time, std::uint64_t steps_a_run = 1'000'000) {
    std::uint64_t all = 0, graph = 0;
    for (const Nanoseconds end = now_ + time; now_ < end;) {
      const ExecutorChoice::Turn turn = choice_.next(this, regions_, 4, steps_a_run, 256, now_);
      EXPECT_GE(turn.steps, 1u);
      EXPECT_LE(turn.steps, steps_a_run);
      EXPECT_TRUE(turn.steps == steps_a_run || turn.steps % 256 == 0) << "the program is asked at blocks";
      const Nanoseconds begin = now_;
      const Nanoseconds work = cost_[turn.way] * static_cast<std::int64_t>(turn.steps);
      worked_ += static_cast<double>(work.count());
      least_ += static_cast<double>(std::min(cost_[0], cost_[1]).count()) * static_cast<double>(turn.steps);
      now_ += work + lost(work) + std::exchange(lost_cores_, Nanoseconds(0));
      choice_.note(turn.way, turn.steps, begin, now_);
      all += turn.steps;
      graph += turn.way == ExecutorChoice::kGraph ? turn.steps : 0;
    }
    return static_cast<double>(graph) / static_cast<double>(all);
  }
  void set(Nanoseconds resident, Nanoseconds graph) { cost_[0] = resident, cost_[1] = graph; }
  /// Others use the cores: in 3 ms of work threads are switched out in three of ten cases, for 3 to 9 ms.
  void share_cores() { shares_cores_ = true; }
  /// All of them, in the next run.
  void lose_cores(Nanoseconds time) { lost_cores_ = time; }
  /// Time worked over that of the faster way.
  double cost() const { return worked_ / least_; }

 private:
  Nanoseconds lost(Nanoseconds work) {
    Nanoseconds lost{0};
    for (Nanoseconds done{0}; shares_cores_ && done < work; done += 3ms)
      if (random_.next_below(1000) < 300 * std::min<Nanoseconds>(3ms, work - done) / 3ms)
        lost += 3ms + Nanoseconds(random_.next_below(6'000'000));
    return lost;
  }
  std::size_t regions_;
  Nanoseconds cost_[2];
  Nanoseconds now_ = 1s, lost_cores_{0};
  ExecutorChoice choice_;
  bool shares_cores_ = false;
  double worked_ = 0, least_ = 0;
  RandomStream random_{1, 0, RandomPurpose::test};
};

TEST(ExecutorChoice, TakesWhateverIsFaster) {
  Program even(16, 20us, 26us);
  even.graph_share(1s);
  EXPECT_LT(even.graph_share(4s), 0.01) << "tried now and then";
  Program unequal(16, 20us, 13us);
  unequal.graph_share(1s);
  EXPECT_GT(unequal.graph_share(4s), 0.98);
}

TEST(ExecutorChoice, LeavesShortStepsAlone) {
  EXPECT_EQ(Program(16, 1us, 100ns).graph_share(1s), 0);
  EXPECT_EQ(Program(64, 15us, 10us).graph_share(1s), 0) << "less than a thread's microsecond a region";
}

TEST(ExecutorChoice, IsNotMisledByTheFirstSteps) {
  Program program(16, 60us, 26us);  // cold caches, a core that wakes up
  program.graph_share(3ms, 8);
  program.set(20us, 26us);
  EXPECT_LT(program.graph_share(1s, 8), 0.1);
}

// A host takes all cores away for a while, now and then.
TEST(ExecutorChoice, IsNotMisledByAPause) {
  Program program(4, 36us, 40us);
  program.graph_share(20ms, 8);
  for (int second = 0; second < 4; ++second)
    for (int i = 0; i < 4; ++i) {
      program.lose_cores(60ms);
      EXPECT_LT(program.graph_share(250ms, 8), i == 0 && second == 0 ? 0.5 : 0.2) << second << ", " << i;
    }
}

// Nothing is to be evened out, but resident threads wait for each other when they lose their cores.
TEST(ExecutorChoice, TakesTheGraphWithFewRegionsToo) {
  Program program(4, 70us, 26us);
  program.graph_share(1s);
  EXPECT_GT(program.graph_share(4s), 0.98);
}

TEST(ExecutorChoice, IsKeptWhileOtherProgramsRunBetween) {
  ExecutorChoices choices;
  int ticks = 0, copies = 0;
  Nanoseconds now = 1s;
  std::uint64_t graph = 0;
  for (int round = 0; round < 2000; ++round) {
    ExecutorChoice& choice = choices.of(&ticks, 16);
    const auto turn = choice.next(&ticks, 16, 4, 256, 256, now);
    const Nanoseconds begin = now;
    now += (turn.way == ExecutorChoice::kGraph ? 13us : 20us) * 256;
    choice.note(turn.way, 256, begin, now);
    graph += turn.way == ExecutorChoice::kGraph;
    choices.of(&copies, 3).next(&copies, 3, 4, 1, 0, now);
  }
  EXPECT_GT(graph, 1900u);
}

TEST(ExecutorChoice, LearnsFromShortRunsToo) {
  Program unequal(16, 200us, 100us);
  unequal.graph_share(2s, 3);
  EXPECT_GT(unequal.graph_share(2s, 3), 0.9);
}

TEST(ExecutorChoice, CostsLittleInALongRun) {
  struct Costs {
    Nanoseconds resident, graph;
  };
  for (const Costs& costs : {Costs{20us, 26us}, Costs{20us, 13us}, Costs{160us, 200us}, Costs{200us, 150us},
                             Costs{20us, 300us}, Costs{20us, 21us}})
    for (const bool is_busy : {false, true}) {
      Program program(16, costs.resident, costs.graph);
      if (is_busy) program.share_cores();
      program.graph_share(120s);
      EXPECT_LT(program.cost(), 1.02) << costs.resident.count() << " and " << costs.graph.count() << " ns, "
                                      << (is_busy ? "busy" : "quiet");
    }
}

TEST(ExecutorChoice, GoesOverSoonWhenStepsGetSlower) {
  Program program(16, 20us, 24us);
  program.graph_share(60s);  // trials are seconds apart by now
  program.set(40us, 24us);
  EXPECT_GT(program.graph_share(500ms), 0.5);
  program.set(20us, 60us);
  EXPECT_LT(program.graph_share(8s), 0.5) << "the last trial was a moment ago: they take little of the time";
}

}  // namespace
}  // namespace weft::scheduler::internal::executor_choice_test
