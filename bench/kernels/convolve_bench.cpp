// SPDX-License-Identifier: Apache-2.0
// Convolutions beside the machine's fma peak, raced in turn on one thread. Floor: the multiply-adds of the definition
// at that peak; `of_peak` is a kernel's share of it, so margins, stores and short tiles count as losses.

#include "kernels/convolve.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"
#include "kernels/pool.hpp"

#include "core/philox.hpp"

#include <benchmark/benchmark.h>

#include "bench/peers/measure.hpp"
#include <string>
#include <vector>

namespace weft::bench {
namespace {
using namespace kernels;

struct Geometry {
  const char* name;
  std::size_t channels, out, extent, kernel, stride, padding, groups, batch;
};
constexpr Geometry kGeometries[] = {
    {"1_to_16_28x28_3x3", 1, 16, 28, 3, 1, 1, 1, 32},       {"16_to_32_28x28_3x3", 16, 32, 28, 3, 1, 1, 1, 32},
    {"64_to_64_14x14_3x3", 64, 64, 14, 3, 1, 1, 1, 8},      {"256_to_256_7x7_3x3", 256, 256, 7, 3, 1, 1, 1, 4},
    {"64_to_256_14x14_1x1", 64, 256, 14, 1, 1, 0, 1, 8},    {"32_to_64_28x28_3x3_stride_2", 32, 64, 28, 3, 2, 1, 1, 8},
    {"64_28x28_3x3_depthwise", 64, 64, 28, 3, 1, 1, 64, 8},
};

Window window_of(const Geometry& g) {
  Window w;
  w.channels = g.channels, w.groups = g.groups;
  w.in = {1, g.extent, g.extent}, w.kernel = {1, g.kernel, g.kernel};
  w.stride = {1, g.stride, g.stride}, w.padding = {0, g.padding, g.padding};
  const std::size_t n = (g.extent + 2 * g.padding - g.kernel) / g.stride + 1;
  w.out = {1, n, n};
  return w;
}

void fill(float* data, std::size_t n) {
  RandomStream random(1, n, RandomPurpose::test);
  for (std::size_t i = 0; i < n; ++i) data[i] = random.next_uniform() - 0.5f;
}

void convolutions(benchmark::State& state, const Geometry& g) {
  const FlushSubnormals flush;
  const Window w = window_of(g);
  const std::size_t in = w.image(), out = g.out * w.positions(), columns = w.columns();
  HugeArray panels(panels_size(g.out, columns)), gradient(panels.size()), bias(g.out), x(g.batch * in),
      dx(g.batch * in);
  HugeArray y(g.batch * out), dy(g.batch * out), workspace(convolve_workspace(w, g.out));
  fill(x.data(), x.size());
  fill(dy.data(), dy.size());
  std::vector<float> rows(g.out * columns);
  fill(rows.data(), rows.size());
  pack_panels({rows.data(), g.out, columns, columns}, {panels.data(), g.out, columns});
  const ConstPanels weights{panels.data(), g.out, columns};
  double burst = 0;
  const std::vector<Contestant> all{{"forward",
                                     [&] {
                                       convolve(w, weights, bias.data(), {x.data(), g.batch, in, in}, Activation::relu,
                                                {}, {y.data(), g.batch, out, out}, workspace.data());
                                     }},
                                    {"to_input",
                                     [&] {
                                       convolve_transposed(w, weights, nullptr, {dy.data(), g.batch, out, out},
                                                           Activation::linear, {}, {dx.data(), g.batch, in, in},
                                                           workspace.data());
                                     }},
                                    {"to_weights",
                                     [&] {
                                       convolve_outer(w, {dy.data(), g.batch, out, out}, {x.data(), g.batch, in, in},
                                                      {gradient.data(), g.out, columns}, workspace.data());
                                     }},
                                    {"peak", [&] { burst = fma_burst(); }}};
  for (auto _ : state) {
    const auto seconds = race(all, 25);
    const double peak = burst / seconds.back(), flops = 2.0 * double(g.batch) * double(out) * double(columns);
    for (std::size_t i = 0; i < 3; ++i) {
      state.counters[all[i].name + "_us"] = seconds[i] * 1e6;
      state.counters[all[i].name + "_of_peak"] = flops / seconds[i] / peak;
    }
    state.counters["floor_us"] = flops / peak * 1e6;
    state.counters["peak_gmacs"] = peak * 0.5e-9;
    state.SetIterationTime(seconds[0]);
  }
}

/// Pools beside reading their input once.
void pools(benchmark::State& state, std::size_t kernel, std::size_t stride) {
  const FlushSubnormals flush;
  Pool pool;
  pool.window = window_of({"", 32, 32, 28, kernel, stride, 0, 1, 8});
  const std::size_t in = pool.window.image(), out = 32 * pool.window.positions();
  HugeArray x(8 * in), y(8 * out), at(8 * out);
  fill(x.data(), x.size());
  const std::vector<Contestant> all{
      {"max",
       [&] {
         max_pool(pool, {x.data(), 8, in, in}, {y.data(), 8, out, out}, {at.data(), 8, out, out});
       }},
      {"avg",
       [&] {
         avg_pool(pool, {x.data(), 8, in, in}, {y.data(), 8, out, out});
       }},
      {"max_backward",
       [&] {
         max_pool_backward(pool, {at.data(), 8, out, out}, {y.data(), 8, out, out}, {x.data(), 8, in, in});
       }},
      {"avg_backward",
       [&] {
         avg_pool_backward(pool, {y.data(), 8, out, out}, {x.data(), 8, in, in});
       }},
      {"read", [&] { benchmark::DoNotOptimize(read_all(x.data(), x.size())); }}};
  for (auto _ : state) {
    const auto seconds = race(all, 25);
    for (std::size_t i = 0; i < all.size(); ++i) state.counters[all[i].name + "_us"] = seconds[i] * 1e6;
    state.SetIterationTime(seconds[0]);
  }
}

const bool kRegistered = [] {
  const auto add = [](const std::string& name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);
  };
  for (const Geometry& g : kGeometries)
    add(std::string("convolve/") + g.name, [&g](benchmark::State& state) { convolutions(state, g); });
  add("pool/2x2", [](benchmark::State& state) { pools(state, 2, 2); });
  add("pool/3x3_stride_1", [](benchmark::State& state) { pools(state, 3, 1); });
  return true;
}();

}  // namespace
}  // namespace weft::bench
