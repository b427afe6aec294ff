// SPDX-License-Identifier: Apache-2.0
// Integer layers with int8 activations against our own float32 ones, in the same run. "of_float32" is the ratio of
// times (below 1: the integer layer is faster).
//   memory/TYPE/...   one row on two threads, weights in turn from a set of 640 MB, so that they come from memory
//   cache/TYPE/...    one row on one thread, the same weights again and again
//   batch/TYPE/...    many rows on two threads; gops counts two operations a multiply-add

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"
#include "kernels/linear.hpp"
#include "kernels/linear_integer.hpp"

#include "core/dtype.hpp"

#include <benchmark/benchmark.h>

#include "bench/peers/measure.hpp"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace weft::bench {
namespace {
using namespace kernels;
using Size = std::size_t;

/// Two threads that share tasks by an atomic counter; the second spins while it waits.
class Pair {
 public:
  Pair() : worker_([this] { serve(); }) {}
  ~Pair() {
    stop_ = true;
    worker_.join();
  }
  void operator()(Size count, ParallelFor::Body body, void* context) {
    body_ = body;
    context_ = context;
    count_ = count;
    next_ = 0;
    busy_ = true;
    ++round_;  // seq_cst: pairs with the load in serve()
    work();
    while (busy_) __builtin_ia32_pause();
  }

 private:
  void work() {
    for (Size i = next_++; i < count_; i = next_++) body_(context_, i);
  }
  void serve() {
    const FlushSubnormals flush;
    for (int seen = 0; !stop_;) {
      if (round_ == seen) {
        __builtin_ia32_pause();
        continue;
      }
      ++seen;
      work();
      busy_ = false;
    }
  }
  ParallelFor::Body body_ = nullptr;
  void* context_ = nullptr;
  Size count_ = 0;
  std::atomic<Size> next_{0};
  std::atomic<int> round_{0};
  std::atomic<bool> busy_{false}, stop_{false};
  std::thread worker_;
};

/// Weights of one shape and type, `copies` of them, in one array.
class Weights {
 public:
  Weights(Encoding encoding, Size out, Size in, Size copies)
      : bytes_(weight_bytes(encoding, out, in)),
        stride_(aligned(bytes_.codes) + aligned(bytes_.scales) + aligned(bytes_.zero_points)),
        copies_(copies),
        memory_(stride_ * copies / 4) {
    auto* const words = reinterpret_cast<std::uint32_t*>(memory_.data());
    std::uint32_t state = 1;
    for (Size i = 0; i < memory_.size(); ++i) words[i] = state = state * 1664525u + 1013904223u;
    for (Size c = 0; c < copies; ++c) {
      base_.dtype = encoding.dtype;
      base_.granularity = encoding.granularity;
      base_.out = out;
      base_.in = in;
      auto* const floats = reinterpret_cast<float*>(reinterpret_cast<char*>(memory_.data()) + c * stride_ +
                                                    (has_scale(encoding.dtype) ? aligned(bytes_.codes) : 0));
      if (encoding.granularity == Granularity::block32_f16) {
        auto* const halves = reinterpret_cast<std::uint16_t*>(floats);
        for (Size i = 0; i < bytes_.scales / 2; ++i) halves[i] = static_cast<std::uint16_t>(0x211f + i % 7);  // 0.01
        continue;
      }
      const Size n = has_scale(encoding.dtype) ? bytes_.scales / 4 : bytes_.codes / 4;
      for (Size i = 0; i < n; ++i) floats[i] = 0.01f + static_cast<float>(i % 7) * 0.001f;
    }
  }
  ConstWeight next() {
    const char* const at = reinterpret_cast<const char*>(memory_.data()) + turn_ * stride_;
    turn_ = turn_ + 1 == copies_ ? 0 : turn_ + 1;
    ConstWeight w = base_;
    w.codes = at;
    w.scales = bytes_.scales ? at + aligned(bytes_.codes) : nullptr;
    w.zero_points = bytes_.zero_points ? at + aligned(bytes_.codes) + aligned(bytes_.scales) : nullptr;
    return w;
  }
  Size bytes() const { return bytes_.total(); }

