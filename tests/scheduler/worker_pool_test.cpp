// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/worker_pool.hpp"

#include "scheduler/deterministic.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include "checked_program.hpp"
#include <array>
#include <atomic>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace weft::scheduler::internal::worker_pool_test {
namespace {

using namespace std::chrono_literals;

std::uint64_t expected_digest(std::size_t regions, std::uint64_t seed, std::uint64_t n) {
  CheckedProgram program(regions, seed);
  DeterministicExecutor().run(program, n);
  return program.digest();
}

// A pool of plain threads that answers requests as late as it likes, or never.
struct Pool {
  std::function<std::chrono::microseconds(std::size_t request)> delay;  // negative: never
  std::function<void()> gate;                                           // what threads wait for before they arrive
  WorkerPool* worker_pool = nullptr;
  std::mutex guard;
  std::vector<std::thread> threads;
  std::size_t requests = 0;

  bool request(std::size_t worker) {
    const std::lock_guard lock(guard);
    const auto wait = delay(requests++);
    if (wait < 0us) return true;  // promised, never kept
    threads.emplace_back([this, worker, wait] {
      std::this_thread::sleep_for(wait);
      if (gate) gate();
      if (worker_pool->arrive(worker)) worker_pool->serve(worker);
    });
    return true;
  }
  void join() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

struct Rig {
  explicit Rig(std::size_t workers, std::function<std::chrono::microseconds(std::size_t)> delay,
               WorkerPool::Options options = {.spin = 5us, .linger = 50us, .hooks = {}})
      : worker_pool(std::vector<std::uint32_t>(workers, 0), options,
                    [this](std::size_t m) { return pool.request(m); }) {
    pool.delay = std::move(delay);
    pool.worker_pool = &worker_pool;
  }
  ~Rig() {
    worker_pool.close();
    pool.join();
  }
  Pool pool;
  WorkerPool worker_pool;
};

TEST(WorkerPool, WorksEveryRegionWhenNobodyEverComes) {
  Rig rig(8, [](std::size_t) { return -1us; });
  for (const std::size_t regions : {2, 8, 50}) {
    CheckedProgram program(regions, 3);
    std::uint64_t done = 0;
    ASSERT_TRUE(rig.worker_pool.run(program, 500, done));
    EXPECT_EQ(done, 500u);
    EXPECT_EQ(program.broken, 0);
    EXPECT_EQ(program.digest(), expected_digest(regions, 3, 500));
  }
}

// Regions that do not wait for each other; notes in which order they are worked.
class Independent final : public TickProgram {
 public:
  std::size_t region_count() const noexcept override { return 4; }
  std::span<const std::uint32_t> neighbours(std::size_t) const noexcept override { return {}; }
  void run_interior(std::size_t region, std::uint64_t) noexcept override { order += static_cast<char>('0' + region); }
  void run_boundary(std::size_t, std::uint64_t) noexcept override {}
  std::string order;
};

// With as much weight as two caches hold, half of it is still there when a worker turns round.
TEST(WorkerPool, TurnsRoundAtTheLastRegion) {
  WorkerPool worker_pool({0}, {.spin = 5us, .linger = 50us, .hooks = {}}, [](std::size_t) { return false; });
  Independent program;
  std::uint64_t done = 0;
  ASSERT_TRUE(worker_pool.run(program, 4, done));
  EXPECT_EQ(program.order, "0123321001233210");
}

TEST(WorkerPool, WorksEveryRegionWhenRequestsAreRefused) {
  WorkerPool worker_pool({0, 0, 0}, {.spin = 5us, .linger = 50us, .hooks = {}}, [](std::size_t) { return false; });
  CheckedProgram program(9, 3);
  std::uint64_t done = 0;
  ASSERT_TRUE(worker_pool.run(program, 500, done));
  EXPECT_EQ(program.digest(), expected_digest(9, 3, 500));
}

TEST(WorkerPool, HandsRegionsBackToMembersThatComeLate) {
  Rig rig(4, [](std::size_t) { return 0us; });
  std::atomic<int> begun{0};
  rig.pool.gate = [&] {
    while (begun < 4) std::this_thread::sleep_for(100us);
  };
  CheckedProgram program(4, 7);
  // Thread that worked each region in the first and in the last steps.
  std::array<std::atomic<int>, 4> early{}, late{};
  const auto caller = std::this_thread::get_id();
  program.work = [&](std::size_t r, std::uint64_t step) {
    std::this_thread::sleep_for(50us);
    if (step == 0) early[r] += std::this_thread::get_id() == caller, ++begun;
    if (step == 999) late[r] += std::this_thread::get_id() == caller;
  };
  std::uint64_t done = 0;
  ASSERT_TRUE(rig.worker_pool.run(program, 1000, done));
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(early[r], 1) << r;  // nobody else was there yet
    EXPECT_EQ(late[r], r == 0) << r;
  }
  EXPECT_EQ(program.broken, 0);
  EXPECT_EQ(program.digest(), expected_digest(4, 7, 1000));
}

TEST(WorkerPool, SurvivesAnyTimingOfArrivals) {
  // Runs of all lengths while workers come at once, soon, after the run, or never, and leave in between.
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    RandomStream delays(seed, 0, RandomPurpose::test), lengths(seed, 1, RandomPurpose::test);
    Rig rig(5,
            [&](std::size_t) {
              const std::uint32_t kind = delays.next_below(8);
              return kind == 0 ? -1us : kind < 4 ? 0us : std::chrono::microseconds(delays.next_below(400));
            },
            {.spin = std::chrono::microseconds(seed % 3 * 10),
             .linger = std::chrono::microseconds(30 * seed),
             .hooks = {}});
    for (int i = 0; i < 60; ++i) {
      const std::size_t regions = 2 + lengths.next_below(12);
      const std::uint64_t n = 1 + lengths.next_below(i % 4 == 0 ? 400 : 4);
      CheckedProgram program(regions, seed);
      program.block_steps = lengths.next_below(3) * 7;
      std::uint64_t done = 0;
      ASSERT_TRUE(rig.worker_pool.run(program, n, done));
      ASSERT_EQ(done, n);
      ASSERT_EQ(program.broken, 0);
      ASSERT_EQ(program.digest(), expected_digest(regions, seed, n)) << "seed " << seed << ", run " << i;
      if (lengths.next_below(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(lengths.next_below(300)));
    }
  }
}

TEST(WorkerPool, StopsEverybodyAtABlock) {
  Rig rig(4, [](std::size_t) { return 0us; });
  for (int i = 0; i < 50; ++i) {
    CheckedProgram program(6, 2);
    program.block_steps = 5;
    program.stop_at = 15;
    std::uint64_t done = 0;
    ASSERT_TRUE(rig.worker_pool.run(program, 1000, done));
    ASSERT_EQ(done, 15u);
    ASSERT_EQ(program.broken, 0);
    ASSERT_EQ(program.digest(), expected_digest(6, 2, 15));
  }
}

/// True when the kernel has that thread of this process asleep.
bool sleeps(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(stat), {}};
  const std::size_t name_end = text.rfind(") ");
  return name_end != text.npos && text[name_end + 2] == 'S';
}

