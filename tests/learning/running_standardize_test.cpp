// SPDX-License-Identifier: Apache-2.0

// When the moments of running_standardize move: with each sample of a learner once, and with nothing else.

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/state.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace weft::learning::running_standardize_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

constexpr std::size_t kIn = 6, kOut = 4;
constexpr Coord kLayer{0, 0, 0, 0};

/// Four layers in a chain, the normaliser first or third.
mesh::NetworkSpec chain(bool is_first = true) {
  mesh::NetworkBuilder network("moments", GridShape{1, 1, 4, 1});
  network.input("x", kIn);
  if (is_first) network.layer(kLayer, "running_standardize").option("decay", 0.9);
  network.dense({0, 0, 1, 0}, 9, kernels::Activation::tanh).from({is_first ? mesh::Source(kLayer) : mesh::Source("x")});
  network.dense({0, 0, 2, 0}, kIn, kernels::Activation::tanh);
  if (!is_first) network.layer(kLayer, "running_standardize").option("decay", 0.9).from({Coord{0, 0, 2, 0}});
  network.dense({0, 0, 3, 0}, kOut).from({is_first ? Coord{0, 0, 2, 0} : kLayer});
  return network.output("y", {0, 0, 3, 0}).seed(5).spec();
}

/// Mean, variance and weight of one input, by the formula.
struct Moments {
  float mean = 0, variance = 0, weight = 0;
  void take_in(float x) {
    weight = std::fma(0.9f, weight, 1.0f);
    const float rate = 1.0f / weight, e = x - mean, step = rate * e, w = variance + step * e;
    mean = mean + step;
    variance = w - rate * w;
  }
};

struct MomentsRun : LearningRun {
  explicit MomentsRun(const LearningOptions& options, const mesh::NetworkSpec& spec = chain(), std::size_t sessions = 1,
                      std::size_t threads = 1)
      : LearningRun(spec, options, shape(threads, sessions)) {}

  std::vector<float> state(std::size_t session = 0) const {
    const auto rows = mesh::MeshAccess::state(*mesh).hidden(node(kLayer), mesh->ticks());
    return {rows.row(session), rows.row(session) + rows.cols};
  }
  float weight(std::size_t session = 0) const { return state(session).back(); }
};

/// The moments that it is to have after the samples [0, count) of a session.
std::vector<float> moments_of(const Samples& data, std::uint64_t count, std::size_t session = 0) {
  std::vector<float> all(3 * kIn);
  for (std::size_t j = 0; j < kIn; ++j) {
    Moments moments;
    for (std::uint64_t s = 0; s < count; ++s)
      moments.take_in(data.inputs[0].values[(s * data.sessions + session) * kIn + j]);
    all[j] = moments.mean, all[kIn + j] = moments.variance, all[2 * kIn + j] = moments.weight;
  }
  return all;
}

/// Weight after so many samples.
float weight_after(int samples) {
  float weight = 0;
  for (int i = 0; i < samples; ++i) weight = std::fma(0.9f, weight, 1.0f);
  return weight;
}

// A twelfth of the samples has no label.
TEST(RunningStandardizeInLearning, TakesInEachSampleOnceWithALabelOrWithout) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
    for (const std::uint32_t hold : {0u, 2u, 9u})
      for (const Rule rule : all_rules()) {
        if (schedule == Schedule::pipelined && hold != 0) continue;
        SCOPED_TRACE(std::string(name(rule)) + " " + std::string(name(schedule)) + " " + std::to_string(hold));
        const LearningOptions options{.rule = rule, .schedule = schedule, .hold = hold};
        for (const bool at_once : {true, false}) {
          MomentsRun run(options);
          const Samples data(chain(), options, 30);
          data.train(*run.learner, 0, 30, at_once);
          must(run.learner->drain());
          ASSERT_EQ(bits(run.state()), bits(moments_of(data, 30)));
        }
      }
}

