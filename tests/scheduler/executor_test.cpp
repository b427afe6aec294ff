// SPDX-License-Identifier: Apache-2.0

#include "scheduler/executor.hpp"

#include "topology/core_assignment.hpp"
#include "topology/machine.hpp"

#include <gtest/gtest.h>

#include <sched.h>

#include "checked_program.hpp"
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>

namespace weft::scheduler::executor_test {
namespace {

using namespace std::chrono_literals;

topology::Machine this_machine() { return topology::Machine::discover().value(); }

// Shares even the smallest run, so that the workers is what is tested.
ExecutorOptions sharing(std::size_t threads, ExecutorKind kind = ExecutorKind::resident) {
  ExecutorOptions options;
  options.kind = kind;
  options.threads = threads;
  options.alone_below = 0ns;
  return options;
}

std::unique_ptr<Executor> executor_of(ExecutorOptions options) {
  return std::move(make_executor(this_machine(), options)).value();
}

std::uint64_t reference_digest(std::size_t regions, std::uint64_t seed, std::uint64_t n) {
  CheckedProgram program(regions, seed);
  for (std::uint64_t step = 0; step < n; ++step) {
    for (std::size_t r = 0; r < regions; ++r) program.run_interior(r, step);
    for (std::size_t r = 0; r < regions; ++r) program.run_boundary(r, step);
  }
  return program.digest();
}

constexpr std::array kKinds{ExecutorKind::resident, ExecutorKind::graph, ExecutorKind::automatic};

class Threads : public testing::TestWithParam<std::tuple<std::size_t, ExecutorKind>> {
 protected:
  static std::size_t threads() { return std::get<0>(GetParam()); }
  static ExecutorOptions sharing_options() { return sharing(threads(), std::get<1>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(Executor, Threads, testing::Combine(testing::Values(1, 2, 7), testing::ValuesIn(kKinds)),
                         [](const auto& of) {
                           return std::string(name(std::get<1>(of.param))) + "_" +
                                  std::to_string(std::get<0>(of.param));
                         });

class Kinds : public testing::TestWithParam<ExecutorKind> {};
INSTANTIATE_TEST_SUITE_P(Executor, Kinds, testing::ValuesIn(kKinds),
                         [](const auto& of) { return std::string(name(of.param)); });

TEST_P(Threads, KeepTheNeighbourRuleOnRandomGraphs) {
  const auto executor = executor_of(sharing_options());
  EXPECT_EQ(executor->concurrency(), threads());
  for (const std::size_t regions : {1, 2, 3, 7, 16, 40}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CheckedProgram program(regions, seed);
      EXPECT_EQ(executor->run(program, 1000), 1000u);
      EXPECT_EQ(program.broken, 0);
      EXPECT_EQ(program.digest(), reference_digest(regions, seed, 1000)) << regions << " regions, seed " << seed;
    }
  }
}

TEST_P(Threads, AskAtEveryBlockAndStopWhereTold) {
  const auto executor = executor_of(sharing_options());
  for (const std::size_t regions : {1, 2, 16}) {
    CheckedProgram program(regions, 5);
    program.block_steps = 10;
    EXPECT_EQ(executor->run(program, 35), 35u);
    EXPECT_EQ(program.questions, (std::vector<std::uint64_t>{10, 20, 30}));
    EXPECT_EQ(program.broken, 0);

    CheckedProgram stopped(regions, 5);
    stopped.block_steps = 10;
    stopped.stop_at = 20;
    EXPECT_EQ(executor->run(stopped, 1000), 20u);
    EXPECT_EQ(stopped.digest(), reference_digest(regions, 5, 20));

    CheckedProgram exact(regions, 5);  // the end needs no question
    exact.block_steps = 10;
    EXPECT_EQ(executor->run(exact, 10), 10u);
    EXPECT_TRUE(exact.questions.empty());

    CheckedProgram never(regions, 5);
    never.block_steps = 0;
    EXPECT_EQ(executor->run(never, 700), 700u);
    EXPECT_TRUE(never.questions.empty());
    EXPECT_EQ(never.digest(), reference_digest(regions, 5, 700));
  }
}

TEST_P(Threads, RunAfterRunGoesOnWhereTheLastEnded) {
  const auto executor = executor_of(sharing_options());
  CheckedProgram once(9, 3), often(9, 3);
  executor->run(once, 600);
  // Single steps in quick succession, then with pauses long enough for workers to leave.
  CheckedProgram alone(9, 3);
  const auto deterministic = make_deterministic_executor();
  for (int i = 0; i < 600; ++i) {
    if (i % 150 == 149) std::this_thread::sleep_for(2ms);
    EXPECT_EQ(executor->run(often, 1), 1u);
    often.rewind();
    deterministic->run(alone, 1);
    alone.rewind();
  }
  EXPECT_EQ(often.broken, 0);
  EXPECT_EQ(often.digest(), alone.digest());
}

TEST_P(Threads, HooksWrapEveryThreadThatRunsProgramCode) {
  struct Counts {
    std::atomic<int> entered{0}, left{0}, wrong{0};
  } counts;
  static thread_local int depth = 0;
  ExecutorOptions options = sharing_options();
  options.hooks.context = &counts;
  options.hooks.enter = [](void* context) noexcept -> std::uint64_t {
    ++static_cast<Counts*>(context)->entered;
    return static_cast<std::uint64_t>(++depth) + 41;
  };
  options.hooks.leave = [](void* context, std::uint64_t word) noexcept {
    Counts& c = *static_cast<Counts*>(context);
    ++c.left;
    if (word != static_cast<std::uint64_t>(depth) + 41) ++c.wrong;
    --depth;
  };
  const auto executor = executor_of(options);
  for (const std::size_t regions : {1, 12}) {
    CheckedProgram program(regions, 1);
    program.work = [&](std::size_t, std::uint64_t) {
      if (depth != 1) ++counts.wrong;
    };
    executor->run(program, 2000);
    EXPECT_EQ(depth, 0);
    EXPECT_EQ(counts.entered, counts.left);
    EXPECT_EQ(counts.wrong, 0);
  }
}

TEST_P(Threads, UnevenWorkKeepsTheRule) {
  const auto executor = executor_of(sharing_options());
  CheckedProgram program(8, 11);
  // One region is slow now and then: the others spin, yield and sleep.
  program.work = [](std::size_t r, std::uint64_t step) {
    if (r == step % 8 && step % 16 == 0) std::this_thread::sleep_for(300us);
  };
  EXPECT_EQ(executor->run(program, 400), 400u);
  EXPECT_EQ(program.broken, 0);
  EXPECT_EQ(program.digest(), reference_digest(8, 11, 400));
}

TEST_P(Threads, HomeCoresMayBeAnything) {
  const auto executor = executor_of(sharing_options());
  for (const std::uint32_t cores : {1u, 2u, 1000u}) {
    CheckedProgram program(12, 4);
    program.cores = cores;
    EXPECT_EQ(executor->run(program, 300), 300u);
    EXPECT_EQ(program.broken, 0);
    EXPECT_EQ(program.digest(), reference_digest(12, 4, 300));
  }
}

TEST_P(Kinds, NothingToDoIsDoneAtOnce) {
  const auto executor = executor_of(sharing(2, GetParam()));
  CheckedProgram none(0, 1), some(4, 1);
  EXPECT_EQ(executor->run(none, 1000), 1000u);
  EXPECT_EQ(executor->run(some, 0), 0u);
  EXPECT_EQ(make_deterministic_executor(7)->run(none, 1000), 1000u);
}

TEST_P(Kinds, SmallProgramsStayOnTheCaller) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer makes empty regions cost more than sharing does";
#endif
  // With default options a program of empty regions is never shared once its cost is known.
  const auto executor = executor_of({.kind = GetParam()});
  CheckedProgram program(2, 1);
  for (int i = 0; i < 200; ++i) executor->run(program, 1), program.rewind();
  std::atomic<int> elsewhere{0};
  const auto caller = std::this_thread::get_id();
  program.work = [&](std::size_t, std::uint64_t) { elsewhere += std::this_thread::get_id() != caller; };
  for (int i = 0; i < 200; ++i) executor->run(program, 1), program.rewind();
  EXPECT_EQ(elsewhere, 0);
}

TEST_P(Kinds, LargeProgramsAreShared) {
  if (this_machine().usable_cpus() < 2) GTEST_SKIP() << "one CPU only";
  const auto executor = executor_of({.kind = GetParam(), .threads = 2});
  CheckedProgram program(2, 1, 4);
  std::atomic<int> elsewhere{0};
  const auto caller = std::this_thread::get_id();
  program.work = [&](std::size_t, std::uint64_t) {
    std::this_thread::sleep_for(1ms);
    elsewhere += std::this_thread::get_id() != caller;
  };
  // On a machine where others take all cores a worker may be long in coming.
  const auto end = std::chrono::steady_clock::now() + 30s;
  do {
    executor->run(program, 200);
    program.rewind();
  } while (elsewhere == 0 && std::chrono::steady_clock::now() < end);
  EXPECT_GT(elsewhere, 0);
  EXPECT_EQ(program.broken, 0);
}

TEST_P(Kinds, TwoCallersAtOnceBothGetTheirRuns) {
  const auto executor = executor_of(sharing(2, GetParam()));
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    callers.emplace_back([&, seed] {
      const std::uint64_t expected = reference_digest(6, seed, 300);
      for (int i = 0; i < 20; ++i) {
        CheckedProgram program(6, seed);
        if (executor->run(program, 300) != 300 || program.broken != 0 || program.digest() != expected) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Kinds, AProgramMayRunAnother) {
  const auto executor = executor_of(sharing(2, GetParam()));
  CheckedProgram outer(4, 1);
  std::atomic<int> wrong{0};
  outer.work = [&](std::size_t, std::uint64_t step) {
    if (step % 50) return;
    CheckedProgram inner(3, 2);
    if (executor->run(inner, 20) != 20 || inner.digest() != reference_digest(3, 2, 20)) ++wrong;
  };
  EXPECT_EQ(executor->run(outer, 200), 200u);
  EXPECT_EQ(wrong, 0);
}

TEST_P(Kinds, ManyComeAndGo) {
  for (int i = 0; i < 40; ++i) {
    const auto executor = executor_of(sharing(1 + i % 5, GetParam()));
    executor->prepare();
    CheckedProgram program(5, 1);
    if (i % 3) {
      executor->run(program, 50);
    }
    EXPECT_EQ(program.broken, 0);
  }
}

TEST_P(Kinds, LeavesTheCallersAffinityAlone) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  {
    const auto executor = executor_of(sharing(2, GetParam()));
    CheckedProgram program(4, 1);
    executor->run(program, 2000);
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST_P(Kinds, RunsOnMachinesItCannotPinOn) {
  const auto machine = topology::Machine::synthetic("node:2 core:3 pu:1").value();
  const auto executor = std::move(make_executor(machine, sharing(0, GetParam()))).value();
  EXPECT_EQ(executor->concurrency(), 6u);  // two arenas
  CheckedProgram program(12, 2);
  EXPECT_EQ(executor->run(program, 1000), 1000u);
  EXPECT_EQ(program.broken, 0);
  EXPECT_EQ(program.digest(), reference_digest(12, 2, 1000));
}

TEST(Executor, RefusesImpossibleOptions) {
  EXPECT_EQ(make_executor(this_machine(), {.threads = 100000}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(make_executor(this_machine(), {.kind = ExecutorKind::deterministic}).error().code(),
            Errc::invalid_argument);
  EXPECT_EQ(make_executor(this_machine(), {.spin = -1ns}).error().code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace weft::scheduler::executor_test
