// SPDX-License-Identifier: Apache-2.0
// Samples a second of every rule on the digits network (examples/digits.json), and of backprop on one as wide as MNIST
// needs it, beside the same meshes that only tick; and the microseconds of one sample that comes alone.

#include "learning/learner.hpp"
#include "learning/one_sample.hpp"

#include "mesh/mesh.hpp"

#include "topology/plan.hpp"

#include "core/philox.hpp"

#include "bench/peers/measure.hpp"
#include "bench/weft/must.hpp"
#include "bench/weft/rows.hpp"
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::bench {
namespace {

constexpr std::size_t kPixels = 64, kClasses = 10;

mesh::Mesh digits() {
  using kernels::Activation;
  mesh::NetworkBuilder b("digits", {1, 2, 2, 1});
  b.input("pixels", kPixels);
  b.dense({0, 0, 0, 0}, 64, Activation::tanh).from({"pixels", Coord{0, 1, 1, 0}});
  b.dense({0, 0, 1, 0}, 64, Activation::tanh);
  b.dense({0, 1, 0, 0}, kClasses);
  b.dense({0, 1, 1, 0}, 16, Activation::tanh).from({Coord{0, 0, 1, 0}});
  b.output("digit", {0, 1, 0, 0}).seed(1);
  return must(mesh::Mesh::build(b.spec()));
}

/// Images of 28 x 28 values, as MNIST has them.
mesh::Mesh images(std::size_t threads) {
  using kernels::Activation;
  mesh::NetworkBuilder b("images", {1, 1, 3, 1});
  b.input("pixels", 784);
  b.dense({0, 0, 0, 0}, 256, Activation::relu).from({"pixels"});
  b.dense({0, 0, 1, 0}, 128, Activation::relu);
  b.dense({0, 0, 2, 0}, kClasses);
  b.output("digit", {0, 0, 2, 0}).seed(1);
  mesh::MeshOptions options;
  options.threads = threads;
  return must(mesh::Mesh::build(b.spec(), options));
}

struct Samples {
  Samples(std::size_t count, std::size_t width) : pixels(count * width), labels(count) {
    RandomStream random(1, 0, RandomPurpose::test);
    for (float& pixel : pixels) pixel = random.next_uniform();
    for (auto& label : labels) label = random.next_below(kClasses);
  }
  std::vector<float> pixels;
  std::vector<std::uint32_t> labels;
};

/// Learning by one sample an update, beside the same mesh that only ticks.
template <class Make>
void race_learning(Rows& rows, const std::string& row, const Make& make, const Samples& samples, learning::Rule rule,
                   learning::Schedule schedule) {
  if (row.find(rows.settings().only) == std::string::npos) return;
  learning::LearningOptions options;
  options.rule = rule;
  options.schedule = schedule;
  options.optimizer.lr = 1e-4f;  // random labels: small enough that nothing grows
  mesh::Mesh mesh = make(), still = make();
  const auto learner = must(learning::Learner::build(mesh, options));
  const mesh::RunInput input{"pixels", samples.pixels};
  const learning::Target target{"digit", samples.labels, {}};
  const std::size_t count = samples.labels.size();
  const std::uint64_t ticks = count * (schedule == learning::Schedule::settle ? learner->hold() : 1);
  const std::vector<Contestant> all{{"learning",
                                     [&] {
                                       if (!learner->learn({&input, 1}, {&target, 1}, count)) std::abort();
                                       learner->clear_scores();
                                     }},
                                    {"ticks alone", [&] {
                                       if (!still.tick(ticks)) std::abort();
                                     }}};
  const auto seconds =
      race(all, rows.settings().quick ? 9 : 31, 4e-3, mesh.plan().regions.size() == 1 ? Clock::thread : Clock::wall);
  const auto samples_each = static_cast<double>(count);
  rows.add({row,
            samples_each / seconds[0],
            all[1].name,
            samples_each / seconds[1],
            seconds[1] / seconds[0],
            {},
            "samples/s"});
}

/// A network 784-100-10 on one core, to which samples come one by one.
struct OneByOne {
  OneByOne(learning::Late late, learning::Schedule schedule)
      : mesh([] {
          mesh::NetworkBuilder b("one", {1, 1, 2, 1});
          b.input("pixels", kWidth);
          b.dense({0, 0, 0, 0}, 100, kernels::Activation::relu).from({"pixels"});
          b.dense({0, 0, 1, 0}, kClasses).output("digit", {0, 0, 1, 0}).seed(1);
          mesh::MeshOptions options;
          options.threads = 1;
          return must(mesh::Mesh::build(b.spec(), options));
        }()) {
    learning::LearningOptions options;
    options.schedule = schedule;
    options.late = late;
    options.optimizer.lr = 1e-4f;
    learner = must(learning::Learner::build(mesh, options));
  }
  std::span<const float> pixels() const { return std::span(samples.pixels).subspan(next % kSamples * kWidth, kWidth); }
  void observe_and_teach() {
    const mesh::RunInput input{"pixels", pixels()};
    const learning::Ticket ticket = must(learner->observe({&input, 1}));
    const learning::Target target{"digit", {&samples.labels[next++ % kSamples], 1}};
    if (!learner->teach(ticket, {&target, 1})) std::abort();
    learner->clear_scores();
  }
  void learn_batch() {
    const mesh::RunInput input{"pixels", samples.pixels};
    const learning::Target target{"digit", samples.labels};
    if (!learner->learn({&input, 1}, {&target, 1}, kSamples)) std::abort();
    learner->clear_scores();
  }
  void predict(std::vector<float>& y) {
    if (!learning::predict_one(*learner, pixels(), y)) std::abort();
    ++next;
  }

  static constexpr std::size_t kWidth = 784, kSamples = 64, kWeights = (kWidth + 1) * 100 + 101 * kClasses;
  mesh::Mesh mesh;
  std::unique_ptr<learning::Learner> learner;
  Samples samples{kSamples, kWidth};
  std::size_t next = 0;
};

/// A sample that is observed and then taught, against one of a batch that is learned in one call; floor: the weights
/// read once, they and their momenta updated once.
void race_late(Rows& rows, learning::Schedule schedule) {
  const std::string row = "learn/784-100-10 observe+teach/" + std::string(name(schedule));
  if (!rows.is_wanted(row)) return;
  OneByOne one(learning::Late::meet, schedule), batch(learning::Late::none, schedule);
  HugeArray weights(OneByOne::kWeights), momenta(OneByOne::kWeights);
  float sum = 0;
  const std::vector<Contestant> all{{"observe, teach", [&] { one.observe_and_teach(); }},
                                    {"a sample of a batch", [&] { batch.learn_batch(); }},
                                    {"memory", [&] {
                                       sum += read_all(weights.data(), weights.size());
                                       update_all(weights.data(), weights.size(), 1e-9f);
                                       update_all(momenta.data(), momenta.size(), 1e-9f);
                                     }}};
  const auto seconds = race(all, rows.settings().quick ? 9 : 31, 4e-3);
  const double us = seconds[0] * 1e6, peer = seconds[1] / OneByOne::kSamples * 1e6;
  rows.add({row, us, all[1].name, peer, peer / us, seconds[2] * 1e6, "us", {}, Asked{50, false}});
  if (sum < 0) std::abort();  // so that it is read
}

/// An answer to one sample, against a pass of `Mesh::forward`; floor: the weights read once.
void race_predict(Rows& rows) {
  const std::string row = "learn/784-100-10 predict_one";
  if (!rows.is_wanted(row)) return;
  OneByOne one(learning::Late::none, learning::Schedule::settle);
  HugeArray weights(OneByOne::kWeights);
  float sum = 0;
  std::vector<float> y(kClasses);
  const std::vector<Contestant> all{{"predict_one", [&] { one.predict(y); }},
                                    {"forward",
                                     [&] {
                                       const mesh::RunInput input{"pixels", one.pixels()};
                                       const mesh::RunOutput output{"digit", y};
                                       if (!one.mesh.forward({&input, 1}, 1, {&output, 1})) std::abort();
                                     }},
                                    {"memory", [&] { sum += read_all(weights.data(), weights.size()); }}};
  const auto seconds = race(all, rows.settings().quick ? 9 : 31, 4e-3);
  const double us = seconds[0] * 1e6, peer = seconds[1] * 1e6;
  rows.add({row, us, all[1].name, peer, peer / us, seconds[2] * 1e6, "us", {}, Asked{15, false}});
  if (sum < 0) std::abort();
}

}  // namespace

void bench_learn(Rows& rows) {
  using learning::Rule, learning::Schedule;
  const Samples small(256, 64), large(64, 784);
  for (const Rule rule : {Rule::backprop, Rule::gap, Rule::chain, Rule::fw_dtp, Rule::dfa})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
      race_learning(rows, "learn/" + std::string(name(rule)) + "/" + std::string(name(schedule)), digits, small, rule,
                    schedule);
  for (const std::size_t threads : {1, 2})
    race_learning(
        rows, "learn/784-256-128-10 on " + std::to_string(threads), [=] { return images(threads); }, large,
        Rule::backprop, Schedule::pipelined);
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) race_late(rows, schedule);
  race_predict(rows);
}

}  // namespace weft::bench
