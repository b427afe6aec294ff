// SPDX-License-Identifier: Apache-2.0

#include "scheduler/executor.hpp"

#include "topology/machine.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace weft::scheduler::team_test {
namespace {

thread_local int depth = 0;
const ThreadHooks kCounting{[](void*) noexcept -> std::uint64_t { return static_cast<std::uint64_t>(++depth); },
                            [](void*, std::uint64_t) noexcept { --depth; }, nullptr};

/// Each step asks for tasks that each add to a place of their own, as often as told.
class Asking final : public TickProgram {
 public:
  explicit Asking(std::size_t tasks) : counts_(tasks) {}
  std::size_t region_count() const noexcept override { return 1; }
  std::span<const std::uint32_t> neighbours(std::size_t) const noexcept override { return {}; }
  bool wants_team() const noexcept override { return true; }
  void use_team(Team* team) noexcept override { team_ = team; }
  void run_interior(std::size_t, std::uint64_t) noexcept override {
    const auto body = [](void* self, std::size_t i) {
      auto& own = *static_cast<Asking*>(self);
      ++own.counts_[i];
      if (depth == 0) own.without_hooks.fetch_add(1);
      if (own.pause.count() > 0) {
        std::this_thread::sleep_for(own.pause);
        const std::lock_guard lock(own.guard);
        own.threads.insert(std::this_thread::get_id());
      }
    };
    if (!team_) return;
    (*team_)(counts_.size(), body, this);
    for (const std::uint64_t count : counts_) is_whole = is_whole && count == counts_.front();
  }
  void run_boundary(std::size_t, std::uint64_t) noexcept override {}

  const std::vector<std::uint64_t>& counts() const { return counts_; }
  bool has_team() const { return team_ != nullptr; }
  std::atomic<int> without_hooks{0};
  bool is_whole = true;  // every task of a question was done when it came back
  std::chrono::microseconds pause{0};
  std::mutex guard;
  std::set<std::thread::id> threads;

 private:
  std::vector<std::uint64_t> counts_;
  Team* team_ = nullptr;
};

std::unique_ptr<Executor> executor_of(std::size_t threads) {
  ExecutorOptions options;
  options.threads = threads;
  options.hooks = kCounting;
  return std::move(make_executor(topology::Machine::discover().value(), options)).value();
}

TEST(Team, DoesEveryTaskOnceBeforeItComesBack) {
  for (const std::size_t threads : {2, 7})
    for (const std::size_t tasks : {1, 2, 3, 40, 70000}) {
      const auto executor = executor_of(threads);
      Asking program(tasks);
      const std::uint64_t steps = tasks > 1000 ? 3 : 5000;
      EXPECT_EQ(executor->run(program, steps), steps);
      EXPECT_TRUE(program.is_whole);
      for (const std::uint64_t count : program.counts()) ASSERT_EQ(count, steps);
      EXPECT_EQ(program.without_hooks, 0);
      EXPECT_FALSE(program.has_team()) << "it is taken back when the run has ended";
    }
}

TEST(Team, IsSeveralThreads) {
  const auto executor = executor_of(2);
  Asking program(2);
  program.pause = std::chrono::microseconds(200);
  // On a machine where others take all cores a worker may be long in coming.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (program.threads.size() < 2 && std::chrono::steady_clock::now() < end) executor->run(program, 20);
  EXPECT_EQ(program.threads.size(), 2u);
}

TEST(Team, WakesWhoSleptBetweenTwoQuestions) {
  const auto executor = executor_of(2);
  Asking program(8);
  program.pause = std::chrono::microseconds(50);
  for (int run = 0; run < 20; ++run) {
    executor->run(program, 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (const std::uint64_t count : program.counts()) EXPECT_EQ(count, 40u);
}

TEST(Team, OneThreadHasNone) {
  const auto executor = executor_of(1);
  Asking program(4);
  EXPECT_EQ(executor->run(program, 5), 5u);
  EXPECT_EQ(program.counts().front(), 0u) << "the program works alone";
}

TEST(Team, OfTheDeterministicExecutorTakesDrawnOrders) {
  struct Order final : TickProgram {
    std::size_t region_count() const noexcept override { return 1; }
    std::span<const std::uint32_t> neighbours(std::size_t) const noexcept override { return {}; }
    bool wants_team() const noexcept override { return true; }
    void use_team(Team* team) noexcept override { team_ = team; }
    void run_interior(std::size_t, std::uint64_t) noexcept override {
      (*team_)(
          5, [](void* self, std::size_t i) { static_cast<Order*>(self)->order.push_back(i); }, this);
    }
    void run_boundary(std::size_t, std::uint64_t) noexcept override {}
    std::vector<std::size_t> order;
    Team* team_ = nullptr;
  };
  const auto order_of = [](std::uint64_t seed) {
    Order program;
    make_deterministic_executor(seed, {}, 3)->run(program, 8);
    return program.order;
  };
  const auto ascending = order_of(0), drawn = order_of(4);
  for (std::size_t i = 0; i < ascending.size(); ++i) EXPECT_EQ(ascending[i], i % 5);
  EXPECT_NE(drawn, ascending);
  EXPECT_EQ(drawn, order_of(4));
  for (std::size_t step = 0; step < 8; ++step)
    EXPECT_EQ(std::set<std::size_t>(drawn.begin() + static_cast<std::ptrdiff_t>(5 * step),
                                    drawn.begin() + static_cast<std::ptrdiff_t>(5 * step + 5))
                  .size(),
              5u);
}

}  // namespace
}  // namespace weft::scheduler::team_test
