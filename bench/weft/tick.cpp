// SPDX-License-Identifier: Apache-2.0
// Overhead of a tick.

#include "scheduler/clock.hpp"
#include "scheduler/executor.hpp"

#include "topology/machine.hpp"

#include "core/philox.hpp"

#include "bench/peers/measure.hpp"
#include "bench/weft/must.hpp"
#include "bench/weft/rows.hpp"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>

namespace weft::bench {
namespace {

using Steady = std::chrono::steady_clock;
constexpr std::uint64_t kSteps = 1000;
constexpr std::size_t kCells = 256;

/// Regions with nothing to do but count their cells; each waits for all others.
class EmptyCells final : public scheduler::TickProgram {
 public:
  EmptyCells(std::size_t regions, std::size_t cells_each) : counters_(regions), cells_(cells_each) {
    for (std::uint32_t r = 0; r < regions; ++r) {
      std::vector<std::uint32_t> others;
      for (std::uint32_t other = 0; other < regions; ++other)
        if (other != r) others.push_back(other);
      neighbours_.push_back(std::move(others));
    }
  }
  std::size_t region_count() const noexcept override { return counters_.size(); }
  std::span<const std::uint32_t> neighbours(std::size_t r) const noexcept override { return neighbours_[r]; }
  void run_interior(std::size_t, std::uint64_t) noexcept override {}
  void run_boundary(std::size_t r, std::uint64_t) noexcept override {
    // Volatile: each cell is touched, as a cell with nothing to compute would be.
    volatile std::uint64_t& count = counters_[r].value;
    for (std::size_t cell = 0; cell < cells_; ++cell) count = count + 1;
  }

 private:
  struct alignas(128) Counter {
    std::uint64_t value = 0;
  };
  std::vector<Counter> counters_;
  std::vector<std::vector<std::uint32_t>> neighbours_;
  std::size_t cells_;
};

/// A grid of 16 x 16 cells, of which one in sixteen, drawn once, does sixteen times the work. Cut into blocks of as
/// many cells, as whoever does not know their work would.
class UnequalCells final : public scheduler::TickProgram {
 public:
  explicit UnequalCells(std::size_t regions) : regions_(regions), work_(kCells, kLight), values_(kCells * 8) {
    RandomStream random(1, 0, RandomPurpose::test);
    for (std::size_t heavy = 0; heavy < kCells / 16;) {
      std::uint32_t& work = work_[random.next_below(kCells)];
      if (work != kLight) continue;
      work = 16 * kLight;
      ++heavy;
    }
    for (std::size_t r = 0; r < regions; ++r) {
      std::set<std::uint32_t> found;
      for (std::size_t cell = begin(r); cell < begin(r + 1); ++cell)
        for (const std::ptrdiff_t to : {-16, -1, 1, 16}) {
          const std::ptrdiff_t other = static_cast<std::ptrdiff_t>(cell) + to;
          if (other < 0 || other >= static_cast<std::ptrdiff_t>(kCells)) continue;
          if (const std::size_t region = region_of(static_cast<std::size_t>(other)); region != r)
            found.insert(static_cast<std::uint32_t>(region));
        }
      neighbours_.emplace_back(found.begin(), found.end());
    }
  }
  std::size_t region_count() const noexcept override { return regions_; }
  std::span<const std::uint32_t> neighbours(std::size_t r) const noexcept override { return neighbours_[r]; }
  void run_interior(std::size_t, std::uint64_t) noexcept override {}
  void run_boundary(std::size_t r, std::uint64_t) noexcept override {
    for (std::size_t cell = begin(r); cell < begin(r + 1); ++cell) {
      double value = values_[cell * 8];
      for (std::uint32_t i = 0; i < work_[cell]; ++i) value = value * 0.999 + 0.5;  // one sum waits for the last
      values_[cell * 8] = value;
    }
  }

 private:
  static constexpr std::uint32_t kLight = 200;  // about half a microsecond
  std::size_t begin(std::size_t r) const noexcept { return r * kCells / regions_; }
  std::size_t region_of(std::size_t cell) const noexcept {
    std::size_t r = cell * regions_ / kCells;
    while (begin(r + 1) <= cell) ++r;
    return r;
  }
  std::size_t regions_;
  std::vector<std::uint32_t> work_;
  std::vector<double> values_;
  std::vector<std::vector<std::uint32_t>> neighbours_;
};

using scheduler::ExecutorKind;

std::unique_ptr<scheduler::Executor> executor_of(const topology::Machine& machine, std::size_t threads,
                                                 bool always_share, ExecutorKind kind = ExecutorKind::resident) {
  scheduler::ExecutorOptions options;
  options.kind = kind;
  options.threads = threads;
  if (always_share) options.alone_below = std::chrono::nanoseconds(0);
  return must(scheduler::make_executor(machine, options));
}

/// The rival: two threads that meet at a flag after every step, and nothing else. The second one spins for good, so it
/// is made for one race and gone after it.
class FlagBarrier {
 public:
  explicit FlagBarrier(EmptyCells& program) : program_(program), other_([this] { follow(); }) {}
  ~FlagBarrier() {
    stop_.store(true);
    other_.join();
  }
  void run(std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps; ++i) {
      released_.value.store(++step_, std::memory_order_release);  // pairs with the acquire in follow
      program_.run_boundary(0, step_);
      while (arrived_.value.load(std::memory_order_acquire) < step_) pause();
    }
  }

