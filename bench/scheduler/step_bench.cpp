// SPDX-License-Identifier: Apache-2.0
// Overhead of a step: empty regions, back to back, against other ways to keep threads in step.

#include "scheduler/executor.hpp"

#include "topology/machine.hpp"

#include <benchmark/benchmark.h>
#include <tbb/blocked_range.h>
#include <tbb/flow_graph.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace weft::scheduler {
namespace {

constexpr std::uint64_t kSteps = 1000;

// A ring of regions with nothing in them but a counter each, on its own lines.
class EmptyProgram final : public TickProgram {
 public:
  explicit EmptyProgram(std::size_t regions) : counters_(regions), neighbours_(regions) {
    for (std::uint32_t r = 0; r < regions && regions > 1; ++r) {
      const std::uint32_t before = static_cast<std::uint32_t>((r + regions - 1) % regions);
      const std::uint32_t after = static_cast<std::uint32_t>((r + 1) % regions);
      neighbours_[r].push_back(before);
      if (after != before) neighbours_[r].push_back(after);
    }
  }
  std::size_t region_count() const noexcept override { return counters_.size(); }
  std::span<const std::uint32_t> neighbours(std::size_t r) const noexcept override { return neighbours_[r]; }
  void run_interior(std::size_t, std::uint64_t) noexcept override {}
  void run_boundary(std::size_t r, std::uint64_t) noexcept override { benchmark::DoNotOptimize(++counters_[r].value); }

 private:
  struct alignas(128) Counter {
    std::uint64_t value = 0;
  };
  std::vector<Counter> counters_;
  std::vector<std::vector<std::uint32_t>> neighbours_;
};

// Times each iteration by itself: on a machine with other work the median and the least say more than a mean.
template <class Run>
void measure(benchmark::State& state, std::uint64_t steps, Run&& run) {
  std::vector<double> samples;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    samples.push_back(time.count() / static_cast<double>(steps));
    state.SetIterationTime(time.count() * 1e-9);
  }
  std::sort(samples.begin(), samples.end());
  state.counters["min_ns"] = samples.front();
  state.counters["median_ns"] = samples[samples.size() / 2];
}

// regions, threads. Sharing is forced: by default programs so small stay on the caller.
void shared_steps(benchmark::State& state) {
  const auto machine = topology::Machine::discover().value();
  ExecutorOptions options;
  options.threads = static_cast<std::size_t>(state.range(1));
  options.alone_below = std::chrono::nanoseconds(0);
  const auto executor = std::move(make_executor(machine, options)).value();
  EmptyProgram program(static_cast<std::size_t>(state.range(0)));
  measure(state, kSteps, [&] { executor->run(program, kSteps); });
}
BENCHMARK(shared_steps)->Args({1, 1})->Args({2, 2})->Args({8, 2})->Args({8, 8})->UseManualTime();

// Default behaviour: the executor decides that empty regions are not worth sharing.
void default_steps(benchmark::State& state) {
  const auto machine = topology::Machine::discover().value();
  const auto executor = std::move(make_executor(machine, {})).value();
  EmptyProgram program(static_cast<std::size_t>(state.range(0)));
  measure(state, kSteps, [&] { executor->run(program, kSteps); });
}
BENCHMARK(default_steps)->Arg(1)->Arg(2)->UseManualTime();

// One step a call, as an embedding loop does it.
void single_step_runs(benchmark::State& state) {
  const auto machine = topology::Machine::discover().value();
  ExecutorOptions options;
  options.threads = 2;
  if (state.range(1)) options.alone_below = std::chrono::nanoseconds(0);
  const auto executor = std::move(make_executor(machine, options)).value();
  EmptyProgram program(static_cast<std::size_t>(state.range(0)));
  measure(state, 1, [&] { executor->run(program, 1); });
}
BENCHMARK(single_step_runs)->Args({1, 0})->Args({2, 0})->Args({2, 1})->UseManualTime();

// Peer: two pinned threads and one flag barrier over all.
void peer_flag_barrier(benchmark::State& state) {
  struct alignas(128) Flag {
    std::atomic<std::uint64_t> value{0};
  };
  Flag arrived, released;
  std::atomic<bool> stop{false};
  EmptyProgram program(2);
  std::thread other([&] {
    for (std::uint64_t step = 1; !stop.load(std::memory_order_relaxed); ++step) {
      while (released.value.load(std::memory_order_acquire) < step) {
        if (stop.load(std::memory_order_relaxed)) return;
      }
      program.run_boundary(1, step);
      arrived.value.store(step, std::memory_order_release);
    }
  });
  std::uint64_t step = 0;
  measure(state, kSteps, [&] {
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      released.value.store(++step, std::memory_order_release);
      program.run_boundary(0, step);
      while (arrived.value.load(std::memory_order_acquire) < step) {
      }
    }
  });
  stop = true;
  other.join();
}
BENCHMARK(peer_flag_barrier)->UseManualTime();

// Peer: static parallel_for, one call a step.
void peer_parallel_for(benchmark::State& state) {
  EmptyProgram program(2);
  tbb::task_arena arena(2);
  arena.execute([&] {
    measure(state, kSteps, [&] {
      for (std::uint64_t i = 0; i < kSteps; ++i) {
        tbb::parallel_for(
            tbb::blocked_range<std::size_t>(0, 2, 1),
            [&](const auto& range) {
              for (std::size_t r = range.begin(); r != range.end(); ++r) program.run_boundary(r, i);
            },
            tbb::static_partitioner{});
      }
    });
  });
}
BENCHMARK(peer_parallel_for)->UseManualTime();

// Peer: a flow graph of two nodes built inside its arena, fired once a step.
void peer_flow_graph(benchmark::State& state) {
  EmptyProgram program(2);
  tbb::task_arena arena(2);
  arena.execute([&] {
    using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;
    tbb::flow::graph graph;
    tbb::flow::broadcast_node<tbb::flow::continue_msg> start(graph);
    Node first(graph, [&](const tbb::flow::continue_msg&) { program.run_boundary(0, 0); });
    Node second(graph, [&](const tbb::flow::continue_msg&) { program.run_boundary(1, 0); });
    tbb::flow::make_edge(start, first);
    tbb::flow::make_edge(start, second);
    measure(state, kSteps, [&] {
      for (std::uint64_t i = 0; i < kSteps; ++i) {
        start.try_put(tbb::flow::continue_msg());
        graph.wait_for_all();
      }
    });
  });
}
BENCHMARK(peer_flow_graph)->UseManualTime();

}  // namespace
}  // namespace weft::scheduler
