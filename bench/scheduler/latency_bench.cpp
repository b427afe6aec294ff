// SPDX-License-Identifier: Apache-2.0
// A tick called once a millisecond: how long it takes when threads have had time to fall asleep.

#include "scheduler/clock.hpp"
#include "scheduler/executor.hpp"

#include "topology/machine.hpp"

#include <benchmark/benchmark.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

namespace weft::scheduler {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

// 256 cells of next to nothing, or of `cell_ns` of arithmetic each, in two regions.
class Cells final : public TickProgram {
 public:
  explicit Cells(int rounds) : rounds_(rounds), values_(256, 1.0f) {}
  std::size_t region_count() const noexcept override { return 2; }
  std::span<const std::uint32_t> neighbours(std::size_t r) const noexcept override { return {&neighbours_[r], 1}; }
  void run_interior(std::size_t, std::uint64_t) noexcept override {}
  void run_boundary(std::size_t r, std::uint64_t) noexcept override {
    for (std::size_t cell = r * 128; cell < r * 128 + 128; ++cell) {
      float value = values_[cell];
      for (int i = 0; i < rounds_; ++i) value = value * 0.999f + 0.5f;
      benchmark::DoNotOptimize(values_[cell] = value);
    }
  }

 private:
  int rounds_;
  std::vector<float> values_;
  std::array<std::uint32_t, 2> neighbours_{1, 0};
};

void report(benchmark::State& state, std::vector<double>& samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) { return samples[static_cast<std::size_t>(share * double(samples.size() - 1))]; };
  state.counters["min_us"] = samples.front() / 1e3;
  state.counters["median_us"] = at(0.5) / 1e3;
  state.counters["p99_us"] = at(0.99) / 1e3;
  state.counters["p99.9_us"] = at(0.999) / 1e3;
}

template <class Tick>
void once_a_millisecond(benchmark::State& state, Executor* wake, Tick&& tick) {
  auto clock = std::move(make_fixed_rate_clock({.hertz = 1000, .overrun = Overrun::stretch, .executor = wake})).value();
  std::vector<double> samples;
  for (auto _ : state) {
    clock->await(1);
    const auto begin = std::chrono::steady_clock::now();
    tick();
    const Nanoseconds time = std::chrono::steady_clock::now() - begin;
    clock->finished(1);
    samples.push_back(static_cast<double>(time.count()));
    state.SetIterationTime(static_cast<double>(time.count()) * 1e-9);
  }
  report(state, samples);
}

// rounds of arithmetic a cell, share always?, woken by the clock?
void weft_tick(benchmark::State& state) {
  const auto machine = topology::Machine::discover().value();
  ExecutorOptions options;
  options.threads = 2;
  if (state.range(1)) options.alone_below = Nanoseconds(0);
  const auto executor = std::move(make_executor(machine, options)).value();
  Cells program(static_cast<int>(state.range(0)));
  once_a_millisecond(state, state.range(2) ? executor.get() : nullptr, [&] { executor->run(program, 1); });
}
BENCHMARK(weft_tick)
    ->ArgNames({"rounds", "share", "wake"})
    ->Args({0, 0, 0})
    ->Args({0, 1, 0})
    ->Args({0, 1, 1})
    ->Args({100, 0, 0})
    ->Args({100, 0, 1})
    ->Iterations(3000)
    ->UseManualTime();

// Peer: the same cells by a static parallel_for on workers that TBB has put to sleep.
void peer_parallel_for(benchmark::State& state) {
  Cells program(static_cast<int>(state.range(0)));
  tbb::task_arena arena(2);
  once_a_millisecond(state, nullptr, [&] {
    arena.execute([&] {
      tbb::parallel_for(
          tbb::blocked_range<std::size_t>(0, 2, 1),
          [&](const auto& range) {
            for (std::size_t r = range.begin(); r != range.end(); ++r) program.run_boundary(r, 0);
          },
          tbb::static_partitioner{});
    });
  });
}
BENCHMARK(peer_parallel_for)->ArgName("rounds")->Arg(0)->Arg(100)->Iterations(3000)->UseManualTime();

}  // namespace
}  // namespace weft::scheduler
