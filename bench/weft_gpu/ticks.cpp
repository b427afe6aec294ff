// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/device_statistics.hpp"
#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "bench/weft_gpu/gpu_bench.hpp"
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace weft::bench {
namespace {

constexpr std::size_t kWidth = 64;
// Of a tick's mean: a device brings its state to the host after 1,024 ticks at the latest.
constexpr std::uint64_t kMostWithoutLanding = 16 * 1024;

/// Seconds of a tick from one copy back to the host to the next, which medians pass over: it is brought up to the
/// device now and then, in case the device fails. None where it comes no more: the device is lost, say.
std::optional<double> mean(mesh::Mesh& mesh, std::uint64_t ticks) {
  const mesh::DeviceStatistics& statistics = *mesh.device_statistics();
  const auto until_next = [&]() -> std::optional<double> {
    std::uint64_t count = 0;
    for (const std::uint64_t before = statistics.downloads; statistics.downloads == before; count += ticks) {
      if (count >= kMostWithoutLanding || !statistics.why_host.empty()) return std::nullopt;
      check(mesh.tick(ticks));
    }
    return static_cast<double>(count);
  };
  if (!until_next()) return std::nullopt;
  const double began = now();
  const auto count = until_next();
  return count ? std::optional((now() - began) / *count) : std::nullopt;
}

/// Bound of the time, as a part of float32's.
std::optional<Asked> asked_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::int8:
      return Asked{0.3, false};
    case Dtype::int4:
      return Asked{0.18, false};
    case Dtype::binary:
      return Asked{0.08, false};
    default:
      return std::nullopt;
  }
}

struct Tick {
  double seconds = 0, moved = 0;  // bytes
};

/// A chain of Dense 64x64 tanh without biases, a cell each.
Tick measure_tick(GpuBench& bench, std::size_t cells, const Encoding& encoding, const Tick& float32) {
  const auto across = static_cast<std::uint32_t>(std::min<std::size_t>(cells, 512));
  const auto down = static_cast<std::uint32_t>(cells / across);
  mesh::NetworkBuilder builder("chain", {1, down, across, 1});
  builder.input("in", kWidth);
  const auto granularity = has_scale(encoding.dtype) ? std::optional(encoding.granularity) : std::nullopt;
  for (std::uint32_t y = 0; y < down; ++y)
    for (std::uint32_t x = 0; x < across; ++x) {
      builder.dense({0, y, x, 0}, kWidth, kernels::Activation::tanh)
          .option("bias", false)
          .dtype(encoding.dtype, granularity);
      if (x + y == 0) builder.from({"in"});
    }
  builder.output("out", {0, down - 1, across - 1, 0}).seed(1);
  mesh::MeshOptions options;
  options.device = bench.request.device;
  options.keeps_masters = false;
  auto mesh = must(mesh::Mesh::build(builder.spec(), options));
  const std::vector<float> in(kWidth, 0.5f);
  check(mesh.set_input("in", in));
  const std::uint64_t ticks = bench.is_real ? (cells <= 4096 ? 1000 : 100) : 4;
  check(mesh.tick(2));
  const Times times = bench.measure([&] { check(mesh.tick(ticks)); }, static_cast<double>(ticks));
  const auto& statistics = *mesh.device_statistics();
  if (!statistics.why_host.empty()) std::fprintf(stderr, "weft: on the CPU: %s\n", statistics.why_host.c_str());
  const double bytes = static_cast<double>(mesh::MeshAccess::weights(mesh).bytes());
  // All that a tick moves: the inputs and outputs of cells too.
  const double moved = bytes + 2.0 * sizeof(float) * kWidth * static_cast<double>(cells);
  const std::string name = "gpu/tick " + std::to_string(cells) + " cells " + to_string(encoding);
  const double least = moved / bench.bandwidth;
  const bool is_float32 = encoding.dtype == Dtype::float32;
  Row time{name, times.median * 1e6, "", {}, {}, least * 1e6, "us"};
  if (bench.is_real && is_float32 && cells == 4096) time.asked = Asked{20, false};
  bench.rows.add(time);
  if (bench.is_real) {
    if (const auto seconds = mean(mesh, ticks))
      bench.rows.add({name + ", mean", *seconds * 1e6, "", {}, {}, least * 1e6, "us"});
    else
      std::fprintf(stderr, "weft: %s: no mean: the device brought no state to the host in %llu ticks: %s\n",
                   name.c_str(), static_cast<unsigned long long>(kMostWithoutLanding),
                   statistics.why_host.empty() ? "it never failed" : statistics.why_host.c_str());
  }
  Row rate{name + " weights",
           bytes / times.median * 1e-9,
           "copy",
           bench.bandwidth * 1e-9,
           bytes / times.median / bench.bandwidth,
           bytes / least * 1e-9,
           "GB/s"};
  rate.ratio_range = {bytes / times.high / bench.bandwidth, bytes / times.low / bench.bandwidth};
  if (bench.is_real && is_float32 && cells >= 65536) rate.asked = Asked{0.9};
  bench.rows.add(rate);
  if (!is_float32) {
    Row part{name + " of float32's time", times.median / float32.seconds, "", {}, {}, moved / float32.moved, "x"};
    if (bench.is_real && cells >= 262144) part.asked = asked_of(encoding.dtype);
    bench.rows.add(part);
  }
  if (cells == 65536 && is_float32)
    if (const auto theirs = bench.of_peer("cells_65536"))
      bench.rows.add({name + " against torch.baddbmm", times.median * 1e6, "torch.baddbmm + tanh", *theirs * 1e6,
                      *theirs / times.median, least * 1e6, "us"});
  return {times.median, moved};
}

}  // namespace

void gpu_ticks(GpuBench& bench) {
  for (const std::size_t cells : bench.sizes.cells) {
    Tick float32;
    for (const Encoding& encoding :
         {Encoding(Dtype::float32), Encoding(Dtype::int8), Encoding(Dtype::int4),
          Encoding(Dtype::int4, Granularity::channel), Encoding(Dtype::ternary), Encoding(Dtype::binary)}) {
      const Tick found = measure_tick(bench, cells, encoding, float32);
      if (encoding.dtype == Dtype::float32) float32 = found;
    }
  }
}

}  // namespace weft::bench
