// SPDX-License-Identifier: Apache-2.0
// A training step of two convolutions, 1 to 16 to 32 channels, 3 x 3 with padding 1, on 32 images of 28 x 28: forward,
// backward and SGD, sessions split evenly over threads, gradients added up in the end. The floor is the step's
// multiply-adds (the first layer sends nothing back) on so many cores at their fma peak.
// PyTorch's step, for the same run: tools/time_torch_convolution.py.

#include "mesh/network/layer.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"

#include "core/aligned_buffer.hpp"
#include "core/assert.hpp"
#include "core/philox.hpp"

#include <benchmark/benchmark.h>

#include "bench/peers/measure.hpp"
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace weft::bench {
namespace {
using namespace mesh;

constexpr std::size_t kBatch = 32;

std::unique_ptr<Layer> convolution(std::size_t out, const Shape& in, const std::string& activation) {
  LayerSpec spec;
  spec.type = "conv2d";
  spec.out = out;
  spec.options = {{"kernel", 3.0}, {"padding", 1.0}, {"activation", activation}};
  auto layer = make_layer(spec, in, "bench");
  WEFT_ASSERT(layer.has_value(), layer.error().text());
  return *std::move(layer);
}

/// A layer's weights, and the gradients of one thread's sessions.
struct Parameters {
  explicit Parameters(const Layer& layer) {
    RandomStream random(1, 0, RandomPurpose::init);
    for (const ParameterSpec& p : layer.parameters()) {
      std::vector<float> rows(p.out * std::max<std::size_t>(p.in, 1));
      p.init(random, rows);
      values.emplace_back(p.stored_size());
      if (p.is_matrix()) kernels::pack_panels({rows.data(), p.out, p.in, p.in}, {values.back().data(), p.out, p.in});
      views.emplace_back(kernels::ConstPanels{values.back().data(), p.out, p.in});
    }
  }
  std::vector<AlignedBuffer<float>> values;
  std::vector<kernels::ConstWeight> views;
};
struct Sums {
  explicit Sums(const Parameters& parameters) {
    for (const auto& value : parameters.values) {
      buffers.emplace_back(value.size());
      pointers.push_back(buffers.back().data());
    }
  }
  std::vector<AlignedBuffer<float>> buffers;
  std::vector<float*> pointers;
};

/// One thread's sessions.
class Worker {
 public:
  Worker(const Layer& a, const Layer& b, const Parameters& pa, const Parameters& pb, std::size_t rows)
      : a_(a),
        b_(b),
        pa_(pa),
        pb_(pb),
        rows_(rows),
        sums_a(pa),
        sums_b(pb),
        x_(rows * a.in()),
        h_(rows * b.in()),
        dh_(rows * b.in()),
        y_(rows * b.out()),
        dy_(rows * b.out()),
        workspace_(std::max(a.workspace_size(), b.workspace_size())) {
    RandomStream random(2, 0, RandomPurpose::test);
    for (float& v : x_) v = random.next_normal();
  }
  void step() {
    const kernels::FlushSubnormals exact;
    for (Sums* sums : {&sums_a, &sums_b})
      for (auto& buffer : sums->buffers) std::fill(buffer.begin(), buffer.end(), 0.0f);
    a_.forward(stream_, {{pa_.views.data()}, view(x_), {}, view(h_), {}, {}, {}, workspace_.data()});
    b_.forward(stream_, {{pb_.views.data()}, view(h_), {}, view(y_), {}, {}, {}, workspace_.data()});
    std::fill(dy_.begin(), dy_.end(), 1.0f);
    BackwardArgs args;
    args.workspace = workspace_.data();
    args.weights = {pb_.views.data()}, args.gradients = {sums_b.pointers.data()};
    args.x = view(h_), args.y = view(y_), args.dy = view(dy_), args.dx = view(dh_);
    b_.backward(stream_, args);
    args.weights = {pa_.views.data()}, args.gradients = {sums_a.pointers.data()};
    args.x = view(x_), args.y = view(h_), args.dy = view(dh_), args.dx = {};
    a_.backward(stream_, args);
  }

 private:
  kernels::MatrixView view(AlignedBuffer<float>& buffer) const {
    return {buffer.data(), rows_, buffer.size() / rows_, buffer.size() / rows_};
  }
  const Layer &a_, &b_;
  const Parameters &pa_, &pb_;
  std::size_t rows_;

 public:
  Sums sums_a, sums_b;

 private:
  AlignedBuffer<float> x_, h_, dh_, y_, dy_, workspace_;
  kernels::CpuStream stream_;
};

void training_step(benchmark::State& state) {
  const auto threads = static_cast<std::size_t>(state.range(0));
  const auto a = convolution(16, {1, 28, 28}, "relu"), b = convolution(32, {16, 28, 28}, "linear");
  Parameters pa(*a), pb(*b);
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t i = 0; i < threads; ++i)
    workers.push_back(std::make_unique<Worker>(*a, *b, pa, pb, kBatch / threads));
  // Workers spin while they wait, as a mesh's workers do between regions.
  std::atomic<std::uint64_t> round{0}, done{0};
  std::atomic<bool> stops{false};
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < threads; ++i)
    helpers.emplace_back([&, i] {
      for (std::uint64_t seen = 0;;) {
        while (round.load(std::memory_order_acquire) == seen)
          if (stops.load(std::memory_order_relaxed)) return;
        ++seen;
        workers[i]->step();
        done.fetch_add(1, std::memory_order_release);
      }
    });
  const auto step = [&] {
    const kernels::FlushSubnormals exact;
    done.store(0, std::memory_order_relaxed);
    round.fetch_add(1, std::memory_order_release);
    workers[0]->step();
    while (done.load(std::memory_order_acquire) + 1 < threads) {
    }
    kernels::CpuStream stream;
    for (auto& worker : workers)
      for (const auto& [parameters, sums] : {std::pair{&pa, &worker->sums_a}, {&pb, &worker->sums_b}})
        for (std::size_t i = 0; i < parameters->values.size(); ++i)
          stream.run(
              kernels::ops::sgd_step(sums->buffers[i].size(), parameters->values[i].data(), sums->pointers[i], 1e-6f));
  };
  double burst = 0;
  const std::vector<Contestant> all{{"step", step}, {"peak", [&] { burst = fma_burst(); }}};
  const double products = double(kBatch) * (2 * a->multiply_adds() + 3 * b->multiply_adds());
  for (auto _ : state) {
    const auto seconds = race(all, 40, 2e-3, threads == 1 ? Clock::thread : Clock::wall);
    const double peak = burst / 2 / seconds[1] * double(threads);
    state.counters["floor_us"] = products / peak * 1e6;
    state.counters["of_peak"] = products / seconds[0] / peak;
    state.SetIterationTime(seconds[0]);
  }
  stops.store(true, std::memory_order_relaxed);
  for (std::thread& helper : helpers) helper.join();
}
BENCHMARK(training_step)->Arg(1)->Arg(2)->Iterations(1)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace weft::bench
