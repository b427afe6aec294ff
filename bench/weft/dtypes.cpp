// SPDX-License-Identifier: Apache-2.0
// One row against a matrix in each of the 21 types, on two threads, from memory: as many copies of the matrix as the
// last-level cache cannot hold are read in turn. And int8 products over a batch, in cache.

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"
#include "kernels/linear_dequantized.hpp"
#include "kernels/linear_integer.hpp"
#include "kernels/quantize.hpp"

#include "core/philox.hpp"

#include <unistd.h>

#include "bench/peers/measure.hpp"
#include "bench/peers/threads.hpp"
#include "bench/weft/rows.hpp"
#include <algorithm>
#include <cstring>
#include <memory>

namespace weft::bench {
namespace {

using namespace kernels;

constexpr std::size_t kDtypeThreads = 2;

std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

void product(const ConstWeight& w, std::size_t batch, const float* x, float* y, const ParallelFor& threads) {
  ParallelOptions parallel{threads};
  parallel.threads = kDtypeThreads;
  CpuStream stream;
  stream.set_parallel(&parallel);
  stream.linear({w, nullptr, {x, batch, w.in, w.in}, Activation::linear, {}, {y, batch, w.out, w.out}});
}

/// Copies of one quantized matrix, side by side; `next` gives them in turn.
class Copies {
 public:
  Copies(const ConstPanels& master, Dtype dtype, Activations activations, std::size_t copies)
      : encoding_(dtype),
        bytes_(weight_bytes(encoding_, master.out, master.in)),
        one_(padded(bytes_.codes) + padded(bytes_.scales) + padded(bytes_.zero_points)),
        memory_(copies * one_ / sizeof(float)) {
    for (std::size_t i = 0; i < copies; ++i) {
      auto* const base = reinterpret_cast<std::byte*>(memory_.data()) + i * one_;
      Weight weight;
      weight.codes = base;
      if (bytes_.scales) weight.scales = base + padded(bytes_.codes);
      if (bytes_.zero_points) weight.zero_points = base + padded(bytes_.codes) + padded(bytes_.scales);
      weight.out = master.out;
      weight.in = master.in;
      weight.dtype = dtype;
      weight.granularity = encoding_.granularity;
      if (i == 0) {
        quantize(master, weight);
        nan_free_ = dtype == Dtype::fp8_e4m3 && !holds_nan_code(weight);
      } else {
        std::memcpy(base, memory_.data(), one_);
      }
      ConstWeight& view = views_.emplace_back(weight);
      view.activations = activations;
      view.nan_free = &nan_free_;
    }
  }
  const ConstWeight& next() noexcept { return views_[turn_++ % views_.size()]; }
  std::size_t count() const noexcept { return views_.size(); }
  std::size_t bytes() const noexcept { return bytes_.total(); }
  const float* data() const noexcept { return const_cast<HugeArray&>(memory_).data(); }
  std::size_t floats_of_one() const noexcept { return one_ / sizeof(float); }

 private:
  Encoding encoding_;
  WeightBytes bytes_;
  std::size_t one_;
  HugeArray memory_;
  std::vector<ConstWeight> views_;
  std::uint8_t nan_free_ = 0;
  std::size_t turn_ = 0;
};

struct Master {
  Master(std::size_t out, std::size_t in) : values(panels_size(out, in)), x(512 * in), y(512 * out) {
    RandomStream random(1, 0, RandomPurpose::test);
    for (std::size_t i = 0; i < values.size(); ++i) values.data()[i] = random.next_uniform() - 0.5f;
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = random.next_uniform() - 0.5f;
  }
  HugeArray values, x, y;
};

void race_gemv(Rows& rows, SpinningThreads& threads) {
  const bool quick = rows.settings().quick;
  const std::size_t out = quick ? 1024 : 8192, in = quick ? 1024 : 8192;
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const std::size_t wanted = quick ? 0 : 2 * static_cast<std::size_t>(std::max(cache, 1L << 25));
  Master m(out, in);
  const ConstPanels master{m.values.data(), out, in};
  const auto copies_of = [&](Dtype dtype) { return wanted / weight_bytes(Encoding(dtype), out, in).total() + 1; };
  Copies plain(master, Dtype::float32, Activations::int8, copies_of(Dtype::float32));
  volatile float sink = 0;
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    for (const Activations activations : {Activations::int8, Activations::float32}) {
      if (activations == Activations::float32 && !has_integer_kernel(dtype)) continue;
      Copies stored(master, dtype, activations, copies_of(dtype));
      std::size_t turn = 0;
      const auto read = [&] {
        const float* const from = stored.data() + turn++ % stored.count() * stored.floats_of_one();
        const std::size_t half = stored.floats_of_one() / kDtypeThreads / 16 * 16;
        const auto body = [&](std::size_t task) { sink = read_all(from + task * half, half); };
        const ParallelFor parallel(threads);
        parallel(kDtypeThreads, body);
      };
      const Contestant all[] = {
          {"weft", [&] { product(stored.next(), 1, m.x.data(), m.y.data(), threads); }},
          {"float32", [&] { product(plain.next(), 1, m.x.data(), m.y.data(), threads); }},
          {"read", read},
      };
      const auto seconds = race(all, quick ? 3 : 9, 2e-3, Clock::wall);
      const std::string name = "gemv/" + std::string(weft::name(dtype)) +
                               (has_integer_kernel(dtype) ? "/" + std::string(weft::name(activations)) : "");
      rows.add(
          {name, seconds[0] * 1e6, "weft float32", seconds[1] * 1e6, seconds[1] / seconds[0], seconds[2] * 1e6, "us"});
    }
  }
}

void race_gemm(Rows& rows, SpinningThreads& threads) {
  const bool quick = rows.settings().quick;
  const std::size_t out = quick ? 512 : 4096, in = quick ? 512 : 4096, batch = quick ? 64 : 512;
  Master m(out, in);
  const ConstPanels master{m.values.data(), out, in};
  Copies plain(master, Dtype::float32, Activations::int8, 1);
  for (const Dtype dtype : {Dtype::int8, Dtype::uint8, Dtype::int4, Dtype::ternary, Dtype::binary, Dtype::bfloat16,
                            Dtype::fp8_e4m3, Dtype::fp4}) {
    Copies stored(master, dtype, Activations::int8, 1);
    const Contestant all[] = {
        {"weft", [&] { product(stored.next(), batch, m.x.data(), m.y.data(), threads); }},
        {"float32", [&] { product(plain.next(), batch, m.x.data(), m.y.data(), threads); }},
    };
    const auto seconds = race(all, quick ? 3 : 7, 2e-3, Clock::wall);
    rows.add({"gemm/" + std::string(weft::name(dtype)),
              seconds[0] * 1e6,
              "weft float32",
              seconds[1] * 1e6,
              seconds[1] / seconds[0],
              {},
              "us"});
    const double operations = 2.0 * static_cast<double>(batch * out) * static_cast<double>(in);
    rows.add({"gemm/" + std::string(weft::name(dtype)) + "/rate",
              operations / seconds[0] / 1e9,
              "weft float32",
              operations / seconds[1] / 1e9,
              seconds[1] / seconds[0],
              {},
              "Gop/s"});
  }
}

}  // namespace

void bench_dtypes(Rows& rows) {
  const FlushSubnormals exact;
  SpinningThreads threads(kDtypeThreads);
  race_gemv(rows, threads);
  race_gemm(rows, threads);
}

}  // namespace weft::bench
