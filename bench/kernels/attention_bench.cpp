// SPDX-License-Identifier: Apache-2.0
// Attention on one thread against the FMA peak of the same moment: forward and backward of the kernel alone, a whole
// training step of the layer (projections, attention, gradients, SGD) in ops, and decoding against a plain read of the
// cache. Floors: an op's products at the peak rate; decoding, reading keys and values once and writing them once.

#include "kernels/attention.hpp"
#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"

#include "core/philox.hpp"

#include <benchmark/benchmark.h>

#include "bench/peers/measure.hpp"
#include <cmath>
#include <string>
#include <vector>

namespace weft::bench {
namespace {
using namespace kernels;

/// Sessions of one attention layer with d = heads * head_dim, and everything that a step of it touches.
struct Layer {
  Layer(const AttentionShape& s, std::size_t sessions)
      : shape(s),
        rows(sessions),
        d(s.heads * s.head_dim),
        weights(4 * panels_size(d, d)),
        gradients(4 * panels_size(d, d)),
        values(12 * sessions * s.tokens * d),
        statistics(sessions * attention_statistics_size(s)),
        state(sessions * attention_state_size(s) + 16),
        next(sessions * attention_state_size(s) + 16),
        mask(sessions * s.tokens),
        workspace(attention_workspace_size(s)) {
    RandomStream random(1, 2, RandomPurpose::test);
    for (std::size_t i = 0; i < weights.size(); ++i) weights.data()[i] = (random.next_uniform() - 0.5f) * 0.1f;
    for (std::size_t i = 0; i < values.size(); ++i) values.data()[i] = random.next_uniform() - 0.5f;
    shape.scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  }
  // Of the values: x q k v y out, and the same errors.
  enum Value : std::size_t { kX, kQ, kK, kV, kY, kOut, kErrors };
  MatrixView sessions_of(std::size_t i) {
    const std::size_t n = shape.tokens * d;
    return {values.data() + i * rows * n, rows, n, n};
  }
  MatrixView tokens_of(std::size_t i) {
    return {values.data() + i * rows * shape.tokens * d, rows * shape.tokens, d, d};
  }
  Panels matrix(HugeArray& of, std::size_t i) { return {of.data() + i * panels_size(d, d), d, d}; }
  ConstWeight weight(std::size_t i) { return ConstPanels(matrix(weights, i)); }
  MatrixView states(HugeArray& of) {
    const std::size_t n = attention_state_size(shape);
    return n ? MatrixView{of.data(), rows, n, n} : MatrixView{};
  }
  MatrixView statistic_rows() {
    const std::size_t n = attention_statistics_size(shape);
    return {statistics.data(), rows, n, n};
  }
  AttentionOperands operands() {
    AttentionOperands all{sessions_of(kQ), sessions_of(kK), sessions_of(kV), states(state)};
    if (shape.has_mask()) all.mask = {mask.data(), rows, shape.tokens, shape.tokens};
    return all;
  }

  void project() {
    for (std::size_t i = 0; i < 3; ++i)
      stream.linear({weight(i), nullptr, tokens_of(kX), Activation::linear, {}, tokens_of(kQ + i)});
  }
  void attend() {
    stream.attention({shape, operands(), sessions_of(kY), statistic_rows(), states(next), workspace.data()});
  }
  void attend_back() {
    stream.attention_backward({shape,
                               operands(),
                               sessions_of(kY),
                               statistic_rows(),
                               {sessions_of(kErrors + kY),
                                {},
                                sessions_of(kErrors + kQ),
                                sessions_of(kErrors + kK),
                                sessions_of(kErrors + kV),
                                {}},
                               workspace.data()});
  }
  void output() { stream.linear({weight(3), nullptr, tokens_of(kY), Activation::linear, {}, tokens_of(kOut)}); }
  void step() {
    stream.fill({0.0f, {gradients.data(), 1, gradients.size(), gradients.size()}});
    project();
    attend();
    output();
    const MatrixView dout = tokens_of(kErrors + kOut), dx = tokens_of(kErrors + kX);
    stream.outer_accumulate({dout, tokens_of(kY), matrix(gradients, 3)});
    stream.linear_transposed({weight(3), dout, tokens_of(kErrors + kY)});
    attend_back();
    for (std::size_t i = 0; i < 3; ++i) {
      stream.outer_accumulate({tokens_of(kErrors + kQ + i), tokens_of(kX), matrix(gradients, i)});
      stream.linear_transposed({weight(i), tokens_of(kErrors + kQ + i), i ? tokens_of(kOut) : dx});
      if (i) stream.binary({BinaryOp::add, dx, tokens_of(kOut), dx});
    }
    stream.run(kernels::ops::sgd_step(weights.size(), weights.data(), gradients.data(), 1e-6f));
  }

