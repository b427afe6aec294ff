// SPDX-License-Identifier: Apache-2.0

// A settled sample's layers fire when its input can have reached them, and no more; what is learned keeps its bits. The
// other side fires all layers in all ticks, which it does while a command waits for a later tick.

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <memory>
#include <string>

namespace weft::learning::firing_window_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

std::atomic<std::uint64_t> fired{0};

/// y = x, counted.
class Counted final : public mesh::Layer {
 public:
  explicit Counted(std::size_t width) : Layer(width, width) {}
  void forward(kernels::OpStream& stream, const mesh::ForwardArgs& args) const override {
    ++fired;
    stream.copy({args.x, args.y});
  }
  void backward(kernels::OpStream& stream, const mesh::BackwardArgs& args) const override {
    if (args.dx.data) stream.copy({args.dy, args.dx});
  }
};

void register_counted() {
  static const Status done = mesh::register_layer(
      "counted", [](const Shape& in, std::size_t, mesh::OptionReader&) -> Result<std::unique_ptr<mesh::Layer>> {
        return std::unique_ptr<mesh::Layer>(new Counted(in.at(0)));
      });
  must(done);
}

mesh::NetworkSpec chain(std::uint32_t length) {
  register_counted();
  mesh::NetworkBuilder network("chain", GridShape{1, 1, length + 1, 1});
  network.input("x", 5);
  for (std::uint32_t i = 0; i < length; ++i) network.layer({0, 0, i, 0}, "counted");
  return network.dense({0, 0, length, 0}, 3).output("y", {0, 0, length, 0}).seed(2).spec();
}

std::uint64_t fired_by(const mesh::NetworkSpec& spec, LearningOptions options, std::uint64_t samples) {
  LearningRun run(spec, options);
  fired = 0;
  Samples(spec, options, samples).train(*run.learner, 0, samples);
  return fired;
}

TEST(FiringWindow, ChainsFireEachLayerOnceASample) {
  for (const std::uint32_t length : {1u, 4u, 20u, 40u}) {
    EXPECT_EQ(fired_by(chain(length), {}, 10), 10u * length);
    EXPECT_EQ(fired_by(chain(length), {.rule = Rule::fw_dtp, .hold = 3 * length + 7}, 10), 10u * length);
    // A sample that is not held until it has settled needs every tick.
    EXPECT_EQ(fired_by(chain(length), {.hold = length}, 10), 10u * length * length);
    EXPECT_EQ(fired_by(chain(length), {.schedule = Schedule::pipelined}, 10), 10u * length);
  }
}

TEST(FiringWindow, LastsFromTheShortestToTheLongestWayFromAnInput) {
  register_counted();
  // Ways of 1, 2 and 3 links lead to the last counted layer: three ticks; the two before it fire once each.
  const auto spec = mesh::NetworkBuilder("ways", GridShape{1, 1, 4, 1})
                        .input("x", 5)
                        .layer({0, 0, 0, 0}, "counted")
                        .layer({0, 0, 1, 0}, "counted")
                        .layer({0, 0, 2, 0}, "counted")
                        .from({"x", Coord{0, 0, 0, 0}, Coord{0, 0, 1, 0}})
                        .dense({0, 0, 3, 0}, 3)
                        .output("y", {0, 0, 3, 0})
                        .spec();
  EXPECT_EQ(fired_by(spec, {}, 10), 10u * (1 + 1 + 3));
}

TEST(FiringWindow, LayersBeforeAndBehindStateAndLoopsFireInEveryTick) {
  register_counted();
  const auto spec = [](const char* middle) {
    return mesh::NetworkBuilder("middle", GridShape{1, 1, 5, 1})
        .input("x", 5)
        .layer({0, 0, 0, 0}, "counted")
        .layer({0, 0, 1, 0}, middle)
        .layer({0, 0, 2, 0}, "counted")
        .layer({0, 0, 3, 0}, "counted")
        .from({"x"})
        .dense({0, 0, 4, 0}, 3)
        .from({Coord{0, 0, 2, 0}, Coord{0, 0, 3, 0}})
        .output("y", {0, 0, 4, 0})
        .spec();
  };
  // The third counted layer has neither before nor behind it.
  EXPECT_EQ(fired_by(spec("leaky_integrator"), {}, 10), 10u * (2 * 4 + 1));
  EXPECT_EQ(fired_by(spec("softmax"), {}, 10), 10u * 3);
  // Its state counts samples, not ticks.
  EXPECT_EQ(fired_by(spec("running_standardize"), {}, 10), 10u * 3);
}

/// Both sides of a comparison.
std::string learned(const mesh::NetworkSpec& spec, LearningOptions options, bool fires_all, std::size_t threads,
                    bool at_once = true) {
  constexpr std::uint64_t kSamples = 12;
  LearningRun run(spec, options, shape(threads, options.learners));
  if (fires_all) {
    auto wait = std::make_shared<mesh::Command>();
    wait->kind = mesh::CommandKind::set_period;
    wait->number = 1;
    wait->not_before = 1 << 30;
    must(run.mesh->post(spec.layers.front().at, wait));
  }
  Samples(spec, options, kSamples, options.learners).train(*run.learner, 0, kSamples, at_once);
  StateHasher hasher;
  for (const auto& layer : run.weights())
    for (const double v : layer) hasher.add(std::bit_cast<std::uint64_t>(v));
  for (const mesh::LayerSpec& layer : spec.layers)
    for (const float v : must(run.mesh->output(layer.at))) hasher.add(std::bit_cast<std::uint32_t>(v));
  for (const Score& score : run.learner->scores()) hasher.add(std::bit_cast<std::uint32_t>(score.loss));
  return to_string(hasher.digest());
}

TEST(FiringWindow, LearnsTheSameBitsAsFiringEveryLayerInEveryTick) {
  const std::map<std::string, mesh::NetworkSpec> networks{{"mixed", mixed_network(3)},
                                                          {"recurrent", recurrent_network(3)},
                                                          {"shared", shared_network()},
                                                          {"digits", digits_network(3)},
                                                          {"deep", deep_network()}};
  for (const auto& [called, spec] : networks)
    for (const Rule rule : all_rules()) {
      const std::string all = learned(spec, {.rule = rule}, true, 1);
      EXPECT_EQ(learned(spec, {.rule = rule}, false, 1), all) << called << " " << name(rule);
      EXPECT_EQ(learned(spec, {.rule = rule}, false, 1, false), all) << called << " " << name(rule) << ", one by one";
      EXPECT_EQ(learned(spec, {.rule = rule}, false, 3), all) << called << " " << name(rule) << ", 3 threads";
      EXPECT_EQ(learned(spec, {.rule = rule, .hold = 30, .learners = 2}, false, 1),
                learned(spec, {.rule = rule, .hold = 30, .learners = 2}, true, 1))
          << called << " " << name(rule) << ", two learners, held for longer";
    }
}

}  // namespace
}  // namespace weft::learning::firing_window_test