TEST(WorkerPool, SleepsInsteadOfSpinningWhenANeighbourIsSlow) {
  Rig rig(2, [](std::size_t) { return 0us; }, {.spin = 20us, .linger = 50us, .hooks = {}});
  CheckedProgram program(2, 1, 4);
  constexpr int kSlow = 20;
  constexpr std::uint64_t kSteps = 2000;
  const pid_t caller = gettid();
  std::atomic<int> slow{0}, slept{0};
  program.work = [&](std::size_t r, std::uint64_t) {
    if (r != 1 || slow == kSlow) return;
    if (gettid() == caller) {
      // Until its worker comes, the caller works the neighbour too.
      std::this_thread::sleep_for(1ms);
      return;
    }
    // Such a step takes until the caller, who waits for it, is asleep; one that never sleeps is given up.
    ++slow;
    for (int looks = 0; looks < 5000; ++looks) {
      if (sleeps(caller)) {
        ++slept;
        return;
      }
      std::this_thread::sleep_for(1ms);
    }
  };
  std::uint64_t done = 0;
  ASSERT_TRUE(rig.worker_pool.run(program, kSteps, done));
  EXPECT_EQ(slow, kSlow);
  EXPECT_EQ(slept, kSlow);
  EXPECT_EQ(program.digest(), expected_digest(2, 1, kSteps));
}

// More threads than cores: each finds its core used by others now and then, and backs off; so does the caller.
TEST(WorkerPool, EndsWhileWorkersRest) {
  const std::size_t workers = 2 * std::thread::hardware_concurrency() + 1;
  Rig rig(workers, [](std::size_t) { return 0us; }, {.spin = 5us, .linger = 50us, .hooks = {}, .watches_cores = true});
  for (int round = 0; round < 6; ++round) {
    CheckedProgram program(5 * workers, 3);
    program.block_steps = round % 2 ? 100 : 256;
    program.work = [](std::size_t, std::uint64_t) {
      const auto end = std::chrono::steady_clock::now() + 10us;
      while (std::chrono::steady_clock::now() < end) {
      }
    };
    std::uint64_t done = 0;
    ASSERT_TRUE(rig.worker_pool.run(program, 600, done));
    ASSERT_EQ(done, 600u);
    ASSERT_EQ(program.broken, 0);
    ASSERT_EQ(program.digest(), expected_digest(5 * workers, 3, 600));
  }
}

