// SPDX-License-Identifier: Apache-2.0
// Ticks of a mesh against a plain loop of the same kernel over the same weights on the same threads.

#include "mesh/mesh.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"

#include "scheduler/executor.hpp"

#include "kernels/linear.hpp"

#include "topology/core_assignment.hpp"
#include "topology/machine.hpp"

#include "core/aligned_buffer.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "bench/peers/measure.hpp"
#include "bench/weft/must.hpp"
#include "bench/weft/rows.hpp"
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace weft::bench {
namespace {

constexpr std::size_t kWidth = 64;

/// A chain of Dense 64x64 tanh, a cell each, on a grid of 1 x 1 x n. With `experts` one cell in sixteen is a mixture of
/// sixteen experts instead.
mesh::Mesh chain(std::size_t cells, std::size_t threads, mesh::ExecutorKind executor = mesh::ExecutorKind::automatic,
                 bool experts = false, std::size_t regions_each = 0) {
  mesh::NetworkBuilder builder("chain", {1, 1, static_cast<std::uint32_t>(cells), 1});
  builder.input("in", kWidth);
  mesh::LayerSpec expert;
  expert.type = "dense";
  expert.out = kWidth;
  for (std::uint32_t x = 0; x < cells; ++x) {
    if (experts && x % 16 == 5)
      builder.layer({0, 0, x, 0}, "parallel")
          .option("merge", std::string("filter"))
          .inside(std::vector<mesh::LayerSpec>(16, expert));
    else
      builder.dense({0, 0, x, 0}, kWidth, kernels::Activation::tanh);
    if (x == 0) builder.from({"in"});
  }
  builder.output("out", {0, 0, static_cast<std::uint32_t>(cells) - 1, 0}).seed(1);
  mesh::MeshOptions options;
  options.threads = threads;
  options.executor = executor;
  options.regions_each = regions_each;
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

constexpr mesh::ExecutorKind kKinds[] = {mesh::ExecutorKind::resident, mesh::ExecutorKind::graph,
                                         mesh::ExecutorKind::automatic};

/// Ticks a second over so many seconds.
double pace(mesh::Mesh& mesh, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t ticks = 0;
  double passed = 0;
  for (; passed < seconds; ticks += 1024) {
    if (!mesh.tick(1024)) std::abort();
    passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return static_cast<double>(ticks) / passed;
}

/// The executors on one network, ticks a second, beside resident workers.
void race_meshes(Rows& rows, const std::string& name, std::size_t cells, bool experts) {
  std::vector<mesh::Mesh> meshes;
  for (const mesh::ExecutorKind kind : kKinds) meshes.push_back(chain(cells, 0, kind, experts));
  std::vector<Contestant> all;
  for (std::size_t i = 0; i < meshes.size(); ++i)
    all.push_back({std::string(scheduler::name(kKinds[i])), [mesh = &meshes[i]] {
                     if (!mesh->tick(256)) std::abort();
                   }});
  const auto seconds = race(all, rows.settings().quick ? 9 : 41, 1e-2, Clock::wall);
  for (const std::size_t i : {1, 2})
    rows.add({name + "/" + all[i].name,
              256 / seconds[i],
              "resident",
              256 / seconds[0],
              seconds[0] / seconds[i],
              {},
              "ticks/s"});
}

/// A process that does nothing but use the core that the last worker has.
class BusyProcess {
 public:
  explicit BusyProcess(std::uint32_t cpu) : child_(fork()) {
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
    for (volatile std::uint64_t turns = 0;;) turns = turns + 1;
  }
  ~BusyProcess() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

 private:
  pid_t child_;
};

/// Ticks of 256 cells while another process uses one of the cores, beside those without it.
void beside_a_busy_process(Rows& rows) {
  const auto machine = must(topology::Machine::discover());
  const auto cores = topology::core_assignments(machine, 0);
  const std::uint32_t cpu = machine.info().cores[cores.back().core].usable.front();
  const double seconds = rows.settings().quick ? 3 : 10;
  struct Shape {
    mesh::ExecutorKind kind;
    std::size_t regions_each;
  };
  for (const Shape& shape : {Shape{mesh::ExecutorKind::resident, 1}, Shape{mesh::ExecutorKind::resident, 2},
                             Shape{mesh::ExecutorKind::resident, 4}, Shape{mesh::ExecutorKind::resident, 8},
                             Shape{mesh::ExecutorKind::resident, 16}, Shape{mesh::ExecutorKind::graph, 4},
                             Shape{mesh::ExecutorKind::automatic, 0}}) {
    mesh::Mesh mesh = chain(256, 0, shape.kind, false, shape.regions_each);
    pace(mesh, 0.5);
    const double quiet = pace(mesh, seconds / 3);
    const BusyProcess busy(cpu);
    const double beside = pace(mesh, seconds);
    rows.add({"mesh/256 cells, one core busy/" + std::string(scheduler::name(shape.kind)) + ", " +
                  std::to_string(mesh.plan().regions.size()) + " regions",
              beside,
              "quiet",
              quiet,
              beside / quiet,
              {},
              "ticks/s"});
  }
}

}  // namespace

void bench_mesh(Rows& rows) {
  const bool quick = rows.settings().quick;
  if (rows.settings().only == "busy") return beside_a_busy_process(rows);
  for (const std::size_t cells : {16, 64, 256, 4096}) {
    const Times t = measure(cells, 0, quick);
    const std::string name = "mesh/" + std::to_string(cells) + " cells on " + std::to_string(t.regions);
    const double gigabytes = static_cast<double>(t.bytes) * 1e-9;
    rows.add({name, 1 / t.mesh, "plain loop", 1 / t.plain, t.plain / t.mesh, {}, "ticks/s"});
    rows.add({name + "/weights", gigabytes / t.mesh, "plain loop", gigabytes / t.plain, t.plain / t.mesh, {}, "GB/s"});
  }
  for (const std::size_t cells : {64, 256}) race_meshes(rows, "mesh/" + std::to_string(cells) + " cells", cells, false);
  race_meshes(rows, "mesh/256 cells, one in 16 of 16 experts", 256, true);
  beside_a_busy_process(rows);
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
