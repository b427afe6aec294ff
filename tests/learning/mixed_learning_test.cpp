// SPDX-License-Identifier: Apache-2.0
// Learning where a device runs some cells and the host the others: the state and every score that the CPU has, to the
// bit. Skipped (77) where there is no Vulkan device; WEFT_TEST_DEVICE names one.

#include "mesh/persistence/snapshot.hpp"

#include <gtest/gtest.h>

#include "device_pair.hpp"
#include "update_cases.hpp"
#include <algorithm>
#include <initializer_list>
#include <string>
#include <tuple>
#include <vector>

namespace weft::learning::mixed_learning_test {
namespace {

using mesh::Placement;
using mesh::testing_support::need_device;
using test::Batch;
using test::Pair;

/// The digits' network 64-64-64-10 with a cell that feeds back, some of its cells on the host.
mesh::NetworkSpec placed(std::uint64_t seed, std::initializer_list<Coord> on_host) {
  mesh::NetworkSpec spec = test::digits_network(seed);
  for (mesh::LayerSpec& layer : spec.layers)
    for (const Coord& at : on_host)
      if (layer.at == at) layer.device = Placement::cpu;
  return spec;
}
constexpr Coord kFirst{0, 0, 0, 0}, kMiddle{0, 0, 1, 0}, kOutput{0, 1, 0, 0}, kBack{0, 1, 1, 0};

void expect_mixed(const Pair& pair) {
  EXPECT_EQ(pair.statistics().why_host, "");
  EXPECT_EQ(pair.statistics().host_steps, 0u);
  EXPECT_EQ(pair.statistics().replays, 0u);
  EXPECT_GT(pair.statistics().device_steps, 0u);
  EXPECT_GT(pair.statistics().host_cells, 0u);
  EXPECT_GT(pair.statistics().exchanged_bytes, 0u);
}

void train(Pair& pair, std::uint64_t first, std::uint64_t count, std::size_t sessions = 1, std::size_t learners = 1,
           std::uint64_t skip = 0) {
  const Batch batch(test::all_digits(), first, count, sessions, learners, skip);
  pair.both([&](test::LearningRun& run) { batch.train(run, count); });
}

class MixedLearning : public ::testing::TestWithParam<std::tuple<Rule, Schedule>> {
 protected:
  void SetUp() override { need_device(); }
};

TEST_P(MixedLearning, WithTheMiddleLayerOnTheHostEndsWhereTheCpuDoes) {
  const auto [rule, schedule] = GetParam();
  Pair pair(placed(3, {kMiddle}), with_defaults({.rule = rule, .schedule = schedule}));
  train(pair, 0, 45);
  pair.expect_equal("on the way");
  train(pair, 45, 15);
  pair.both([](test::LearningRun& run) { test::must(run.learner->drain()); });
  pair.expect_equal("drained");
  EXPECT_EQ(pair.gpu().learner->scores().size(), 60u);
  expect_mixed(pair);
}

TEST_P(MixedLearning, WithTheOutputOnTheHostAndSamplesWithoutLabels) {
  const auto [rule, schedule] = GetParam();
  LearningOptions options;
  options.rule = rule;
  options.schedule = schedule;
  options.learners = 2;
  Pair pair(placed(5, {kOutput, kFirst}), with_defaults(options), 3);
  std::uint64_t first = 0;
  for (const std::uint64_t count : {1, 2, 7, 20}) {
    train(pair, first, count, 3, 2, 5);
    first += count;
  }
  pair.both([](test::LearningRun& run) { test::must(run.learner->drain()); });
  pair.expect_equal("drained");
  expect_mixed(pair);
}

INSTANTIATE_TEST_SUITE_P(Rules, MixedLearning,
                         ::testing::Combine(::testing::Values(Rule::backprop, Rule::fw_dtp, Rule::dfa, Rule::gap,
                                                              Rule::chain),
                                            ::testing::Values(Schedule::settle, Schedule::pipelined)),
                         [](const auto& row) {
                           return std::string(name(std::get<0>(row.param))) + "_" +
                                  std::string(name(std::get<1>(row.param)));
                         });

class MixedRunTest : public ::testing::Test {
 protected:
  void SetUp() override { need_device(); }
};

TEST_F(MixedRunTest, MovesWeightsOfBothSidesByEachOptimizer) {
  for (const test::UpdateCase& each : test::update_cases())
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      if (!each.takes(schedule)) continue;
      SCOPED_TRACE(each.name + ", " + std::string(name(schedule)));
      Pair pair(placed(9, {kFirst, kBack}), each.options(Rule::backprop, schedule));
      train(pair, 100, 25);
      pair.expect_equal("trained");
      expect_mixed(pair);
    }
}

TEST_F(MixedRunTest, TheDeviceHasNoRoomForWhatTheHostLearns) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    std::uint64_t bytes[2];
    for (const bool is_mixed : {false, true}) {
      const mesh::NetworkSpec spec = is_mixed ? placed(9, {kFirst}) : test::digits_network(9);
      Pair pair(spec, with_defaults({.rule = Rule::backprop, .schedule = schedule}));
      train(pair, 0, 10);
      pair.expect_equal("trained");
      bytes[is_mixed] = pair.statistics().device_bytes;
    }
    // Weights, gradients and velocities of 64 x (64 + 64) inputs: half of it is enough to tell.
    EXPECT_LT(bytes[1] + 3 * 64 * 64 * sizeof(float), bytes[0]) << name(schedule);
  }
}

