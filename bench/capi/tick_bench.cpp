// SPDX-License-Identifier: Apache-2.0

// weft_mesh_tick beside Mesh::tick of the same network on one thread: what the C ABI costs a call. Rows alternate with
// their C++ call; `us` and `floor_us` are medians, `above_ns` is the median of the differences.

#include "capi/weft.h"

#include "mesh/mesh.hpp"
#include "mesh/network/network_json.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace weft::capi {
namespace {

using Steady = std::chrono::steady_clock;

/// So many dense cells of one width, each reading the one before.
std::string network_of(std::size_t cells, std::size_t width) {
  const std::string size = std::to_string(width);
  std::string layers;
  for (std::size_t i = 0; i < cells; ++i)
    layers += std::string(i ? "," : "") + R"({"type": "dense", "activation": "tanh", "out": )" + size + "}";
  return R"({"weft": 2, "inputs": {"x": [)" + size + R"(]}, "chain": [)" + layers + "]}";
}

void must(weft_status status) {
  if (status == WEFT_OK) return;
  std::fprintf(stderr, "%s\n", weft_last_error()->message);
  std::exit(1);
}

void tick(benchmark::State& state) {
  const std::string json =
      network_of(static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)));
  weft_network* network = nullptr;
  weft_mesh* by_c = nullptr;
  weft_mesh_options options{};
  options.size = sizeof options;
  options.threads = 1;
  must(weft_network_read(json.data(), json.size(), nullptr, &network));
  must(weft_mesh_build(network, &options, &by_c));
  mesh::Mesh by_cpp = mesh::Mesh::build(mesh::read_network(json, "bench").value(), {.threads = 1}).value();

  constexpr int kCalls = 2000;
  std::vector<double> own, floor, above;
  const auto time = [&](auto&& call) {
    const auto begin = Steady::now();
    for (int i = 0; i < kCalls; ++i) call();
    return std::chrono::duration<double, std::nano>(Steady::now() - begin).count() / kCalls;
  };
  for (auto _ : state) {
    own.push_back(time([&] { must(weft_mesh_tick(by_c, 1)); }));
    floor.push_back(time([&] {
      if (!by_cpp.tick(1)) std::exit(1);
    }));
    above.push_back(own.back() - floor.back());
  }
  const auto middle = [](std::vector<double>& of) {
    std::nth_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2), of.end());
    return of[of.size() / 2];
  };
  state.counters["us"] = middle(own) / 1e3;
  state.counters["floor_us"] = middle(floor) / 1e3;
  state.counters["above_ns"] = middle(above);
  must(weft_mesh_destroy(by_c));
  must(weft_network_destroy(network));
}
BENCHMARK(tick)->Args({1, 1})->Args({64, 64})->Iterations(51)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft::capi
