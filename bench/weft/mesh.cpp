// SPDX-License-Identifier: Apache-2.0
// Ticks of a mesh against a plain loop of the same kernel over the same weights on the same threads.

#include "mesh/mesh.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"

#include "scheduler/executor.hpp"

#include "kernels/linear.hpp"

#include "core/aligned_buffer.hpp"

#include "bench/peers/measure.hpp"
#include "bench/weft/must.hpp"
#include "bench/weft/rows.hpp"
#include <cstdlib>
#include <memory>

namespace weft::bench {
namespace {

constexpr std::size_t kWidth = 64;

/// A chain of Dense 64x64 tanh, a cell each, on a grid of 1 x 1 x n.
mesh::Mesh chain(std::size_t cells, std::size_t threads) {
  mesh::NetworkBuilder builder("chain", {1, 1, static_cast<std::uint32_t>(cells), 1});
  builder.input("in", kWidth);
  for (std::uint32_t x = 0; x < cells; ++x) {
    builder.dense({0, 0, x, 0}, kWidth, kernels::Activation::tanh);
    if (x == 0) builder.from({"in"});
  }
  builder.output("out", {0, 0, static_cast<std::uint32_t>(cells) - 1, 0}).seed(1);
  mesh::MeshOptions options;
  options.threads = threads;
  auto mesh = must(mesh::Mesh::build(builder.spec(), options));
  std::vector<float> in(kWidth, 0.5f);
  if (!mesh.set_input("in", in)) std::abort();
  return mesh;
}

/// The same products by the same kernel and nothing else: no neighbours to wait for, no commit, no control. Cells read
/// and write buffers of their own, as large as the mesh's.
class PlainLoop final : public scheduler::TickProgram {
 public:
  explicit PlainLoop(const mesh::Mesh& mesh)
      : mesh_(mesh), values_(2 * (mesh::MeshAccess::cells(mesh).size() + 1) * kWidth) {
    std::vector<const float*> weights, biases;
    for (const auto& p : mesh::MeshAccess::weights(mesh).parameters())
      (p.index == 0 ? weights : biases).push_back(p.data);
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = 0.25f;
    for (const std::size_t parity : {0, 1})
      for (std::size_t c = 0; c < weights.size(); ++c) {
        float *from = values_.data() + parity * values_.size() / 2,
              *to = values_.data() + (1 - parity) * values_.size() / 2;
        rows_[parity].push_back({weights[c], biases[c], from + c * kWidth, to + (c + 1) * kWidth});
      }
  }
  std::size_t region_count() const noexcept override { return mesh_.plan().regions.size(); }
  std::span<const std::uint32_t> neighbours(std::size_t) const noexcept override { return {}; }
  std::uint32_t own_core(std::size_t r) const noexcept override { return mesh_.plan().regions[r].assignment.core; }
  void run_interior(std::size_t r, std::uint64_t step) noexcept override {
    const auto& region = mesh_.plan().regions[r];
    const auto rows = std::span(rows_[step & 1]).subspan(region.begin, region.end - region.begin);
    if (!kernels::linear_each(rows, kWidth, kWidth, kernels::Activation::tanh)) std::abort();
  }
  void run_boundary(std::size_t, std::uint64_t) noexcept override {}

 private:
  const mesh::Mesh& mesh_;
  std::vector<kernels::LinearRow> rows_[2];  // by the parity of the step
  AlignedBuffer<float> values_;
};

struct Times {
  double mesh = 0, plain = 0;  // seconds a tick
  std::uint64_t bytes = 0;     // weights read a tick
  std::size_t regions = 0;
};

Times measure(std::size_t cells, std::size_t threads, bool quick) {
  mesh::Mesh mesh = chain(cells, threads);
  PlainLoop plain(mesh);
  const std::uint64_t ticks = std::max<std::uint64_t>(4, 4096 / cells);
  const std::vector<Contestant> all{{"mesh",
                                     [&] {
                                       if (!mesh.tick(ticks)) std::abort();
                                     }},
                                    {"plain", [&] { mesh::MeshAccess::executor(mesh).run(plain, ticks); }}};
  // One region is run by the caller alone, whose own time other programs do not swell.
  const Clock clock = mesh.plan().regions.size() == 1 ? Clock::thread : Clock::wall;
  const auto seconds = race(all, quick ? 9 : 41, 4e-3, clock);
  return {seconds[0] / static_cast<double>(ticks), seconds[1] / static_cast<double>(ticks),
          mesh::MeshAccess::weights(mesh).bytes(), mesh.plan().regions.size()};
}

}  // namespace

void bench_mesh(Rows& rows) {
  const bool quick = rows.settings().quick;
  for (const std::size_t cells : {16, 64, 256, 4096}) {
    const Times t = measure(cells, 0, quick);
    const std::string name = "mesh/" + std::to_string(cells) + " cells on " + std::to_string(t.regions);
    const double gigabytes = static_cast<double>(t.bytes) * 1e-9;
    rows.add({name, 1 / t.mesh, "plain loop", 1 / t.plain, t.plain / t.mesh, {}, "ticks/s"});
    rows.add({name + "/weights", gigabytes / t.mesh, "plain loop", gigabytes / t.plain, t.plain / t.mesh, {}, "GB/s"});
  }
  const Times t = measure(16, 1, quick);
  rows.add({"mesh/16 cells on 1/above the kernel",
            (t.mesh - t.plain) / 16 * 1e9,
            "kernel",
            t.plain / 16 * 1e9,
            {},
            {},
            "ns/cell"});
}

}  // namespace weft::bench