  AttentionShape shape;
  std::size_t rows, d;
  HugeArray weights, gradients, values, statistics, state, next, mask, workspace;
  CpuStream stream;
};

void training(benchmark::State& state, std::size_t sessions, std::size_t tokens, std::size_t heads,
              std::size_t head_dim, bool causal) {
  const FlushSubnormals flush;
  Layer layer({tokens, heads, heads, head_dim, 0, 0, causal, 1.0f}, sessions);
  layer.project();
  layer.attend();
  Layer masked({tokens, heads, heads, head_dim, 0, 0, causal, 1.0f, 0, {0, 0, 1}}, sessions);  // a number a key
  masked.project();
  masked.attend();
  double burst = 0;
  const std::vector<Contestant> all{{"forward", [&] { layer.attend(); }},
                                    {"backward", [&] { layer.attend_back(); }},
                                    {"step", [&] { layer.step(); }},
                                    {"peak", [&] { burst = fma_burst(); }},
                                    {"masked_forward", [&] { masked.attend(); }},
                                    {"masked_backward", [&] { masked.attend_back(); }}};
  const double seen = causal ? double(tokens + 1) / 2 : double(tokens);
  const double product = 2.0 * double(sessions * tokens) * seen * double(layer.d);
  const double projection = 2.0 * double(sessions * tokens) * double(layer.d) * double(layer.d);
  for (auto _ : state) {
    const auto seconds = race(all, 30);
    const double peak = burst / seconds[3];
    // Backward makes the scores again: five products. The step: four projections, thrice.
    const double flops[] = {2 * product, 5 * product, 7 * product + 12 * projection};
    for (std::size_t i = 0; i < 3; ++i) {
      state.counters[all[i].name + "_us"] = seconds[i] * 1e6;
      state.counters[all[i].name + "_of_peak"] = flops[i] / seconds[i] / peak;
    }
    for (const std::size_t i : {std::size_t{4}, std::size_t{5}}) state.counters[all[i].name + "_us"] = seconds[i] * 1e6;
    state.counters["peak_gflops"] = peak * 1e-9;
    state.SetIterationTime(seconds[2]);
  }
}

void decoding(benchmark::State& state, std::size_t context, std::size_t heads, std::size_t kv_heads,
              std::size_t head_dim) {
  const FlushSubnormals flush;
  Layer layer({1, heads, kv_heads, head_dim, context, 0, true, 1.0f}, 1);
  layer.state.data()[0] = static_cast<float>(3 * context);
  const std::vector<Contestant> all{
      {"decode", [&] { layer.attend(); }},
      {"copy",
       [&] {
         layer.stream.copy({layer.states(layer.state), layer.states(layer.next)});
       }},
      {"read", [&] { benchmark::DoNotOptimize(read_all(layer.state.data(), layer.state.size())); }}};
  for (auto _ : state) {
    const auto seconds = race(all, 30);
    for (std::size_t i = 0; i < all.size(); ++i) state.counters[all[i].name + "_us"] = seconds[i] * 1e6;
    state.counters["of_copy"] = seconds[1] / seconds[0];
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
  add("train/4x128/8x32", training, Size{4}, Size{128}, Size{8}, Size{32}, false);
  add("train/4x128/8x32/causal", training, Size{4}, Size{128}, Size{8}, Size{32}, true);
  add("train/1x512/8x64", training, Size{1}, Size{512}, Size{8}, Size{64}, false);
  add("train/1x512/8x64/causal", training, Size{1}, Size{512}, Size{8}, Size{64}, true);
  add("train/16x16/4x16", training, Size{16}, Size{16}, Size{4}, Size{16}, false);
  add("decode/1024/8x32", decoding, Size{1024}, Size{8}, Size{8}, Size{32});
  add("decode/4096/8/2x64", decoding, Size{4096}, Size{8}, Size{2}, Size{64});
  add("decode/256/4x16", decoding, Size{256}, Size{4}, Size{4}, Size{16});
  return true;
}();

}  // namespace
}  // namespace weft::bench