 private:
  struct alignas(128) Flag {
    std::atomic<std::uint64_t> value{0};
  };
  // On a machine with more threads than cores the other side may not be running at all.
  void pause() noexcept {
    if (++spins_ % 4096 == 0) std::this_thread::yield();
  }
  void follow() {
    for (std::uint64_t step = 1;; ++step) {
      for (std::uint64_t spins = 0; released_.value.load(std::memory_order_acquire) < step; ++spins) {
        if (stop_.load(std::memory_order_relaxed)) return;
        if (spins % 4096 == 4095) std::this_thread::yield();
      }
      program_.run_boundary(1, step);
      arrived_.value.store(step, std::memory_order_release);  // pairs with the acquire in run
    }
  }

  EmptyCells& program_;
  Flag released_, arrived_;
  std::atomic<bool> stop_{false};
  std::uint64_t step_ = 0, spins_ = 0;
  std::thread other_;  // last: it reads the others
};

/// Nanoseconds a step, back to back. Raced one after the other, since the rival's second thread never rests.
void back_to_back(Rows& rows, const topology::Machine& machine, const std::string& name, std::size_t regions,
                  bool share) {
  const int rounds = rows.settings().quick ? 9 : 51;
  EmptyCells program(regions, 1);
  double weft = 0;
  {
    const auto executor = executor_of(machine, regions, share);
    weft =
        race(std::vector<Contestant>{{"weft", [&] { executor->run(program, kSteps); }}}, rounds, 2e-3, Clock::wall)[0];
  }
  const double scale = 1e9 / static_cast<double>(kSteps);
  if (regions != 2) return rows.add({name, weft * scale, "", {}, {}, {}, "ns"});
  FlagBarrier barrier(program);
  const double rival =
      race(std::vector<Contestant>{{"flags", [&] { barrier.run(kSteps); }}}, rounds, 2e-3, Clock::wall)[0];
  rows.add({name, weft * scale, "flag barrier", rival * scale, rival / weft, {}, "ns"});
}

/// The executors raced over one program, in `unit` a step: the graph's time beside that of resident workers.
void race_executors(Rows& rows, const topology::Machine& machine, const std::string& name,
                    scheduler::TickProgram& program, std::size_t threads, const std::string& unit) {
  std::vector<std::unique_ptr<scheduler::Executor>> executors;
  std::vector<Contestant> contestants;
  for (const ExecutorKind kind : {ExecutorKind::resident, ExecutorKind::graph, ExecutorKind::automatic}) {
    executors.push_back(executor_of(machine, threads, true, kind));
    contestants.push_back({std::string(scheduler::name(kind)),
                           [executor = executors.back().get(), &program] { executor->run(program, kSteps); }});
  }
  const auto seconds = race(contestants, rows.settings().quick ? 9 : 41, 2e-2, Clock::wall);
  const double scale = (unit == "ns" ? 1e9 : 1e6) / static_cast<double>(kSteps);
  for (const std::size_t i : {1, 2})
    rows.add({name + "/" + contestants[i].name,
              seconds[i] * scale,
              "resident",
              seconds[0] * scale,
              seconds[0] / seconds[i],
              {},
              unit});
}

/// Microseconds from a tick's call to its return, called once a millisecond by the fixed-rate clock.
void once_a_millisecond(Rows& rows, const topology::Machine& machine) {
  const auto executor = executor_of(machine, 2, false);
  EmptyCells program(2, kCells / 2);
  scheduler::FixedRate rate;
  rate.hertz = 1000;
  rate.overrun = scheduler::Overrun::stretch;
  rate.executor = executor.get();
  const auto clock = must(scheduler::make_fixed_rate_clock(rate));
  std::vector<double> took;
  for (std::size_t i = 0; i < (rows.settings().quick ? 500u : 5000u); ++i) {
    clock->await(1);
    const auto begin = Steady::now();
    executor->run(program, 1);
    took.push_back(std::chrono::duration<double, std::micro>(Steady::now() - begin).count());
    clock->finished(1);
  }
  std::sort(took.begin(), took.end());
  const auto at = [&](double share) {
    return took[static_cast<std::size_t>(share * static_cast<double>(took.size() - 1))];
  };
  rows.add({"tick/1kHz/256 cells/median", at(0.5), "", {}, {}, took.front(), "us"});
  rows.add({"tick/1kHz/256 cells/p99.9", at(0.999), "", {}, {}, took.front(), "us"});
}

}  // namespace

namespace {

/// The executors on unequal cells, with as many threads as there are cores for.
void unequal_cells(Rows& rows, const topology::Machine& machine) {
  for (const std::size_t threads : {2, 16}) {
    if (threads > machine.usable_cpus()) continue;
    UnequalCells unequal(8 * threads);
    race_executors(rows, machine, "tick/unequal cells, " + std::to_string(threads) + " threads", unequal, threads,
                   "us");
  }
}

}  // namespace

void bench_tick(Rows& rows) {
  const auto machine = must(topology::Machine::discover());
  if (rows.settings().only == "unequal") return unequal_cells(rows, machine);
  back_to_back(rows, machine, "tick/1 region", 1, false);
  back_to_back(rows, machine, "tick/2 regions", 2, false);
  back_to_back(rows, machine, "tick/2 regions, shared", 2, true);
  EmptyCells empty(2, 1);
  race_executors(rows, machine, "tick/2 regions, shared", empty, 2, "ns");
  unequal_cells(rows, machine);
  once_a_millisecond(rows, machine);
}

}  // namespace weft::bench
