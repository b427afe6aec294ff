// SPDX-License-Identifier: Apache-2.0
// Products of quantized weights.

#include "kernels/gated_linear.hpp"

#include "bench/weft_gpu/gpu_bench.hpp"
#include <algorithm>
#include <set>
#include <string>

namespace weft::bench {

void gpu_codes(GpuBench& bench) {
  const std::size_t n = bench.sizes.gemm;
  const double cubed = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  const gpu::Buffer x = bench.floats(n * n), y = bench.floats(n * n);
  const auto seconds_of = [&](const Encoding& encoding) {
    const GpuBench::Stored w = bench.stored(encoding, n, n);
    return bench
        .time(bench.graph([&] {
          bench.stream->linear(
              {w.view, nullptr, {x.data(), n, n, n}, kernels::Activation::linear, {}, {y.data(), n, n, n}});
        }),
              bench.is_real ? 5 : 1)
        .median;
  };
  const double float32 = seconds_of(Encoding(Dtype::float32));
  const auto rows = [&](const std::string& suffix) {
    for (const Encoding& encoding : {Encoding(Dtype::int8), Encoding(Dtype::int8, Granularity::block32),
                                     Encoding(Dtype::int4), Encoding(Dtype::binary)}) {
      const double seconds = seconds_of(encoding);
      // Each 32 products are added to what came before in float32.
      const double bytes = kernels::weight_bytes(encoding, n, n).codes + 8.0 * static_cast<double>(n * n);
      const double least = std::max(2.0 * cubed / 32 / bench.peak, bytes / bench.bandwidth);
      bench.rows.add({"gpu/gemm " + std::to_string(n) + " " + to_string(encoding) + suffix, 2 * cubed / seconds * 1e-12,
                      "in float32", 2 * cubed / float32 * 1e-12, float32 / seconds, 2 * cubed / least * 1e-12,
                      "TOP/s"});
    }
  };
  rows(bench.suffix);
  if (!bench.device->info().matrix_units) return;
  // Its memory is the other device's, so the operands are made anew.
  gpu::DeviceOptions options;
  options.without_matrix_units = true;
  const auto plain = must(gpu::Device::open(bench.request.device, options));
  GpuRequest without = bench.request;
  without.has_peer = false;
  GpuBench other(bench.rows, without, plain);
  other.peak = bench.peak, other.bandwidth = bench.bandwidth;
  other.suffix = " without matrix units";
  gpu_codes(other);
}

void gpu_gated(GpuBench& bench) {
  const std::size_t in = bench.sizes.hidden / 2,
                    out = 43 * in / 16;  // 1024 and 2752 on a GPU: a small language model's
  for (const std::size_t rows : std::set<std::size_t>{1, 16, bench.sizes.batch, 8 * bench.sizes.batch})
    for (const Encoding& encoding : {Encoding(Dtype::float32), Encoding(Dtype::int8)}) {
      const GpuBench::Stored gate = bench.stored(encoding, out, in), up = bench.stored(encoding, out, in);
      const gpu::Buffer x = bench.floats(rows * in), y = bench.floats(rows * kernels::kGatedBlocks * out);
      const kernels::MatrixView to{y.data(), rows, kernels::kGatedBlocks * out, kernels::kGatedBlocks * out};
      const kernels::ConstMatrixView from{x.data(), rows, in, in};
      const auto block = [&](kernels::GatedBlock which) { return kernels::gated_block(to, which); };
      const double together =
          bench
              .time(bench.graph([&] {
                bench.stream->gated_linear({{gate.view, up.view}, from, kernels::Activation::silu, to});
              }),
                    bench.sizes.times)
              .median;
      const double apart =
          bench
              .time(bench.graph([&] {
                bench.stream->linear({gate.view, nullptr, from, kernels::Activation::silu,
                                      block(kernels::GatedBlock::before), block(kernels::GatedBlock::gate)});
                bench.stream->linear(
                    {up.view, nullptr, from, kernels::Activation::linear, {}, block(kernels::GatedBlock::up)});
                bench.stream->binary({kernels::BinaryOp::mul, block(kernels::GatedBlock::gate),
                                      block(kernels::GatedBlock::up), block(kernels::GatedBlock::product)});
              }),
                    bench.sizes.times)
              .median;
      const auto count = [](std::size_t i) { return static_cast<double>(i); };
      const double macs = 2.0 * count(rows) * count(out) * count(in);
      const double bytes = 2.0 * kernels::weight_bytes(encoding, out, in).codes + 4.0 * count(rows) * count(in) +
                           16.0 * count(rows) * count(out);
      const double least =
          std::max(2.0 * macs / (encoding.dtype == Dtype::float32 ? 1 : 32) / bench.peak, bytes / bench.bandwidth);
      bench.rows.add({"gpu/swiglu " + std::to_string(rows) + "x" + std::to_string(out) + "x" + std::to_string(in) +
                          " " + to_string(encoding),
                      together * 1e6, "its parts", apart * 1e6, apart / together, least * 1e6, "us"});
    }
}

}  // namespace weft::bench
