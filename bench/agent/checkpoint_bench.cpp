// SPDX-License-Identifier: Apache-2.0

// Cost of a checkpoint for the ticks that run while it is written. Intervals with and without a checkpoint alternate
// and are equally long, so that a busy machine slows both; each is compared with the mean of its neighbours.

#include "agent/agent.hpp"

#include "storage/file_system.hpp"

#include <benchmark/benchmark.h>

#include "bench/directory.hpp"
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace weft::agent {
namespace {

using bench::Directory;

void must(const Status& status) { WEFT_ASSERT(status, status.error().text()); }

/// A ring of dense cells of 256 KiB of weights each.
mesh::NetworkSpec ring(std::uint32_t cells) {
  constexpr std::size_t kWidth = 256;
  mesh::NetworkBuilder builder("ring", GridShape{1, 1, cells, 1});
  builder.input("x", kWidth);
  for (std::uint32_t x = 0; x < cells; ++x) {
    builder.dense({0, 0, x, 0}, kWidth, kernels::Activation::tanh);
    if (x == 0) builder.from({"x", Coord{0, 0, cells - 1, 0}}, mesh::Combine::add);
  }
  builder.output("y", {0, 0, cells - 1, 0}).seed(1);
  return builder.spec();
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Ticks a second, until `is_over(seconds so far)`.
double ticks_a_second(Agent& agent, const auto& is_over) {
  const auto begin = Clock::now();
  std::uint64_t ticks = 0;
  double seconds = 0;
  do {
    must(agent.tick());
    ++ticks;
    seconds = Seconds(Clock::now() - begin).count();
  } while (!is_over(seconds));
  return static_cast<double>(ticks) / seconds;
}

void beside_a_checkpoint(benchmark::State& state) {
  const Directory directory;
  Agent::Options options;
  options.durability = {Durability::Mode::interval, std::chrono::seconds(2)};
  options.keep = 1;
  options.checkpoint_every = ~std::uint64_t{0};
  options.learns = false;
  options.mesh.threads = static_cast<std::size_t>(state.range(1));
  Recovery recovery;
  auto agent = Agent::open(storage::real_file_system(), directory.path + "/agent",
                           ring(static_cast<std::uint32_t>(state.range(0))), options, recovery);
  WEFT_ASSERT(agent, agent.error().text());
  const auto written = [&] {
    const CheckpointStatistics statistics = (*agent)->statistics().checkpoint;
    WEFT_ASSERT(statistics.failed == 0, "a checkpoint failed");
    return statistics.written;
  };
  const auto beside = [&] {
    const std::uint64_t before = written();
    WEFT_ASSERT((*agent)->checkpoint(), "a checkpoint was not taken");
    return ticks_a_second(**agent, [&](double) { return written() > before; });
  };
  beside();
  std::vector<double> quiet, busy, took, pauses;
  const auto be_steady = [&] {
    const double length = Seconds((*agent)->statistics().checkpoint.writing).count();
    quiet.push_back(ticks_a_second(**agent, [=](double seconds) { return seconds >= length; }));
  };
  be_steady();
  for (auto _ : state) {
    const auto begin = Clock::now();
    busy.push_back(beside());
    state.SetIterationTime(Seconds(Clock::now() - begin).count());
    const CheckpointStatistics statistics = (*agent)->statistics().checkpoint;
    took.push_back(Seconds(statistics.writing).count());
    pauses.push_back(Seconds(statistics.pause).count());
    be_steady();
  }
  std::vector<double> slower;
  for (std::size_t i = 0; i < busy.size(); ++i) slower.push_back(100 * (1 - 2 * busy[i] / (quiet[i] + quiet[i + 1])));
  state.counters["MiB"] = static_cast<double>((*agent)->statistics().checkpoint.bytes) / 1048576.0;
  state.counters["ticks_s"] = quantile(quiet, 0.5);
  state.counters["slower_%"] = quantile(slower, 0.5);
  state.counters["from_%"] = quantile(slower, 0.25);
  state.counters["to_%"] = quantile(slower, 0.75);
  state.counters["writing_ms"] = quantile(took, 0.5) * 1e3;
  state.counters["pause_ms"] = quantile(pauses, 0.5) * 1e3;
}

// Cells (four a MiB of weights), threads; 0: all.
BENCHMARK(beside_a_checkpoint)
    ->Args({40, 1})
    ->Args({40, 0})
    ->Args({400, 1})
    ->Args({400, 0})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(15);

}  // namespace
}  // namespace weft::agent
