// SPDX-License-Identifier: Apache-2.0
// Samples a second of every rule on the digits network (DESIGN of examples/digits.json), beside the same mesh that only
// ticks.

#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include "topology/plan.hpp"

#include "core/philox.hpp"

#include "bench/peers/measure.hpp"
#include "bench/weft/must.hpp"
#include "bench/weft/rows.hpp"
#include <cstdlib>
#include <memory>

namespace weft::bench {
namespace {

constexpr std::size_t kSamples = 256, kPixels = 64, kClasses = 10;

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

struct Samples {
  Samples() : pixels(kSamples * kPixels), labels(kSamples) {
    RandomStream random(1, 0, RandomPurpose::test);
    for (float& pixel : pixels) pixel = random.next_uniform();
    for (auto& label : labels) label = random.next_below(kClasses);
  }
  std::vector<float> pixels;
  std::vector<std::uint32_t> labels;
};

void race_rule(Rows& rows, const Samples& samples, learning::Rule rule, learning::Schedule schedule) {
  learning::LearningOptions options;
  options.rule = rule;
  options.schedule = schedule;
  options.optimizer.lr = 1e-4f;  // random labels: small enough that nothing grows
  mesh::Mesh mesh = digits(), still = digits();
  const auto learner = must(learning::Learner::build(mesh, options));
  const mesh::RunInput input{"pixels", samples.pixels};
  const learning::Target target{"digit", samples.labels, {}};
  const std::uint64_t ticks = kSamples * (schedule == learning::Schedule::settle ? learner->hold() : 1);
  const std::vector<Contestant> all{{"learning",
                                     [&] {
                                       if (!learner->learn({&input, 1}, {&target, 1}, kSamples)) std::abort();
                                       learner->clear_scores();
                                     }},
                                    {"ticks alone", [&] {
                                       if (!still.tick(ticks)) std::abort();
                                     }}};
  const auto seconds =
      race(all, rows.settings().quick ? 9 : 31, 4e-3, mesh.plan().regions.size() == 1 ? Clock::thread : Clock::wall);
  rows.add({"learn/" + std::string(name(rule)) + "/" + std::string(name(schedule)),
            kSamples / seconds[0],
            all[1].name,
            kSamples / seconds[1],
            seconds[1] / seconds[0],
            {},
            "samples/s"});
}

}  // namespace

void bench_learn(Rows& rows) {
  using learning::Rule, learning::Schedule;
  const Samples samples;
  for (const Rule rule : {Rule::backprop, Rule::gap, Rule::chain, Rule::fw_dtp, Rule::dfa})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) race_rule(rows, samples, rule, schedule);
}

}  // namespace weft::bench
