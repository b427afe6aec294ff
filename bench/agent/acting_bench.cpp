// SPDX-License-Identifier: Apache-2.0

// A step of an agent with an actor and a critic of 2x128 in CartPole, in one environment and in several at once: act,
// learn, traces, on one thread; WEFT_BENCH_DEVICE names a device to learn on (vulkan). Of 150 batches of 20 steps the
// fastest (`min`) is the one that nothing else disturbed.

#include "agent/replayable_mesh.hpp"

#include "mesh/network/network_json.hpp"

#include "core/assert.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace weft::agent {
namespace {

mesh::NetworkSpec network(std::int64_t environments) {
  const auto part = [](int x, int out) {
    const std::string rest = R"({"type": "layer_norm", "affine": false},
      {"type": "activation", "activation": "leaky_relu"}, )";
    return R"({"at": [0, 0, )" + std::to_string(x) + R"(, 0], "type": "sequential", "from": ["observation"], "layers": [
      {"type": "dense", "out": 128, "init": "uniform"}, )" +
           rest + R"({"type": "dense", "out": 128, "init": "sparse"}, )" + rest +
           R"({"type": "dense", "init": "sparse", "out": )" + std::to_string(out) + "}]}";
  };
  auto read = mesh::read_network(R"({"weft": 2, "grid": {"x": 2}, "inputs": {"observation": [4]}, "layers": [)" +
                                     part(0, 2) + ", " + part(1, 1) +
                                     R"(], "outputs": {"policy": [0, 0, 0, 0], "value": [0, 0, 1, 0]},
      "learning": {"late": "meet", "patience": 1, "traces": true, "optimizer": {"type": "sgd", "lr": 1}},
      "reinforcement": {"environment": {"type": "cartpole"}, "lambda": 0.9, "environments": )" +
                                     std::to_string(environments) + "}}",
                                 "acting");
  WEFT_ASSERT(read, read.error().text());
  return *std::move(read);
}

void act(benchmark::State& state) {
  mesh::MeshOptions options;
  options.threads = 1;
  if (const char* const device = std::getenv("WEFT_BENCH_DEVICE")) options.device = device;
  auto made = ReplayableMesh::begin(network(state.range(0)), true, options);
  WEFT_ASSERT(made, made.error().text());
  EnvironmentLoop& loop = *made->loop();
  WEFT_ASSERT(loop.run(20), "acting");
  for (auto _ : state) {
    const Status done = loop.run(1);
    WEFT_ASSERT(done, done.error().text());
    loop.clear_ended();
  }
}

double fastest(const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); }

BENCHMARK(act)
    ->ArgName("environments")
    ->RangeMultiplier(2)
    ->Range(1, 16)
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(20)
    ->Repetitions(150)
    ->ReportAggregatesOnly(true)
    ->ComputeStatistics("min", fastest);

}  // namespace
}  // namespace weft::agent