// Of regions whose worker never comes each of the others takes its share, also where one was alone at first.
TEST(WorkerPool, SharesTheRegionsOfAnAbsentWorker) {
  Rig rig(4, [](std::size_t request) { return request < 2 ? 0us : -1us; },
          {.spin = std::chrono::minutes(5), .linger = 50us, .hooks = {}});
  std::atomic<int> begun{0};
  rig.pool.gate = [&] {
    while (begun < 12) std::this_thread::sleep_for(100us);
  };
  CheckedProgram program(12, 7);
  constexpr std::uint64_t kSteps = 600;
  std::array<std::thread::id, 12> last{};
  program.work = [&](std::size_t r, std::uint64_t step) {
    if (step == 0) ++begun;
    if (step == kSteps - 1) last[r] = std::this_thread::get_id();
    const auto end = std::chrono::steady_clock::now() + 5us;
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  std::uint64_t done = 0;
  ASSERT_TRUE(rig.worker_pool.run(program, kSteps, done));
  EXPECT_EQ(program.digest(), expected_digest(12, 7, kSteps));
  EXPECT_EQ(std::set<std::thread::id>(last.begin() + 9, last.end()).size(), 3u);
}

/// Times of a thread that is switched out half of the time.
ThreadTimes on_a_taken_core() noexcept {
  static std::atomic<std::uint64_t> switches{0};
  const Nanoseconds time = now();
  return {time, time / 2, ++switches};
}

// A caller whose core is taken has nobody to leave its regions to, so it goes on.
TEST(WorkerPool, DoesNotRestWhereNobodyHasCome) {
  Rig rig(8, [](std::size_t) { return -1us; },
          {.spin = 5us, .linger = 50us, .hooks = {}, .watches_cores = true, .times = on_a_taken_core});
  CheckedProgram program(16, 3);
  program.work = [](std::size_t, std::uint64_t) {
    const auto end = std::chrono::steady_clock::now() + 5us;
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  std::atomic<bool> is_over{false};
  int asleep = 0;
  const pid_t caller = gettid();
  std::thread looker([&] {
    for (; !is_over; std::this_thread::sleep_for(1ms)) {
      const bool is_asleep = sleeps(caller);
      asleep += is_asleep && !is_over;  // afterwards the caller waits for this thread
    }
  });
  std::uint64_t done = 0;
  const bool ran = rig.worker_pool.run(program, 1500, done);
  is_over = true;
  looker.join();
  ASSERT_TRUE(ran);
  EXPECT_EQ(asleep, 0);
  EXPECT_EQ(program.digest(), expected_digest(16, 3, 1500));
}

// Everybody's core is taken, and some come late or never: whoever is left last works on.
TEST(WorkerPool, RestsInTurnsWhereAllCoresAreTaken) {
  for (const std::size_t come : {1u, 3u}) {
    Rig rig(6, [&](std::size_t request) { return request < come ? 0us : -1us; },
            {.spin = 5us, .linger = 50us, .hooks = {}, .watches_cores = true, .times = on_a_taken_core});
    CheckedProgram program(12, 3);
    program.work = [](std::size_t, std::uint64_t) {
      const auto end = std::chrono::steady_clock::now() + 5us;
      while (std::chrono::steady_clock::now() < end) {
      }
    };
    std::uint64_t done = 0;
    ASSERT_TRUE(rig.worker_pool.run(program, 1500, done));
    EXPECT_EQ(program.broken, 0);
    EXPECT_EQ(program.digest(), expected_digest(12, 3, 1500));
  }
}

TEST(WorkerPool, GoesOnWhereAPartOfARunEnded) {
  Rig rig(3, [](std::size_t) { return 0us; });
  CheckedProgram program(7, 4);
  std::uint64_t done = 0;
  for (std::uint64_t first = 0; first < 300; first = done) {
    ASSERT_TRUE(rig.worker_pool.run(program, first + 1 + first % 5, done, first));
    ASSERT_EQ(done, first + 1 + first % 5);
  }
  EXPECT_EQ(program.broken, 0);
  EXPECT_EQ(program.digest(), expected_digest(7, 4, done));
}

}  // namespace
}  // namespace weft::scheduler::internal::worker_pool_test
