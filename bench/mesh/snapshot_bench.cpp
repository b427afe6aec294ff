// SPDX-License-Identifier: Apache-2.0

// Going back in memory against memcpy of as many bytes, and the pause of a snapshot. Each row alternates the two, so
// that a busy machine slows both: `ratio` is the median of the quotients.

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/persistence/checkpoint_snapshot.hpp"
#include "mesh/persistence/snapshot.hpp"

#include "core/aligned_buffer.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

namespace weft::mesh {
namespace {

/// A grid of dense cells in a ring.
Mesh make_mesh(std::uint32_t cells, std::size_t width, std::size_t sessions, std::size_t threads = 1) {
  NetworkBuilder builder("ring", GridShape{1, 1, cells, 1});
  builder.input("x", width);
  for (std::uint32_t x = 0; x < cells; ++x) {
    builder.dense({0, 0, x, 0}, width, kernels::Activation::tanh);
    if (x == 0) builder.from({"x", Coord{0, 0, cells - 1, 0}}, Combine::add);
  }
  builder.output("y", {0, 0, cells - 1, 0}).seed(1);
  auto mesh = Mesh::build(builder.spec(), {.threads = threads, .sessions = sessions});
  WEFT_ASSERT(mesh, mesh.error().text());
  const Status ticked = mesh->tick(3);
  WEFT_ASSERT(ticked, "a tick failed");
  return *std::move(mesh);
}

/// As a step of learning says that weights have moved: what has not is not copied again.
void move_weights(Mesh& mesh) {
  WeightStore& weights = MeshAccess::weights(mesh);
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    weights.set_version(i, weights.parameters()[i].version + 1);
}

double seconds_of(const auto& work, int times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Times `work` beside memcpy of `bytes`, in turns.
void against_memcpy(benchmark::State& state, std::uint64_t bytes, const auto& work) {
  // On cache lines, as the mesh's own memory: 16 KiB take half as long again where one side begins inside of one.
  AlignedBuffer<char> from(bytes), to(bytes);
  std::memset(from.data(), 1, bytes);
  const auto copy = [&] {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  };
  work(), copy();
  // Short ones many at a time: the clock takes some 20 ns.
  const int times = static_cast<int>(std::clamp<std::uint64_t>((std::uint64_t{1} << 21) / bytes, 1, 1000));
  std::vector<double> works, copies, ratios;
  for (auto _ : state) {
    works.push_back(seconds_of(work, times));
    copies.push_back(seconds_of(copy, times));
    ratios.push_back(works.back() / copies.back());
    state.SetIterationTime(works.back());
  }
  state.counters["KiB"] = static_cast<double>(bytes) / 1024.0;
  state.counters["us"] = median(works) * 1e6;
  state.counters["memcpy_us"] = median(copies) * 1e6;
  state.counters["ratio"] = median(ratios);
}

enum class Part { save, load, session };

void going_back(benchmark::State& state, Part part, SnapshotWeights weights) {
  Mesh mesh = make_mesh(static_cast<std::uint32_t>(state.range(0)), static_cast<std::size_t>(state.range(1)),
                        static_cast<std::size_t>(state.range(2)));
  Snapshot saved;
  SessionSnapshot session;
  mesh.take_snapshot(saved, weights);
  WEFT_ASSERT(mesh.take_session_snapshot(0, session), "a session was not saved");
  const std::uint64_t bytes = part == Part::session ? session.bytes() : saved.bytes();
  against_memcpy(state, bytes, [&] {
    if (weights == SnapshotWeights::always && part == Part::save) move_weights(mesh);
    if (part == Part::save) mesh.take_snapshot(saved, weights);
    if (part == Part::load) benchmark::DoNotOptimize(mesh.restore_snapshot(saved).has_value());
    if (part == Part::session) benchmark::DoNotOptimize(mesh.take_session_snapshot(0, session).has_value());
  });
}

void checkpoint_snapshot(benchmark::State& state) {
  Mesh mesh = make_mesh(static_cast<std::uint32_t>(state.range(0)), static_cast<std::size_t>(state.range(1)),
                        static_cast<std::size_t>(state.range(2)), static_cast<std::size_t>(state.range(3)));
  const bool moves = state.range(4) != 0;
  CheckpointSnapshot snapshot;
  WEFT_ASSERT(take_checkpoint_snapshot(mesh, true, snapshot), "a mesh was not taken");
  against_memcpy(state, snapshot.bytes(), [&] {
    if (moves) move_weights(mesh);
    benchmark::DoNotOptimize(take_checkpoint_snapshot(mesh, true, snapshot).has_value());
  });
}

// Cells, width of each, sessions.
void shapes(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t sessions : {1, 16})
    for (const auto& [cells, width] : {std::pair{64, 64}, {1024, 64}, {4096, 256}})
      bench->Args({cells, width, sessions});
  bench->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(61);
}
void weight_shapes(benchmark::internal::Benchmark* bench) {
  // 64 KiB, 1 MiB, 16 MiB and 256 MiB of weights.
  for (const auto& [cells, width] : {std::pair{4, 64}, {64, 64}, {1024, 64}, {64, 256}, {1024, 256}})
    bench->Args({cells, width, 1});
  bench->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(15);
}

// Threads (0: all), whether weights have moved since the last snapshot.
void checkpoint_shapes(benchmark::internal::Benchmark* bench) {
  for (const auto& [cells, width] : {std::pair{4, 64}, {64, 64}, {64, 256}, {256, 256}, {1024, 256}})
    for (const auto& [threads, moves] : {std::pair{1, 1}, {0, 1}, {0, 0}})
      bench->Args({cells, width, 1, threads, moves});
  bench->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(15);
}

BENCHMARK_CAPTURE(going_back, save, Part::save, SnapshotWeights::automatic)->Apply(shapes);
BENCHMARK_CAPTURE(going_back, load, Part::load, SnapshotWeights::automatic)->Apply(shapes);
BENCHMARK_CAPTURE(going_back, session, Part::session, SnapshotWeights::automatic)->Apply(shapes);
BENCHMARK_CAPTURE(going_back, save_with_weights, Part::save, SnapshotWeights::always)->Apply(weight_shapes);
BENCHMARK_CAPTURE(going_back, load_with_weights, Part::load, SnapshotWeights::always)->Apply(weight_shapes);
BENCHMARK(checkpoint_snapshot)->Apply(checkpoint_shapes);

}  // namespace
}  // namespace weft::mesh
