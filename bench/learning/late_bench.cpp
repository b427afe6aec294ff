// SPDX-License-Identifier: Apache-2.0

// One sample observed and taught, learned at once, and predicted, of a network 784-100-10 on one core. Each row
// alternates with its floor, so that a busy machine slows both: `ratio` is the median of the quotients, `us` and
// `floor_us` the medians. Floor of learning: `learn` of a batch of 64 samples, a sample of it. Floor of predicting:
// `forward` of one row.

#include "learning/learner.hpp"
#include "learning/one_sample.hpp"

#include "mesh/mesh.hpp"

#include "core/philox.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace weft::learning {
namespace {

constexpr std::size_t kIn = 784, kOut = 10, kBatch = 64;

struct Setup {
  explicit Setup(Late late, Schedule schedule = Schedule::settle)
      : mesh(std::make_unique<mesh::Mesh>(mesh::Mesh::build(mesh::NetworkBuilder("late", GridShape{1, 1, 2, 1})
                                                                .input("x", kIn)
                                                                .dense({0, 0, 0, 0}, 100, kernels::Activation::relu)
                                                                .dense({0, 0, 1, 0}, kOut)
                                                                .output("y", {0, 0, 1, 0})
                                                                .seed(1)
                                                                .spec(),
                                                            {.threads = 1})
                                              .value())) {
    LearningOptions options{.schedule = schedule};
    options.late = late;
    learner = Learner::build(*mesh, options).value();
    RandomStream random(5, 0, RandomPurpose::test);
    x.resize(kBatch * kIn);
    for (float& value : x) value = random.next_uniform();
    for (std::size_t i = 0; i < kBatch; ++i) labels.push_back(random.next_below(kOut));
  }
  std::span<const float> sample(std::size_t i) const { return std::span(x).subspan(i % kBatch * kIn, kIn); }
  void batch() {
    const mesh::RunInput input{"x", x};
    const Target target{"y", labels};
    WEFT_ASSERT(learner->learn({&input, 1}, {&target, 1}, kBatch), "a batch is refused");
    learner->clear_scores();
  }
  void observe_and_teach(std::size_t i) {
    const mesh::RunInput input{"x", sample(i)};
    const Ticket ticket = learner->observe({&input, 1}).value();
    const Target target{"y", {&labels[i % kBatch], 1}};
    WEFT_ASSERT(learner->teach(ticket, {&target, 1}), "a target is refused");
    learner->clear_scores();
  }

  std::unique_ptr<mesh::Mesh> mesh;
  std::unique_ptr<Learner> learner;
  std::vector<float> x;
  std::vector<std::uint32_t> labels;
};

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// `one(i)` against `floor()`, which does `kBatch` samples.
void alternate(benchmark::State& state, const auto& one, const auto& floor) {
  std::vector<double> times, floors, ratios;
  for (auto each : state) {
    static_cast<void>(each);
    const double here = seconds_of([&] {
      for (std::size_t i = 0; i < kBatch; ++i) one(i);
    });
    const double there = seconds_of(floor);
    times.push_back(here / kBatch * 1e6);
    floors.push_back(there / kBatch * 1e6);
    ratios.push_back(here / there);
  }
  state.counters["us"] = median(times);
  state.counters["floor_us"] = median(floors);
  state.counters["ratio"] = median(ratios);
}

void observe_teach(benchmark::State& state) {
  Setup one(static_cast<Late>(state.range(0)), static_cast<Schedule>(state.range(1))),
      floor(Late::none, static_cast<Schedule>(state.range(1)));
  alternate(
      state, [&](std::size_t i) { one.observe_and_teach(i); }, [&] { floor.batch(); });
}
BENCHMARK(observe_teach)
    ->ArgNames({"late", "schedule"})
    ->ArgsProduct({{static_cast<int>(Late::meet), static_cast<int>(Late::again)},
                   {static_cast<int>(Schedule::settle), static_cast<int>(Schedule::pipelined)}});

void learn_single(benchmark::State& state) {
  Setup one(Late::none), floor(Late::none);
  alternate(
      state, [&](std::size_t i) { WEFT_ASSERT(learn_one(*one.learner, one.sample(i), one.labels[i]), "refused"); },
      [&] { floor.batch(); });
}
BENCHMARK(learn_single);

void predict_single(benchmark::State& state) {
  Setup one(Late::none);
  std::vector<float> y(kOut);
  const auto forward = [&] {
    for (std::size_t i = 0; i < kBatch; ++i) {
      const mesh::RunInput input{"x", one.sample(i)};
      const mesh::RunOutput output{"y", y};
      WEFT_ASSERT(one.mesh->forward({&input, 1}, 1, {&output, 1}), "refused");
    }
  };
  alternate(
      state, [&](std::size_t i) { WEFT_ASSERT(predict_one(*one.learner, one.sample(i), y), "refused"); }, forward);
}
BENCHMARK(predict_single);

}  // namespace
}  // namespace weft::learning