 private:
  static Size aligned(Size n) { return (n + 63) / 64 * 64; }
  WeightBytes bytes_;
  Size stride_, copies_, turn_ = 0;
  HugeArray memory_;
  ConstWeight base_;
};

struct Layer {
  Layer(Encoding encoding, Size batch, Size out, Size in, Size bytes_in_turn)
      : integer(encoding, out, in, copies(encoding, out, in, bytes_in_turn)),
        plain(Encoding(Dtype::float32), out, in, copies(Encoding(Dtype::float32), out, in, bytes_in_turn)),
        x{inputs.data(), batch, in, in},
        y{outputs.data(), batch, out, out},
        inputs(batch * in),
        outputs(batch * out) {
    x.data = inputs.data();
    y.data = outputs.data();
    for (Size i = 0; i < inputs.size(); ++i) inputs.data()[i] = static_cast<float>(i * 37 % 1001) * 0.001f - 0.5f;
  }
  static Size copies(Encoding encoding, Size out, Size in, Size bytes) {
    return std::max<Size>(1, bytes / weight_bytes(encoding, out, in).total());
  }
  Weights integer, plain;
  MatrixView x, y;
  HugeArray inputs, outputs;
};

/// The least time of a run, for each contestant: with two threads on a machine that others use too, the middle one says
/// who else was running.
std::vector<double> fastest(const std::vector<Contestant>& all, int rounds) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds(all.size(), 1e9);
  for (int round = 0; round < rounds; ++round)
    for (Size i = 0; i < all.size(); ++i)
      for (int run = 0; run < 5; ++run) {
        const auto start = Clock::now();
        all[i].run();
        seconds[i] = std::min(seconds[i], std::chrono::duration<double>(Clock::now() - start).count());
      }
  return seconds;
}

void report(benchmark::State& state, Layer& layer, const std::vector<double>& seconds) {
  state.counters["us"] = seconds[0] * 1e6;
  state.counters["float32_us"] = seconds[1] * 1e6;
  state.counters["of_float32"] = seconds[0] / seconds[1];
  state.counters["GB/s"] = static_cast<double>(layer.integer.bytes()) / seconds[0] * 1e-9;
  const double work = 2.0 * static_cast<double>(layer.x.rows * layer.x.cols) * static_cast<double>(layer.y.cols);
  state.counters["gops"] = work / seconds[0] * 1e-9;
  state.SetIterationTime(seconds[0]);
}

void run(benchmark::State& state, Encoding encoding, Size batch, Size out, Size in, Size bytes_in_turn, bool threads) {
  const FlushSubnormals flush;
  Layer layer(encoding, batch, out, in, bytes_in_turn);
  std::unique_ptr<Pair> pair = threads ? std::make_unique<Pair>() : nullptr;
  CpuStream stream;
  if (pair) {
    ParallelOptions parallel{ParallelFor(*pair)};
    parallel.threads = 2;
    stream.set_parallel(&parallel);
  }
  const auto integer = [&] {
    if (pair)
      stream.linear({layer.integer.next(), nullptr, layer.x, Activation::linear, {}, layer.y});
    else
      linear_integer(layer.integer.next(), nullptr, layer.x, Activation::linear, {}, layer.y);
  };
  const auto plain = [&] {
    if (pair)
      stream.linear({layer.plain.next(), nullptr, layer.x, Activation::linear, {}, layer.y});
    else
      linear(layer.plain.next().panels(), nullptr, layer.x, Activation::linear, {}, layer.y);
  };
  const std::vector<Contestant> all{{"integer", integer}, {"float32", plain}};
  for (auto _ : state) report(state, layer, threads ? fastest(all, batch > 100 ? 3 : 50) : race(all, 31));
}

const bool kRegistered = [] {
  const auto add = [](const std::string& name, auto... arguments) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { run(state, arguments...); })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  };
  constexpr Size kFromMemory = Size{640} << 20;
  for (const Dtype dtype :
       {Dtype::int8, Dtype::uint8, Dtype::int4, Dtype::uint4, Dtype::int2, Dtype::uint2, Dtype::ternary, Dtype::binary})
    for (const Granularity granularity : kGranularities) {
      const Encoding encoding(dtype, granularity);
      add("memory/" + to_string(encoding), encoding, Size{1}, Size{4096}, Size{4096}, kFromMemory, true);
      for (const Size n : {64, 512})
        add("cache/" + to_string(encoding) + "/" + std::to_string(n), encoding, Size{1}, n, n, Size{0}, false);
      for (const Size b : {4, 512})
        add("batch/" + to_string(encoding) + "/" + std::to_string(b), encoding, b, Size{4096}, Size{4096}, Size{0},
            true);
      for (const Size b : {2, 16, 256})
        add("small/" + to_string(encoding) + "/" + std::to_string(b), encoding, b, Size{512}, Size{512}, Size{0},
            false);
    }
  return true;
}();

}  // namespace
}  // namespace weft::bench
