// SPDX-License-Identifier: Apache-2.0
// Linear kernels against OpenBLAS and oneDNN, one thread each, in the same run: every row races its contestants in
// turn and prints ratios (above 1: Weft is faster). Run it again with OPENBLAS_CORETYPE=SkylakeX where OpenBLAS does
// not know the CPU, and take its better run.

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"
#include "kernels/linear.hpp"

#include "core/philox.hpp"

#include <benchmark/benchmark.h>

#include "bench/peers/blas.hpp"
#include "bench/peers/measure.hpp"
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace weft::bench {
namespace {
using namespace kernels;

void fill(float* data, std::size_t n) {
  RandomStream random(1, n, RandomPurpose::test);
  for (std::size_t i = 0; i < n; ++i) data[i] = random.next_uniform() - 0.5f;
}

struct Operands {
  Operands(std::size_t b, std::size_t o, std::size_t i)
      : batch(b), out(o), in(i), rows(o * i), panels(panels_size(o, i)), x(b * i), y(b * o), bias(o) {
    fill(rows.data(), rows.size());
    fill(x.data(), x.size());
    pack_panels({rows.data(), o, i, i}, weights());
  }
  Panels weights() { return {panels.data(), out, in}; }
  MatrixView inputs() { return {x.data(), batch, in, in}; }
  MatrixView outputs() { return {y.data(), batch, out, out}; }
  std::size_t batch, out, in;
  HugeArray rows, panels, x, y, bias;
};

void report(benchmark::State& state, const std::vector<Contestant>& all, const std::vector<double>& seconds) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    state.counters[all[i].name + "_us"] = seconds[i] * 1e6;
    if (i > 0) state.counters["x_" + all[i].name] = seconds[i] / seconds[0];
  }
  state.SetIterationTime(seconds[0]);
}

std::vector<Contestant> with_rivals(Operands& m, std::unique_ptr<OnednnLinear>& onednn) {
  std::vector<Contestant> all{
      {"weft", [&m] { linear(m.weights(), nullptr, m.inputs(), Activation::linear, {}, m.outputs()); }}};
  if (has_openblas())
    all.push_back({"openblas", [&m] { openblas_linear(m.batch, m.out, m.in, m.rows.data(), m.x.data(), m.y.data()); }});
  if (has_onednn()) {
    onednn = std::make_unique<OnednnLinear>(m.batch, m.out, m.in, m.rows.data(), m.x.data(), m.y.data());
    all.push_back({"onednn", [&onednn] { onednn->run(); }});
  }
  return all;
}

void gemv(benchmark::State& state, std::size_t out, std::size_t in) {
  const FlushSubnormals flush;
  Operands m(1, out, in);
  std::unique_ptr<OnednnLinear> onednn;
  auto all = with_rivals(m, onednn);
  all.push_back({"read", [&m] { benchmark::DoNotOptimize(read_all(m.panels.data(), m.panels.size())); }});
  for (auto _ : state) report(state, all, race(all, 40));
}

void gemm(benchmark::State& state, std::size_t batch, std::size_t out, std::size_t in) {
  const FlushSubnormals flush;
  Operands m(batch, out, in);
  std::unique_ptr<OnednnLinear> onednn;
  auto all = with_rivals(m, onednn);
  double burst = 0;
  all.push_back({"peak", [&burst] { burst = fma_burst(); }});
  for (auto _ : state) {
    auto seconds = race(all, batch > 500 ? 15 : 40);
    const double peak = burst / seconds.back();
    all.pop_back();
    report(state, all, seconds);
    state.counters["of_peak"] = 2.0 * double(batch) * double(out) * double(in) / seconds[0] / peak;
    state.counters["peak_gflops"] = peak * 1e-9;
  }
}