// The input of a layer further on is known once it has settled.
TEST(RunningStandardizeInLearning, TakesInWhatHasSettledBehindOtherLayers) {
  for (const std::uint32_t hold : {0u, 9u})
    for (const bool fires_always : {false, true}) {
      const LearningOptions options{.hold = hold};
      MomentsRun run(options, chain(false));
      if (fires_always) {
        auto wait = std::make_shared<mesh::Command>();
        wait->kind = mesh::CommandKind::set_period;
        wait->number = 1;
        wait->not_before = 1 << 30;
        must(run.mesh->post(kLayer, wait));
      }
      const Samples data(chain(false), options, 25);
      std::vector<Moments> want(kIn);
      for (std::uint64_t s = 0; s < 25; ++s) {
        data.train(*run.learner, s, 1);
        // Its last input is still there.
        const std::vector<float> x = output_of(*run.mesh, {0, 0, 2, 0}), state = run.state();
        for (std::size_t j = 0; j < kIn; ++j) {
          want[j].take_in(x[j]);
          ASSERT_EQ(std::bit_cast<std::uint32_t>(state[j]), std::bit_cast<std::uint32_t>(want[j].mean)) << s;
          ASSERT_EQ(state[kIn + j], want[j].variance) << s;
        }
      }
    }
}

// Ways of 1 and 3 links, and a loop: everything fires in every tick.
TEST(RunningStandardizeInLearning, TakesInOncePerSampleWhereWaysDifferAndInLoops) {
  const auto spec = mesh::NetworkBuilder("ways", GridShape{1, 1, 4, 1})
                        .input("x", kIn)
                        .dense({0, 0, 1, 0}, kIn, kernels::Activation::tanh)
                        .from({"x", Coord{0, 0, 3, 0}})
                        .dense({0, 0, 2, 0}, kIn, kernels::Activation::tanh)
                        .from({Coord{0, 0, 1, 0}})
                        .layer(kLayer, "running_standardize")
                        .option("decay", 0.9)
                        .from({"x", Coord{0, 0, 2, 0}})
                        .dense({0, 0, 3, 0}, kOut)
                        .from({kLayer})
                        .output("y", {0, 0, 3, 0})
                        .seed(5)
                        .spec();
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    MomentsRun run({.schedule = schedule}, spec);
    Samples(spec, {}, 12).train(*run.learner, 0, 12);
    must(run.learner->drain());
    EXPECT_EQ(run.weight(), weight_after(12)) << name(schedule);
  }
}

TEST(RunningStandardizeInLearning, TakesInWithinContainersBesideWhatCountsTicks) {
  const auto spec =
      must(mesh::read_network(R"({"weft": 2, "seed": 3, "grid": {"x": 3}, "inputs": {"x": [6]}, "layers": [
    {"at": [0,0,0,0], "type": "sequential", "layers": [{"type": "running_standardize", "decay": 0.9},
                                                       {"type": "leaky_integrator"}, {"type": "dropout"}]},
    {"at": [0,0,1,0], "type": "dense", "out": 6}, {"at": [0,0,2,0], "type": "dense", "out": 4}],
    "outputs": {"y": [0,0,2,0]}})",
                              "container"));
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    MomentsRun run({.schedule = schedule}, spec);
    const Samples data(spec, {}, 12);
    data.train(*run.learner, 0, 12);
    must(run.learner->drain());
    const std::vector<float> state = run.state(), want = moments_of(data, 12);
    for (std::size_t i = 0; i < 3 * kIn; ++i) EXPECT_EQ(state[i], want[i]) << name(schedule) << ", " << i;
  }
}

