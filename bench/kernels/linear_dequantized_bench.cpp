// SPDX-License-Identifier: Apache-2.0
// One row against stored weights of each type, against float32 in the same run. Weights come from a ring of matrices
// that is larger than any cache, so memory decides; the time of a weight is what is compared.
//   x_float32  this type's time for a weight over float32's; memory alone would make it of_bytes
//   GB_s       bytes of codes, scales and zero points read in a second
// Each thread's own time is taken, so that programs which share the machine cost less; the slower thread counts, and of
// several turns, which all types take in turn, the best.

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"
#include "kernels/linear_dequantized.hpp"

#include "core/philox.hpp"

#include <benchmark/benchmark.h>

#include <time.h>

#include "bench/peers/measure.hpp"
#include <algorithm>
#include <atomic>
#include <bit>
#include <string>
#include <thread>
#include <vector>

namespace weft::bench {
namespace {
using namespace kernels;

constexpr std::size_t kSize = 8192, kRingFloats = std::size_t{256} << 20;
constexpr int kRounds = 7;

/// The calling thread and, where two are wanted, a second one that waits for work without sleeping. Tasks go out by
/// halves, so that each thread reads one stream of panels.
class Team {
 public:
  explicit Team(std::size_t threads) : threads_(threads) {
    if (threads_ > 1)
      partner_ = std::thread([this] {
        const FlushSubnormals flush;
        for (std::size_t seen = 0;;) {
          while (turn_.load(std::memory_order_acquire) == seen) {
          }
          ++seen;
          if (!body_) return;
          share(1);
          done_.store(seen, std::memory_order_release);
        }
      });
  }
  ~Team() {
    body_ = nullptr;
    turn_.fetch_add(1, std::memory_order_release);
    if (partner_.joinable()) partner_.join();
  }
  void operator()(std::size_t count, ParallelFor::Body body, void* context) {
    body_ = body, context_ = context, count_ = count;
    const std::size_t turn = turn_.fetch_add(1, std::memory_order_release) + 1;
    share(0);
    if (threads_ > 1)
      while (done_.load(std::memory_order_acquire) != turn) {
      }
  }
  /// Seconds of the slower thread since the last call.
  double take_seconds() {
    const double slower = std::max(seconds_[0], seconds_[1]);
    seconds_[0] = seconds_[1] = 0;
    return slower;
  }

 private:
  void share(std::size_t i) {
    const double start = thread_seconds();
    for (std::size_t task = i * count_ / threads_; task < (i + 1) * count_ / threads_; ++task) body_(context_, task);
    seconds_[i] += thread_seconds() - start;
  }
  static double thread_seconds() {
    timespec at{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return double(at.tv_sec) + double(at.tv_nsec) * 1e-9;
  }
  std::size_t threads_, count_ = 0;
  ParallelFor::Body body_ = +[](void*, std::size_t) {};
  void* context_ = nullptr;
  double seconds_[2] = {};
  std::atomic<std::size_t> turn_{0}, done_{0};
  std::thread partner_;
};

/// Codes and scales for every type: bits without NaN or infinity in any of them.
struct Ring {
  Ring() : codes(kRingFloats), scales(kRingFloats / 8), x(kSize), y(kSize) {
    RandomStream random(1, 0, RandomPurpose::test);
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes.data()[i] = i < 65536 ? std::bit_cast<float>(random.next_u32() & 0x37373737u) : codes.data()[i % 65536];
    std::fill_n(scales.data(), scales.size(), 0.01f);
    for (std::size_t i = 0; i < kSize; ++i) x.data()[i] = random.next_normal();
  }
  HugeArray codes, scales, x, y;
};

struct Type {
  explicit Type(Encoding e) : encoding(e), bytes(weight_bytes(e, kSize, kSize)) {}
  std::size_t matrices() const { return kRingFloats * sizeof(float) / bytes.codes; }
  ConstWeight matrix(const Ring& ring, std::size_t i) const {
    ConstWeight w;
    const auto* scales = reinterpret_cast<const char*>(const_cast<Ring&>(ring).scales.data());
    const std::size_t groups =
        ring.scales.size() * sizeof(float) / std::max<std::size_t>(bytes.scales + bytes.zero_points, 1);
    w.codes = reinterpret_cast<const char*>(const_cast<Ring&>(ring).codes.data()) + i * bytes.codes;
    const char* group = scales + (bytes.scales < 65536 ? 0 : i % groups * (bytes.scales + bytes.zero_points));
    if (bytes.scales) w.scales = group;
    if (bytes.zero_points) w.zero_points = group + (bytes.scales + 63) / 64 * 64;
    w.out = w.in = kSize, w.dtype = encoding.dtype, w.granularity = encoding.granularity;
    return w;
  }
  Encoding encoding;
  WeightBytes bytes;
  double seconds = 1e9;  // best time of one matrix
};

std::vector<Encoding> encodings() {
  std::vector<Encoding> all;
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    if (dtype == Dtype::float32) continue;
    all.emplace_back(dtype);
    if (bits(dtype) >= 8) continue;
    const bool is_tensor = default_granularity(dtype) == Granularity::tensor;
    all.emplace_back(dtype, is_tensor ? Granularity::block32 : Granularity::tensor);
  }
  return all;
}

void gemv(benchmark::State& state, const Encoding& encoding, std::size_t threads) {
  const FlushSubnormals flush;
  static Ring ring;
  Team team(threads);
  ParallelOptions parallel{ParallelFor(team)};
  parallel.threads = threads;
  CpuStream stream;
  stream.set_parallel(&parallel);
  Type all[] = {Type(Encoding(Dtype::float32)), Type(encoding)};
  // A type's turn is a part of the ring; its next turn goes on from there, so that no cache holds what it reads.
  std::size_t next[] = {0, 0};
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round)
      for (std::size_t t = 0; t < 2; ++t) {
        const std::size_t turn = std::max<std::size_t>(1, all[t].matrices() / 4);
        for (std::size_t i = 0; i < turn; ++i) {
          ConstWeight w = all[t].matrix(ring, next[t]++ % all[t].matrices());
          w.activations = Activations::float32;
          stream.linear(
              {w, nullptr, {ring.x.data(), 1, kSize, kSize}, Activation::linear, {}, {ring.y.data(), 1, kSize, kSize}});
        }
        all[t].seconds = std::min(all[t].seconds, team.take_seconds() / double(turn));
      }
    state.SetIterationTime(all[1].seconds);
  }
  state.counters["x_float32"] = all[1].seconds / all[0].seconds;
  state.counters["of_bytes"] = double(all[1].bytes.total()) / double(all[0].bytes.total());
  state.counters["GB_s"] = double(all[1].bytes.total()) / all[1].seconds * 1e-9;
  state.counters["float32_GB_s"] = double(all[0].bytes.total()) / all[0].seconds * 1e-9;
}

const bool kRegistered = [] {
  for (const std::size_t threads : {1, 2})
    for (const Encoding& encoding : encodings())
      benchmark::RegisterBenchmark(("gemv/" + to_string(encoding) + "/threads:" + std::to_string(threads)).c_str(),
                                   [=](benchmark::State& state) { gemv(state, encoding, threads); })
          ->Iterations(1)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace weft::bench