TEST_F(MixedRunTest, KeepsStoredTypesWhereverTheyAre) {
  for (const Coord& at : {kFirst, kMiddle}) {
    mesh::NetworkSpec spec = placed(3, {at});
    spec.layers[0].dtype = Dtype::int8;
    spec.layers[1].dtype = Dtype::fp8_e4m3;
    for (mesh::LayerSpec& layer : spec.layers) layer.quantization_aware = layer.dtype != Dtype::float32;
    Pair pair(spec, with_defaults({.rule = Rule::backprop, .schedule = Schedule::settle}));
    train(pair, 0, 20);
    pair.expect_equal(to_string(at));
    expect_mixed(pair);
  }
}

TEST_F(MixedRunTest, LearnsOneOfEverything) {
  for (const std::uint32_t colour : {0u, 1u})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      SCOPED_TRACE(std::to_string(colour) + ", " + std::string(name(schedule)));
      mesh::NetworkSpec spec = colour ? test::recurrent_network(4) : test::mixed_network(4);
      for (mesh::LayerSpec& layer : spec.layers)
        if ((layer.at.z + layer.at.y + layer.at.x) % 2 == colour) layer.device = Placement::cpu;
      Pair pair(spec, with_defaults({.rule = Rule::backprop, .schedule = schedule}), 2);
      const test::Samples samples(16, 2, 3);
      pair.both([&](test::LearningRun& run) {
        const mesh::RunInput inputs[] = {{"a", samples.a}, {"b", samples.b}};
        const Target targets[] = {{"left", samples.left, {}}, {"right", samples.right, {}}};
        test::must(run.learner->learn(inputs, targets, samples.count));
      });
      pair.expect_equal("trained");
      expect_mixed(pair);
    }
}

TEST_F(MixedRunTest, SharersOfWeightsLearnTogetherOnTheHost) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    mesh::LayerSpec shared;
    shared.type = "shared";
    shared.at = {0, 0, 1, 0};
    const mesh::NetworkSpec spec = mesh::NetworkBuilder("shared", GridShape{1, 2, 2, 1})
                                       .input("pixels", 64)
                                       .dense({0, 0, 0, 0}, 24, kernels::Activation::tanh)
                                       .dense({0, 0, 1, 0}, 24, kernels::Activation::tanh)
                                       .placement(Placement::cpu)
                                       .layer({0, 1, 0, 0}, "sequential")
                                       .inside({shared})
                                       .dense({0, 1, 1, 0}, 10)
                                       .output("digit", {0, 1, 1, 0})
                                       .seed(5)
                                       .spec();
    Pair pair(spec, with_defaults({.rule = Rule::backprop, .schedule = schedule}));
    train(pair, 0, 25);
    pair.expect_equal(std::string(name(schedule)));
    expect_mixed(pair);
    EXPECT_EQ(pair.statistics().host_cells, 2u);
  }
}

TEST_F(MixedRunTest, GoesBackToASavedStateWhileTheDeviceIsAhead) {
  Pair pair(placed(3, {kMiddle}), with_defaults({.rule = Rule::fw_dtp, .schedule = Schedule::pipelined}));
  train(pair, 0, 20);
  mesh::Snapshot saved[2];
  pair.cpu().mesh->take_snapshot(saved[0]);
  pair.gpu().mesh->take_snapshot(saved[1]);
  train(pair, 20, 15);
  const Hash128 after = pair.gpu().mesh->state_hash();
  train(pair, 35, 5);
  test::must(pair.cpu().mesh->restore_snapshot(saved[0]));
  test::must(pair.gpu().mesh->restore_snapshot(saved[1]));
  train(pair, 20, 15);
  EXPECT_EQ(pair.gpu().mesh->state_hash(), after);
  pair.expect_equal("again");
}

TEST_F(MixedRunTest, FaultsOfEitherSideEndAsOnTheCpu) {
  for (const auto policy : {actors::Policy::halt, actors::Policy::hold, actors::Policy::restart})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
      for (const bool is_on_host : {false, true}) {
        SCOPED_TRACE(std::string(name(policy)) + ", " + std::string(name(schedule)) + (is_on_host ? ", host" : ""));
        mesh::NetworkSpec spec = is_on_host ? placed(3, {kOutput}) : placed(3, {kMiddle});
        spec.supervision = {policy, 3, 50, actors::Policy::isolate};
        Pair pair(spec, with_defaults({.rule = Rule::backprop, .schedule = schedule}));
        test::run_through_a_fault(pair, kOutput, {12, 10, 4});
      }
}

TEST_F(MixedRunTest, AFaultLongAfterBothAgreedTakesBackWhatSamplesUnderWayRead) {
  for (const bool is_on_host : {false, true})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      SCOPED_TRACE(std::string(name(schedule)) + (is_on_host ? ", host" : ", device"));
      mesh::NetworkSpec spec = is_on_host ? placed(3, {kFirst}) : placed(3, {kMiddle, kOutput});
      spec.layers[0].from = {"pixels"};  // its past inputs are the port's
      spec.layers[0].options.insert_or_assign("activation", std::string("linear"));
      spec.supervision = {actors::Policy::hold, 3, 50, actors::Policy::isolate};
      Pair pair(spec, with_defaults({.rule = Rule::backprop, .schedule = schedule}));
      train(pair, 0, 12);
      pair.expect_equal("before");
      Batch batch(test::all_digits(), 12, 40);
      std::fill_n(batch.pixels.begin() + 36 * 64, 64, 3e38f);  // their sums are infinite
      pair.both([&](test::LearningRun& run) { batch.train(run, 40); });
      pair.expect_equal("after");
      EXPECT_GT(pair.cpu().mesh->supervisor().events().appended(), 0u);
      EXPECT_GT(pair.statistics().replays, 0u);
    }
}

}  // namespace
}  // namespace weft::learning::mixed_learning_test
