// SPDX-License-Identifier: Apache-2.0
// The floors, and products of float32.

#include "bench/weft_gpu/gpu_bench.hpp"
#include <algorithm>
#include <string>

namespace weft::bench {
namespace {
constexpr double kPeerGemmFlops = 2.0 * 4096 * 4096 * 4096;  // of torch.mm in bench/peers/torch_gpu.py
}  // namespace

void gpu_copy(GpuBench& bench) {
  const std::size_t count = bench.sizes.copy;
  const gpu::Buffer a = bench.floats(count), b = bench.floats(count);
  const auto copying = bench.graph([&] {
    bench.stream->copy({{a.data(), 1, count, count}, {b.data(), 1, count, count}});
  });
  const double bytes = 8.0 * static_cast<double>(count);
  const double ours = bytes / bench.time(copying, bench.sizes.times).median;
  const Times driver = bench.measure(
      [&] {
        for (std::uint64_t i = 0; i < bench.sizes.times; ++i) bench.stream->transfer(a.data(), a.bytes(), b.data());
        check(bench.stream->finish());
      },
      static_cast<double>(bench.sizes.times));
  // The bandwidth of the card is the best of all copies.
  bench.bandwidth = std::max(ours, bytes / driver.median);
  Row row{"gpu/copy", ours * 1e-9, "", {}, {}, {}, "GB/s"};
  if (const auto theirs = bench.of_peer("copy")) {
    const double rate = bench.peer["copy_bytes"].get<double>() / *theirs;
    row.peer = "pytorch copy_", row.peer_value = rate * 1e-9, row.ratio = ours / rate;
    bench.bandwidth = std::max(bench.bandwidth, rate);
  }
  row.floor = bench.bandwidth * 1e-9;
  bench.rows.add(row);
}

void gpu_peak(GpuBench& bench) {
  const double ours = must(bench.device->fma_peak());
  bench.peak = ours;
  if (const auto theirs = bench.of_peer("gemm")) bench.peak = std::max(bench.peak, kPeerGemmFlops / *theirs);
  bench.rows.add({"gpu/fma", ours * 1e-12, "", {}, {}, bench.peak * 1e-12, "TFLOP/s"});
}

void gpu_gemv(GpuBench& bench) {
  const std::size_t n = bench.sizes.gemv;
  const gpu::Buffer w = bench.floats(n * n), x = bench.floats(n), y = bench.floats(n);
  const auto product = bench.graph([&] {
    bench.stream->linear({kernels::ConstPanels{w.data(), n, n},
                          nullptr,
                          {x.data(), 1, n, n},
                          kernels::Activation::linear,
                          {},
                          {y.data(), 1, n, n}});
  });
  const double seconds = bench.time(product, 10 * bench.sizes.times).median, bytes = 4.0 * static_cast<double>(n * n);
  Row row{"gpu/gemv " + std::to_string(n), bytes / seconds * 1e-9, "", {}, {}, bench.bandwidth * 1e-9, "GB/s"};
  if (bench.is_real) row.asked = Asked{1};
  if (const auto theirs = bench.of_peer("gemv"))
    row.peer = "torch.mv", row.peer_value = bytes / *theirs * 1e-9, row.ratio = *theirs / seconds;
  bench.rows.add(row);
}

void gpu_gemm(GpuBench& bench) {
  const std::size_t n = bench.sizes.gemm;
  const gpu::Buffer w = bench.floats(n * n), x = bench.floats(n * n), y = bench.floats(n * n);
  const auto product = bench.graph([&] {
    bench.stream->linear({kernels::ConstPanels{w.data(), n, n},
                          nullptr,
                          {x.data(), n, n, n},
                          kernels::Activation::linear,
                          {},
                          {y.data(), n, n, n}});
  });
  const double seconds = bench.time(product, bench.is_real ? 5 : 1).median;
  const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  const double least = bench.least_seconds(static_cast<double>(n), static_cast<double>(n));
  Row row{"gpu/gemm " + std::to_string(n), flops / seconds * 1e-12, "", {}, {}, flops / least * 1e-12, "TFLOP/s"};
  if (bench.is_real) row.asked = Asked{0.6};
  if (const auto theirs = bench.of_peer("gemm"))
    row.peer = "torch.mm, no TF32", row.peer_value = flops / *theirs * 1e-12, row.ratio = *theirs / seconds;
  bench.rows.add(row);
}

void gpu_products(GpuBench& bench) {
  const std::size_t batch = bench.sizes.batch, n = bench.sizes.hidden;
  const gpu::Buffer w = bench.floats(n * n), x = bench.floats(batch * n), y = bench.floats(batch * n);
  const double flops = 2.0 * static_cast<double>(batch) * static_cast<double>(n) * static_cast<double>(n);
  const double least = bench.least_seconds(static_cast<double>(batch), static_cast<double>(n));
  const kernels::Panels panels{w.data(), n, n};
  const kernels::MatrixView from{x.data(), batch, n, n}, to{y.data(), batch, n, n};
  const auto row = [&](const char* name, const std::function<void()>& record) {
    const double seconds = bench.time(bench.graph(record), 2 * bench.sizes.times).median;
    bench.rows.add(
        {"gpu/" + std::string(name) + " " + std::to_string(batch) + "x" + std::to_string(n) + "x" + std::to_string(n),
         flops / seconds * 1e-12,
         "",
         {},
         {},
         flops / least * 1e-12,
         "TFLOP/s"});
  };
  row("linear", [&] {
    bench.stream->linear({kernels::ConstPanels(panels), nullptr, from, kernels::Activation::linear, {}, to});
  });
  row("linear_transposed", [&] { bench.stream->linear_transposed({kernels::ConstPanels(panels), from, to}); });
  row("outer_accumulate", [&] { bench.stream->outer_accumulate({to, from, panels}); });
}

}  // namespace weft::bench
