// SPDX-License-Identifier: Apache-2.0
// Overhead of a worker team: as many empty tasks as threads are posted, back to back, as in a wide mesh.

#include "scheduler/executor.hpp"

#include "topology/machine.hpp"

#include <benchmark/benchmark.h>

namespace weft::scheduler {
namespace {

constexpr std::size_t kPostings = 1000;

class Posting final : public TickProgram {
 public:
  std::size_t region_count() const noexcept override { return 1; }
  std::span<const std::uint32_t> neighbours(std::size_t) const noexcept override { return {}; }
  bool wants_team() const noexcept override { return true; }
  void use_team(Team* team) noexcept override { team_ = team; }
  void run_interior(std::size_t, std::uint64_t) noexcept override {
    for (std::size_t i = 0; i < kPostings && team_; ++i)
      (*team_)(
          team_->size(), [](void*, std::size_t) {}, nullptr);
  }
  void run_boundary(std::size_t, std::uint64_t) noexcept override {}

 private:
  Team* team_ = nullptr;
};

void posting(benchmark::State& state) {
  ExecutorOptions options;
  options.threads = static_cast<std::size_t>(state.range(0));
  const auto executor = std::move(make_executor(topology::Machine::discover().value(), options)).value();
  Posting program;
  executor->run(program, 10);
  for (auto _ : state) executor->run(program, 1);
  state.counters["s/posting"] = benchmark::Counter(
      static_cast<double>(kPostings), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(posting)->Arg(2)->UseRealTime()->Repetitions(9)->ReportAggregatesOnly();

}  // namespace
}  // namespace weft::scheduler
