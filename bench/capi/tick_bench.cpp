// SPDX-License-Identifier: Apache-2.0

// weft_mesh_tick beside Mesh::tick of the same mesh on one thread: what the C ABI costs a call. Calls alternate; `us`
// and `floor_us` are medians, `above_ns` is the median of the differences.

#include "capi/internal/handles.hpp"
#include "capi/internal/objects.hpp"
#include "capi/weft.h"

#include "mesh/mesh.hpp"

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

/// The mesh that a handle stands for. Two meshes of one network differ by more than a call costs, by where their
/// weights lie.
mesh::Mesh& mesh_of(weft_mesh* handle) {
  HandleTable::Slot* slot = nullptr;
  BusyFlag* flag = nullptr;
  if (HandleTable::instance().claim(handle, Kind::mesh, slot, flag) != HandleTable::Claimed::yes) std::exit(1);
  mesh::Mesh& mesh = *static_cast<MeshObject*>(slot->object)->state.own;
  HandleTable::give_back(*flag);
  return mesh;
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
  mesh::Mesh& by_cpp = mesh_of(by_c);

  std::vector<double> own, floor, above;
  const auto time = [&](auto&& call) {
    const auto calls = state.range(2);
    const auto begin = Steady::now();
    for (auto i = calls; i > 0; --i) call();
    return std::chrono::duration<double, std::nano>(Steady::now() - begin).count() / static_cast<double>(calls);
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
// Cells, their width, calls in turn: short turns of long ticks, so that both meet the same clock rate.
BENCHMARK(tick)->Args({1, 1, 2000})->Iterations(101)->Unit(benchmark::kMillisecond);
BENCHMARK(tick)->Args({64, 64, 20})->Iterations(2001)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft::capi
