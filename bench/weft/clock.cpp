// SPDX-License-Identifier: Apache-2.0
// Meshes at a fixed rate: how late ticks begin, and what waiting for them costs.

#include "scheduler/clock.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"

#include <sys/resource.h>

#include "bench/weft/must.hpp"
#include "bench/weft/rows.hpp"
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

namespace weft::bench {
namespace {

constexpr std::size_t kCellWidth = 16;

/// A grid of Dense 16x16 tanh cells, a chain along each row.
mesh::Mesh grid(std::uint32_t rows, std::uint32_t columns) {
  mesh::NetworkBuilder builder("grid", {1, rows, columns, 1});
  builder.input("in", kCellWidth);
  for (std::uint32_t y = 0; y < rows; ++y)
    for (std::uint32_t x = 0; x < columns; ++x) {
      builder.dense({0, y, x, 0}, kCellWidth, kernels::Activation::tanh);
      if (x == 0) builder.from({"in"});
    }
  builder.output("out", {0, rows - 1, columns - 1, 0}).seed(1);
  auto mesh = must(mesh::Mesh::build(builder.spec(), {}));
  if (!mesh.set_input("in", std::vector<float>(kCellWidth, 0.5f))) std::abort();
  return mesh;
}

/// User and system time of the whole process: the caller's, the workers', those of other threads.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void tick_at(Rows& rows, const std::string& name, mesh::Mesh mesh, double hertz, double seconds) {
  for (int i = 0; i < 100; ++i)
    if (!mesh.tick()) std::abort();
  scheduler::FixedRate rate{.hertz = hertz};
  rate.executor = &mesh::MeshAccess::executor(mesh);
  const auto clock = must(scheduler::make_fixed_rate_clock(rate));
  const auto begin = std::chrono::steady_clock::now();
  const double cpu = cpu_seconds();
  double passed = 0, ticking = 0;
  while (passed < seconds && clock->await(1) == 1) {
    const auto tick_begin = std::chrono::steady_clock::now();
    if (!mesh.tick()) std::abort();
    const auto tick_end = std::chrono::steady_clock::now();
    clock->finished(1);
    ticking += std::chrono::duration<double>(tick_end - tick_begin).count();
    passed = std::chrono::duration<double>(tick_end - begin).count();
  }
  const double used = cpu_seconds() - cpu;
  const scheduler::ClockReport report = clock->report();
  const auto add = [&](const char* what, double value, const char* unit) {
    rows.add({name + "/" + what, value, "", {}, {}, {}, unit});
  };
  const auto microseconds = [](std::chrono::nanoseconds time) { return static_cast<double>(time.count()) * 1e-3; };
  add("lateness, median", microseconds(report.late_median), "us");
  add("lateness, p99.9", microseconds(report.late_p999), "us");
  add("lateness, worst", microseconds(report.worst_start), "us");
  add("jitter", microseconds(report.jitter), "us");
  add("a tick, mean", ticking / static_cast<double>(report.ticks) * 1e6, "us");
  add("overruns", static_cast<double>(report.overruns), "");
  add("CPU time", used / passed * 100, "% of a core");
}

}  // namespace

void bench_clock(Rows& rows) {
  const bool quick = rows.settings().quick;
  tick_at(rows, "clock/4096 cells, 1 kHz", grid(64, 64), 1000, quick ? 5 : 60);
  tick_at(rows, "clock/16 cells, 100 Hz", grid(4, 4), 100, quick ? 3 : 20);
  tick_at(rows, "clock/16 cells, 60 Hz", grid(4, 4), 60, quick ? 3 : 20);
}

}  // namespace weft::bench
