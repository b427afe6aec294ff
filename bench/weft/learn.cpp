// SPDX-License-Identifier: Apache-2.0
// Samples a second of every rule on the digits network (examples/digits.json), and of backprop on one as wide as MNIST
// needs it, beside the same meshes that only tick.

#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include "topology/plan.hpp"

#include "core/philox.hpp"

#include "bench/peers/measure.hpp"
#include "bench/weft/must.hpp"
#include "bench/weft/rows.hpp"
#include <cstdlib>
#include <memory>
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
}

}  // namespace weft::bench