/// Many cells of Dense 64x64 one after the other: what a mesh's tick does with its weights.
void cells(benchmark::State& state, std::size_t count) {
  const FlushSubnormals flush;
  constexpr std::size_t kSize = 64;
  HugeArray w(count * kSize * kSize), gradient(count * kSize * kSize), x(count * kSize), y(count * kSize), bias(kSize);
  fill(w.data(), w.size());
  fill(x.data(), x.size());
  const auto each = [&](auto&& one) {
    for (std::size_t c = 0; c < count; ++c) one(c * kSize * kSize, c * kSize);
  };
  const auto forward = [&](Activation activation) {
    each([&](std::size_t weights, std::size_t values) {
      linear({w.data() + weights, kSize, kSize}, bias.data(), {x.data() + values, 1, kSize, kSize}, activation, {},
             {y.data() + values, 1, kSize, kSize});
    });
  };
  const std::vector<Contestant> all{
      {"tanh", [&] { forward(Activation::tanh); }},
      {"plain", [&] { forward(Activation::linear); }},
      {"read", [&] { benchmark::DoNotOptimize(read_all(w.data(), w.size())); }},
      {"transposed",
       [&] {
         each([&](std::size_t weights, std::size_t values) {
           linear_transposed({w.data() + weights, kSize, kSize}, {x.data() + values, 1, kSize, kSize},
                             {y.data() + values, 1, kSize, kSize});
         });
       }},
      {"outer",
       [&] {
         each([&](std::size_t weights, std::size_t values) {
           outer_accumulate({x.data() + values, 1, kSize, kSize}, {x.data() + values, 1, kSize, kSize},
                            {gradient.data() + weights, kSize, kSize});
         });
       }},
      {"update", [&] { update_all(gradient.data(), gradient.size(), 1e-6f); }}};
  for (auto _ : state) {
    const auto seconds = race(all, 40);
    for (std::size_t i = 0; i < all.size(); ++i) state.counters[all[i].name + "_ns"] = seconds[i] / double(count) * 1e9;
    state.SetIterationTime(seconds[0]);
  }
}

/// The backward products as GEMMs, against the FMA peak and OpenBLAS on the same shapes.
void backward(benchmark::State& state, std::size_t batch, std::size_t out, std::size_t in) {
  const FlushSubnormals flush;
  Operands m(batch, out, in);
  double burst = 0;
  const std::vector<Contestant> all{{"transposed", [&] { linear_transposed(m.weights(), m.outputs(), m.inputs()); }},
                                    {"outer", [&] { outer_accumulate(m.outputs(), m.inputs(), m.weights()); }},
                                    {"peak", [&burst] { burst = fma_burst(); }}};
  for (auto _ : state) {
    const auto seconds = race(all, 25);
    const double peak = burst / seconds[2];
    const double flops = 2.0 * double(batch) * double(out) * double(in);
    state.counters["transposed_of_peak"] = flops / seconds[0] / peak;
    state.counters["outer_of_peak"] = flops / seconds[1] / peak;
    state.SetIterationTime(seconds[0]);
  }
}

const bool kRegistered = [] {
  const auto add = [](const std::string& name, auto function, auto... sizes) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { function(state, sizes...); })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  };
  using Size = std::size_t;
  for (const Size n : {64, 128, 256, 512, 1024, 2048, 4096}) add("gemv/" + std::to_string(n), gemv, n, n);
  for (const auto& [out, in] : {std::pair<Size, Size>{10, 64}, {64, 784}, {1000, 64}, {16, 2048}})
    add("gemv/" + std::to_string(out) + "x" + std::to_string(in), gemv, out, in);
  for (const Size n : {16, 64, 256, 1024}) add("cells/" + std::to_string(n), cells, n);
  for (const Size n : {256, 512, 1024, 2048}) add("gemm/" + std::to_string(n), gemm, n, n, n);
  for (const Size b : {2, 3, 4, 5, 8, 13, 16, 64})
    for (const Size n : {64, 512}) add("gemm/" + std::to_string(b) + "x" + std::to_string(n), gemm, b, n, n);
  for (const Size n : {64, 256, 1024}) add("backward/" + std::to_string(n), backward, n, n, n);
  return true;
}();

}  // namespace
}  // namespace weft::bench
