// SPDX-License-Identifier: Apache-2.0
// One row against a matrix in each of the 21 types, on two threads, from memory: as many copies of the matrix as the
// last-level cache cannot hold are read in turn. Where memory has two states it goes on until all types met both, or
// for four passes, and tells them apart. And int8 products over a batch, in cache. Figures are lower quartiles.

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
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace weft::bench {
namespace {

using namespace kernels;

constexpr std::size_t kDtypeThreads = 2;

std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

void product(const ConstWeight& w, std::size_t batch, const float* x, float* y, const ParallelFor& threads,
             std::size_t count = kDtypeThreads) {
  ParallelOptions parallel{threads};
  parallel.threads = count;
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

/// One type's GEMV: the seconds of each round.
struct GemvRounds {
  std::string name;
  Dtype dtype;
  Activations activations;
  double bytes = 0;
  std::vector<double> weft = {}, float32 = {}, read = {};
  double speed(double seconds) const noexcept { return bytes / seconds / 1e9; }  // GB/s
};

std::vector<GemvRounds> all_gemvs() {
  std::vector<GemvRounds> all;
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    const std::string name = "gemv/" + std::string(weft::name(dtype));
    if (!has_integer_kernel(dtype)) {
      all.push_back({name, dtype, Activations::int8});
      continue;
    }
    for (const Activations activations : {Activations::int8, Activations::float32})
      all.push_back({name + "/" + std::string(weft::name(activations)), dtype, activations});
  }
  return all;
}

/// One row against 8192x8192 weights of every type.
class GemvRace {
 public:
  GemvRace(bool quick, SpinningThreads& threads)
      : quick_(quick),
        threads_(threads),
        size_(quick ? 1024 : 8192),
        values_(size_, size_),
        plain_(master(), Dtype::float32, Activations::int8, copies_of(Dtype::float32)) {}

  void run(GemvRounds& to) {
    Copies stored(master(), to.dtype, to.activations, copies_of(to.dtype));
    to.bytes = static_cast<double>(stored.bytes());
    const ParallelFor parallel(threads_);
    const auto read = [&, turn = std::size_t{0}]() mutable {
      const float* const from = stored.data() + turn++ % stored.count() * stored.floats_of_one();
      const std::size_t half = stored.floats_of_one() / kDtypeThreads / 16 * 16;
      parallel(kDtypeThreads, [&](std::size_t task) { sink_ = read_all(from + task * half, half); });
    };
    const Contestant all[] = {
        {"weft", [&] { product(stored.next(), 1, values_.x.data(), values_.y.data(), parallel); }},
        {"float32", [&] { product(plain_.next(), 1, values_.x.data(), values_.y.data(), parallel); }},
        {"read", read},
    };
    const auto rounds = race_rounds(all, quick_ ? 3 : 9, 2e-3, Clock::wall);
    to.weft.insert(to.weft.end(), rounds[0].begin(), rounds[0].end());
    to.float32.insert(to.float32.end(), rounds[1].begin(), rounds[1].end());
    to.read.insert(to.read.end(), rounds[2].begin(), rounds[2].end());
  }

 private:
  ConstPanels master() noexcept { return {values_.values.data(), size_, size_}; }
  std::size_t copies_of(Dtype dtype) const {
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    const std::size_t wanted = quick_ ? 0 : 2 * static_cast<std::size_t>(std::max(cache, 1L << 25));
    return wanted / weight_bytes(Encoding(dtype), size_, size_).total() + 1;
  }

  bool quick_;
  SpinningThreads& threads_;
  std::size_t size_;
  Master values_;
  Copies plain_;
  volatile float sink_ = 0;
};

/// Memory of virtual machines may have two speeds, of which each lasts for minutes. Rounds are told apart by the speed
/// of reading in them, where the two differ by a third at least.
class MemoryStates {
 public:
  explicit MemoryStates(std::span<const GemvRounds> all) {
    double least = 1e9, most = 0;
    for (const GemvRounds& each : all) {
      // Quartiles: a round in which another program had the machine is no state of its own.
      std::vector<double> sorted = each.read;
      std::sort(sorted.begin(), sorted.end());
      least = std::min(least, each.speed(sorted[sorted.size() * 3 / 4]));
      most = std::max(most, each.speed(sorted[sorted.size() / 4]));
    }
    if (most >= least * 4 / 3) boundary_ = std::sqrt(least * most);
  }
  std::vector<std::string> names() const {
    return boundary_ == 0 ? std::vector<std::string>{""} : std::vector<std::string>{"/slow", "/fast"};
  }
  bool is_in(const std::string& state, double speed) const noexcept {
    return boundary_ == 0 || (speed >= boundary_) == (state == "/fast");
  }
  /// The rounds of one state.
  GemvRounds rounds_in(const std::string& state, const GemvRounds& all) const {
    GemvRounds some{all.name + state, all.dtype, all.activations, all.bytes};
    for (std::size_t i = 0; i < all.read.size(); ++i) {
      if (!is_in(state, all.speed(all.read[i]))) continue;
      some.weft.push_back(all.weft[i]);
      some.float32.push_back(all.float32[i]);
      some.read.push_back(all.read[i]);
    }
    return some;
  }
  /// True when there are two and each type met both.
  bool are_all_seen(std::span<const GemvRounds> all) const {
    return boundary_ != 0 && std::all_of(all.begin(), all.end(), [&](const GemvRounds& each) {
             return !rounds_in("/slow", each).read.empty() && !rounds_in("/fast", each).read.empty();
           });
  }

 private:
  double boundary_ = 0;  // GB/s; 0: one state
};

void add_gemv(Rows& rows, const GemvRounds& rounds) {
  if (rounds.read.empty()) return;
  const double weft = lower_quartile(rounds.weft), float32 = lower_quartile(rounds.float32);
  const double read = lower_quartile(rounds.read);
  rows.add({rounds.name, weft * 1e6, "weft float32", float32 * 1e6, float32 / weft, read * 1e6, "us"});
  rows.add({rounds.name + "/rate", rounds.speed(weft), "", {}, {}, rounds.speed(read), "GB/s"});
}

void race_gemv(Rows& rows, SpinningThreads& threads) {
  constexpr int kMostPasses = 4;
  const bool quick = rows.settings().quick;
  std::vector<GemvRounds> all = all_gemvs();
  std::erase_if(all, [&](const GemvRounds& each) { return !rows.is_wanted(each.name); });
  if (all.empty()) return;
  GemvRace race(quick, threads);
  for (int pass = 0; pass < (quick ? 1 : kMostPasses); ++pass) {
    for (GemvRounds& each : all) race.run(each);
    if (MemoryStates(all).are_all_seen(all)) break;
  }
  const MemoryStates states(all);
  for (const GemvRounds& each : all)
    for (const std::string& state : states.names()) add_gemv(rows, states.rounds_in(state, each));
  for (const std::string& state : states.names()) {
    std::vector<double> speeds;
    for (const GemvRounds& each : all)
      for (const double seconds : each.read)
        if (states.is_in(state, each.speed(seconds))) speeds.push_back(each.speed(seconds));
    rows.add({"memory" + state, median(speeds), "", {}, {}, {}, "GB/s"});
  }
}

void race_gemm(Rows& rows, SpinningThreads& threads, std::size_t count) {
  const std::string suffix = count == kDtypeThreads ? "" : "/" + std::to_string(count) + "-threads";
  const bool quick = rows.settings().quick;
  const std::size_t out = quick ? 512 : 4096, in = quick ? 512 : 4096, batch = quick ? 64 : 512;
  Master m(out, in);
  const ConstPanels master{m.values.data(), out, in};
  Copies plain(master, Dtype::float32, Activations::int8, 1);
  for (const Dtype dtype : {Dtype::int8, Dtype::uint8, Dtype::int4, Dtype::ternary, Dtype::binary, Dtype::bfloat16,
                            Dtype::fp8_e4m3, Dtype::fp4}) {
    const std::string name = "gemm/" + std::string(weft::name(dtype)) + suffix;
    if (!rows.is_wanted(name)) continue;
    Copies stored(master, dtype, Activations::int8, 1);
    std::vector<double> burst(count);
    const ParallelFor parallel(threads);
    const Contestant all[] = {
        {"weft", [&] { product(stored.next(), batch, m.x.data(), m.y.data(), parallel, count); }},
        {"float32", [&] { product(plain.next(), batch, m.x.data(), m.y.data(), parallel, count); }},
        {"peak",
         [&] {
           parallel(kDtypeThreads,
                    [&](std::size_t i) { burst[i] = has_integer_kernel(dtype) ? byte_burst() : fma_burst(); });
         }},
    };
    std::vector<double> seconds;
    for (auto& each : race_rounds(all, quick ? 3 : 9, 2e-3, Clock::wall)) seconds.push_back(lower_quartile(each));
    const double operations = 2.0 * static_cast<double>(batch * out) * static_cast<double>(in);
    const double peak = std::accumulate(burst.begin(), burst.end(), 0.0) / seconds[2];
    std::optional<double> floor, rate;
    // On many threads a burst is as short as their handover: no peak.
    if (peak > 0 && count == kDtypeThreads) floor = operations / peak * 1e6, rate = peak / 1e9;
    rows.add({name, seconds[0] * 1e6, "weft float32", seconds[1] * 1e6, seconds[1] / seconds[0], floor, "us"});
    rows.add({name + "/rate", operations / seconds[0] / 1e9, "weft float32", operations / seconds[1] / 1e9,
              seconds[1] / seconds[0], rate, "Gop/s"});
  }
}

}  // namespace

void bench_dtypes(Rows& rows) {
  const FlushSubnormals exact;
  {
    SpinningThreads threads(kDtypeThreads);
    race_gemv(rows, threads);
    race_gemm(rows, threads, kDtypeThreads);
  }
  const std::size_t all = std::min<std::size_t>(std::thread::hardware_concurrency(), 16);
  if (all <= kDtypeThreads || rows.settings().quick) return;
  SpinningThreads many(all);
  race_gemm(rows, many, all);
}

}  // namespace weft::bench
