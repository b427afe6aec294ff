// SPDX-License-Identifier: Apache-2.0

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"
#include "kernels/math_rows.hpp"
#include "kernels/unary.hpp"

#include "core/aligned_buffer.hpp"

#include <benchmark/benchmark.h>

#include <string>

namespace {

using namespace weft;
using kernels::Activation;

// Arguments spread over [-4, 4], where every branch-free path costs the same anyway.
void run(benchmark::State& state, kernels::Isa isa, const auto& kernel) {
  if (!kernels::set_active_isa(isa)) return state.SkipWithError("this CPU lacks the instruction set");
  const kernels::FlushSubnormals flush;
  const auto n = static_cast<std::size_t>(state.range(0));
  AlignedBuffer<float> x(n), y(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = -4.0f + 8.0f * static_cast<float>(i * 37 % n) / static_cast<float>(n);
  for (auto _ : state) {
    kernel(kernels::ConstMatrixView{x.data(), 1, n, n}, kernels::MatrixView{y.data(), 1, n, n});
    benchmark::ClobberMemory();
  }
  state.counters["elements/ns"] = benchmark::Counter(
      static_cast<double>(n) * static_cast<double>(state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}

const bool kRegistered = [] {
  for (const kernels::Isa isa : kernels::available_isas()) {
    for (int i = 0; i < kernels::kActivationCount; ++i) {
      const auto activation = static_cast<Activation>(i);
      const std::string place = std::string(name(activation)) + "/" + std::string(name(isa));
      benchmark::RegisterBenchmark(
          ("unary/" + place).c_str(),
          [=](benchmark::State& state) { run(state, isa, [=](auto x, auto y) { kernels::unary(activation, x, y); }); })
          ->Arg(64)
          ->Arg(4096);
      benchmark::RegisterBenchmark(("unary_backward/" + place).c_str(),
                                   [=](benchmark::State& state) {
                                     run(state, isa,
                                         [=](auto x, auto y) { kernels::unary_backward(activation, x, x, x, y); });
                                   })
          ->Arg(64)
          ->Arg(4096);
    }
    for (int i = 0; i < kernels::kFunctionCount; ++i) {
      const auto function = static_cast<kernels::Function>(i);
      benchmark::RegisterBenchmark(
          ("apply/" + std::string(name(function)) + "/" + std::string(name(isa))).c_str(),
          [=](benchmark::State& state) { run(state, isa, [=](auto x, auto y) { kernels::apply(function, x, y); }); })
          ->Arg(64)
          ->Arg(4096);
    }
  }
  return true;
}();

}  // namespace