TEST(RunningStandardizeInLearning, StaysAsItIsWhereNothingIsLearned) {
  MomentsRun run({});
  const Samples data(chain(), {}, 20);
  data.train(*run.learner, 0, 20);
  const std::vector<float> before = run.state(), x = noise(12 * kIn, 8);
  std::vector<float> held(12 * kOut), one(kOut);
  const mesh::RunInput input{"x", x};
  const mesh::RunOutput into{"y", held};
  must(mesh::MeshAccess::evaluate_copies(*run.mesh, 0, {&input, 1}, 12, 10, {&into, 1}));
  // Each row by the moments of the session, whatever stands beside it and however long it is held.
  for (std::size_t row = 0; row < 12; ++row) {
    const mesh::RunInput own{"x", std::span(x).subspan(row * kIn, kIn)};
    const mesh::RunOutput to{"y", one};
    must(run.learner->predict({&own, 1}, 1, {&to, 1}, 0));
    EXPECT_EQ(bits(one), bits({held.begin() + static_cast<std::ptrdiff_t>(row * kOut),
                               held.begin() + static_cast<std::ptrdiff_t>((row + 1) * kOut)}));
  }
  must(run.mesh->forward({&input, 1}, 12, {&into, 1}));
  EXPECT_EQ(bits(run.state()), bits(before));
  // And ticks without the learner, which give what the copies gave.
  run.learner.reset();
  must(run.mesh->set_input("x", std::span(x).first(kIn)));
  must(run.mesh->tick(6));
  EXPECT_EQ(bits(run.state()), bits(before));
  must(mesh::MeshAccess::evaluate_copies(*run.mesh, 0, {&input, 1}, 12, 10, {&into, 1}));
  EXPECT_EQ(bits(output_of(*run.mesh, {0, 0, 3, 0})), bits({held.begin(), held.begin() + kOut}));
}

TEST(RunningStandardizeInLearning, KeepsSessionsApartAndTakesInThoseOfLearners) {
  const LearningOptions options{.learners = 2};
  MomentsRun run(options, chain(), 3), threads(options, chain(), 3, 3);
  const Samples data(chain(), options, 15, 3);
  data.train(*run.learner, 0, 15);
  data.train(*threads.learner, 0, 15, false);
  for (const std::size_t session : {0, 1}) {
    EXPECT_EQ(bits(run.state(session)), bits(moments_of(data, 15, session)));
    EXPECT_EQ(run.hash(session), threads.hash(session));
  }
  EXPECT_EQ(run.state(2), std::vector<float>(3 * kIn, 0.0f));
}

TEST(RunningStandardizeInLearning, TakesInObservedSamplesOnceWhateverBecomesOfThem) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
    for (const Late late : {Late::meet, Late::again}) {
      SCOPED_TRACE(std::string(name(schedule)) + (late == Late::meet ? " meet" : " again"));
      LearningOptions options{.schedule = schedule};
      options.late = late;
      options.patience = 5;
      MomentsRun run(options);
      const Samples data(chain(), options, 24);
      const std::uint32_t label = 1;
      const Target target{"y", {&label, 1}};
      std::vector<Ticket> tickets;
      for (std::uint64_t s = 0; s < 24; ++s) {
        if (s % 5 == 4) {
          data.train(*run.learner, s, 1);
          continue;
        }
        tickets.push_back(must(run.learner->observe(data.batch(s, 1).inputs)));
        // Of three one is taught, one forgone and one left open.
        if (tickets.size() < 3) continue;
        if (tickets.size() % 3 == 0) must(run.learner->teach(tickets[tickets.size() - 3], {&target, 1}));
        if (tickets.size() % 3 == 1) must(run.learner->forgo(tickets[tickets.size() - 3]));
      }
      must(run.learner->drain());
      EXPECT_EQ(bits(run.state()), bits(moments_of(data, 24)));
    }
}

TEST(RunningStandardizeInLearning, GoesOnFromAFileToTheBit) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    const LearningOptions options{.schedule = schedule};
    const Samples data(chain(), options, 30);
    MomentsRun unbroken(options);
    data.train(*unbroken.learner, 0, 13);
    LearningRun again(unbroken.file(), options);
    data.train(*unbroken.learner, 13, 17);
    data.train(*again.learner, 13, 17, false);
    must(unbroken.learner->drain());
    must(again.learner->drain());
    EXPECT_EQ(again.hash(), unbroken.hash());
    EXPECT_EQ(bits(unbroken.state()), bits(moments_of(data, 30)));
  }
}

}  // namespace
}  // namespace weft::learning::running_standardize_test
