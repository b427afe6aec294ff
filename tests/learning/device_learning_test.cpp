// SPDX-License-Identifier: Apache-2.0
// Learning on a device: the state and every score that the CPU has, to the bit. Skipped (77) where there is no Vulkan
// device; WEFT_TEST_DEVICE names one.

#include "learning/learner_snapshot.hpp"
#include "learning/optimizer.hpp"

#include "mesh/persistence/snapshot.hpp"

#include <gtest/gtest.h>

#include "device_pair.hpp"
#include "lossy_networks.hpp"
#include "update_cases.hpp"
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::learning::device_learning_test {
namespace {

/// Words of what is under way in a learner, as its file has them.
std::vector<std::uint32_t> flight_of(Learner& learner) {
  const LearnerSnapshot blobs(learner);
  const ByteSpan bytes = blobs.tensors().back().bytes;
  std::vector<std::uint32_t> words(bytes.size() / sizeof(std::uint32_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

using mesh::testing_support::must;
using mesh::testing_support::need_device;
using mesh::testing_support::noise;
using test::Batch;
using test::LearningRun;
using test::Pair;

// A sanitizer looks for other things and is ten times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSamples = 40;
#else
constexpr std::uint64_t kSamples = 500;
#endif

class DeviceLearning : public ::testing::TestWithParam<std::tuple<Rule, Schedule>> {
 protected:
  void SetUp() override { need_device(); }
};

TEST_P(DeviceLearning, OfTheDigitsEndsWhereTheCpusDoesWithTheSameScores) {
  const auto [rule, schedule] = GetParam();
  LearningOptions options;
  options.rule = rule;
  options.schedule = schedule;
  Pair pair(test::digits_network(3), with_defaults(options));
  const Batch batch(test::all_digits(), 0, kSamples);
  pair.both([&](LearningRun& run) { batch.train(run, kSamples); });
  pair.expect_equal("undrained");
  pair.both([](LearningRun& run) { must(run.learner->drain()); });
  pair.expect_equal("drained");
  EXPECT_EQ(pair.gpu().learner->scores().size(), kSamples);
  pair.expect_on_device();
}

TEST_P(DeviceLearning, InBatchesOfManySizesWithUnlabelledSamplesBetween) {
  const auto [rule, schedule] = GetParam();
  LearningOptions options;
  options.rule = rule;
  options.schedule = schedule;
  options.learners = 2;
  Pair pair(test::digits_network(5), with_defaults(options), 3);
  std::uint64_t first = 0;
  for (const std::uint64_t count : {1, 2, 7, 40, 3}) {
    const Batch batch(test::all_digits(), first, count, 3, 2, 5);
    pair.both([&](LearningRun& run) { batch.train(run, count); });
    first += count;
    if (count == 7) pair.expect_equal("on the way");
  }
  pair.both([](LearningRun& run) { must(run.learner->drain()); });
  pair.expect_equal("drained");
  pair.expect_on_device();
  // And once more after it stood still.
  const Batch batch(test::all_digits(), first, 9, 3, 2);
  pair.both([&](LearningRun& run) { batch.train(run, 9); });
  pair.expect_equal("again");
}

INSTANTIATE_TEST_SUITE_P(Rules, DeviceLearning,
                         ::testing::Combine(::testing::Values(Rule::backprop, Rule::fw_dtp, Rule::dfa, Rule::gap,
                                                              Rule::chain),
                                            ::testing::Values(Schedule::settle, Schedule::pipelined)),
                         [](const auto& row) {
                           return std::string(name(std::get<0>(row.param))) + "_" +
                                  std::string(name(std::get<1>(row.param)));
                         });

class DeviceOptimizer : public ::testing::TestWithParam<test::UpdateCase> {
 protected:
  void SetUp() override { need_device(); }
};

TEST_P(DeviceOptimizer, MovesWeightsAsOnTheCpu) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    if (!GetParam().takes(schedule)) continue;
    mesh::NetworkSpec spec = test::digits_network(9);
    spec.layers[1].rate_scale = 0.5f;
    Pair pair(spec, GetParam().options(Rule::backprop, schedule));
    const Batch batch(test::all_digits(), 100, 60);
    pair.both([&](LearningRun& run) { batch.train(run, 60); });
    pair.expect_equal(std::string(name(schedule)));
    pair.expect_on_device();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceOptimizer, ::testing::ValuesIn(test::update_cases()),
                         [](const auto& row) { return row.param.name; });

class DeviceUpdateCount : public ::testing::TestWithParam<std::tuple<OptimizerKind, bool>> {
 protected:
  void SetUp() override { need_device(); }
};

// A layer whose targets are too far off does not move, which the device finds out by itself: it counts for each layer.
TEST_P(DeviceUpdateCount, IsRightForLayersThatSometimesDoNotMove) {
  LearningOptions options{.rule = Rule::fw_dtp, .schedule = Schedule::pipelined};
  options.optimizer.kind = std::get<0>(GetParam());
  if (std::get<1>(GetParam())) options.rate_schedule = {RateScheduleKind::cosine, 10, 150};
  options.output_step = 40.0f;
  // Three values often point away from their target.
  const mesh::NetworkSpec narrow = mesh::NetworkBuilder("narrow", GridShape{1, 1, 3, 1})
                                       .input("pixels", 64)
                                       .dense({0, 0, 0, 0}, 3, kernels::Activation::tanh)
                                       .dense({0, 0, 1, 0}, 3, kernels::Activation::tanh)
                                       .dense({0, 0, 2, 0}, 10)
                                       .output("digit", {0, 0, 2, 0})
                                       .seed(9)
                                       .spec();
  Pair pair(narrow, with_defaults(options));
  const auto train = [&](std::uint64_t first) {
    const Batch batch(test::all_digits(), first, 64);
    pair.both([&](LearningRun& run) { batch.train(run, 64); });
  };
  train(0);
  train(64);
  const auto updates = std::as_const(*pair.cpu().learner).optimizer().updates();
  EXPECT_TRUE(std::any_of(updates.begin(), updates.end(), [](std::uint64_t n) { return n > 0 && n < 100; }));
  pair.expect_equal("trained");
  train(128);
  pair.expect_equal("trained on");
  pair.expect_on_device();
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceUpdateCount,
                         ::testing::Combine(::testing::Values(OptimizerKind::sgd, OptimizerKind::momentum,
                                                              OptimizerKind::adamw),
                                            ::testing::Bool()),
                         [](const auto& row) {
                           return std::string(name(std::get<0>(row.param))) +
                                  (std::get<1>(row.param) ? "_scheduled" : "");
                         });

class DeviceRunTest : public ::testing::Test {
 protected:
  void SetUp() override { need_device(); }
};

// A count of updates and a sample's label are values, no part of what is recorded.
TEST_F(DeviceRunTest, IsRecordedOnceAndRunAgain) {
  for (const auto& [rule, kind] : {std::pair{Rule::backprop, OptimizerKind::adamw}, {Rule::gap, OptimizerKind::sgd}})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      SCOPED_TRACE(std::string(name(rule)) + ", " + std::string(name(schedule)));
      LearningOptions options{.rule = rule, .schedule = schedule};
      options.optimizer.kind = kind;
      Pair pair(test::digits_network(9), with_defaults(options));
      const auto train = [&](std::uint64_t first) {
        const Batch batch(test::all_digits(), first, 32);
        pair.both([&](LearningRun& run) { batch.train(run, 32); });
      };
      train(0);
      train(32);
      const std::uint64_t programs = pair.statistics().programs;
      train(64);
      train(96);
      EXPECT_EQ(pair.statistics().programs, programs);
      pair.expect_equal("trained");
      pair.expect_on_device();
    }
}

// Inputs of megabytes reach the device in parts of a block of steps, each with a program of its own: the first block
// begins before samples reach the output, so its parts stand elsewhere in the window of samples than later ones'.
TEST_F(DeviceRunTest, IsFedWideInputsInParts) {
  constexpr std::size_t kWidth = 8192, kSessions = 64, kSteps = 24;
  const mesh::NetworkSpec wide = mesh::NetworkBuilder("wide", GridShape{1, 1, 2, 1})
                                     .input("pixels", kWidth)
                                     .dense({0, 0, 0, 0}, 3, kernels::Activation::tanh)
                                     .dense({0, 0, 1, 0}, 3)
                                     .output("digit", {0, 0, 1, 0})
                                     .seed(9)
                                     .spec();
  LearningOptions options{.rule = Rule::backprop, .schedule = Schedule::pipelined};
  options.learners = kSessions;
  Pair pair(wide, with_defaults(options), kSessions);
  for (int batch = 0; batch < 3; ++batch) {
    const std::vector<float> pixels = noise(kSteps * kSessions * kWidth, static_cast<std::uint64_t>(batch));
    std::vector<std::uint32_t> labels;
    for (std::uint32_t i = 0; i < kSteps * kSessions; ++i) labels.push_back((i / 7 + i) % 3);
    const mesh::RunInput inputs[] = {{"pixels", pixels}};
    const Target targets[] = {{"digit", labels, {}}};
    pair.both([&](LearningRun& run) { must(run.learner->learn(inputs, targets, kSteps)); });
  }
  EXPECT_GT(pair.statistics().programs, 3u);
  pair.expect_equal("trained");
  pair.expect_on_device();
}

TEST_F(DeviceRunTest, GoesBackToASavedStateWhileTheDeviceIsAhead) {
  Pair pair(test::digits_network(3), with_defaults({.rule = Rule::fw_dtp, .schedule = Schedule::pipelined}));
  const auto train = [&](std::uint64_t first, std::uint64_t count) {
    const Batch batch(test::all_digits(), first, count);
    pair.both([&](LearningRun& run) { batch.train(run, count); });
  };
  train(0, 30);
  mesh::Snapshot saved[2];
  pair.cpu().mesh->take_snapshot(saved[0]);
  pair.gpu().mesh->take_snapshot(saved[1]);
  train(30, 25);
  const Hash128 after = pair.gpu().mesh->state_hash();
  train(55, 10);
  must(pair.cpu().mesh->restore_snapshot(saved[0]));
  must(pair.gpu().mesh->restore_snapshot(saved[1]));
  train(30, 25);
  EXPECT_EQ(pair.gpu().mesh->state_hash(), after);
  pair.expect_equal("again");
}

TEST_F(DeviceRunTest, GivesOutWhatIsUnderWayAndTakesItBack) {
  const auto options = with_defaults({.rule = Rule::backprop, .schedule = Schedule::pipelined});
  Pair pair(test::digits_network(3), options);
  const Batch batch(test::all_digits(), 0, 40);
  pair.both([&](LearningRun& run) { batch.train(run, 40); });
  EXPECT_EQ(flight_of(*pair.gpu().learner), flight_of(*pair.cpu().learner));
  pair.both([&](LearningRun& run) { batch.train(run, 40); });
  const Optimizer& there = pair.gpu().learner->optimizer();
  const Optimizer& here = pair.cpu().learner->optimizer();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(there.slot(0, i)[0], here.slot(0, i)[0]) << i;
  // Values written there count from the next sample on.
  pair.both([&](LearningRun& run) {
    run.learner->optimizer().slot(0, 2)[5] = 0.25f;
    batch.train(run, 40);
  });
  pair.expect_equal("with another velocity");
}

TEST_F(DeviceRunTest, FaultsInTheMiddleEndAsOnTheCpu) {
  for (const auto policy :
       {actors::Policy::halt, actors::Policy::hold, actors::Policy::restart, actors::Policy::isolate})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      SCOPED_TRACE(std::string(name(policy)) + ", " + std::string(name(schedule)));
      mesh::NetworkSpec spec = test::digits_network(3);
      spec.supervision = {policy, 3, 50, actors::Policy::isolate};
      Pair pair(spec, with_defaults({.rule = Rule::backprop, .schedule = schedule}));
      test::run_through_a_fault(pair, {0, 1, 0, 0}, {30, 20, 5});
    }
}

TEST_F(DeviceRunTest, ARuleIsTakenOffAndPutOnWhileTheDeviceIsAhead) {
  const auto options = with_defaults({.rule = Rule::chain, .schedule = Schedule::pipelined});
  Pair pair(test::digits_network(3), options);
  const Batch batch(test::all_digits(), 0, 20);
  pair.both([&](LearningRun& run) { batch.train(run, 20); });
  pair.both([&](LearningRun& run) {
    run.learner.reset();
    must(run.mesh->set_input("pixels", noise(64, 3)));
    must(run.mesh->tick(9));
  });
  EXPECT_EQ(pair.gpu().mesh->state_hash(), pair.cpu().mesh->state_hash());
  pair.both([&](LearningRun& run) {
    must(run.mesh->tick(3));
    run.learner = must(Learner::build(*run.mesh, options));
    batch.train(run, 20);
  });
  pair.expect_equal("with a new rule");
}

TEST_F(DeviceRunTest, LearnsInAStoredTypeWhereverThatCanBeDoneAndSaysWhere) {
  mesh::NetworkSpec spec = test::digits_network(3);
  for (mesh::LayerSpec& layer : spec.layers) layer.dtype = Dtype::int8, layer.quantization_aware = true;
  Pair pair(spec, with_defaults({.rule = Rule::backprop, .schedule = Schedule::settle}));
  const Batch batch(test::all_digits(), 0, 20);
  pair.both([&](LearningRun& run) { batch.train(run, 20); });
  pair.expect_equal("int8");
  EXPECT_EQ(pair.statistics().device_steps > 0, pair.statistics().why_host.empty()) << pair.statistics().why_host;
  EXPECT_EQ(pair.statistics().host_steps > 0, !pair.statistics().why_host.empty()) << pair.statistics().why_host;
}

TEST(DeviceLosses, EachHasTheCpusStateAndScores) {
  need_device();
  for (int i = 0; i < kernels::kLossCount; ++i)
    for (const Rule rule : {Rule::backprop, Rule::gap, Rule::dfa}) {
      LearningOptions options;
      options.rule = rule;
      options.loss = static_cast<Loss>(i);
      options.delta = 0.5f;
      if (options.loss == Loss::multi_head_cross_entropy) options.heads = test::kHeads;
      options.optimizer.lr = 0.01f;
      Pair pair(test::two_layers(), with_defaults(options));
      const std::string what = std::string(name(options.loss)) + " " + std::string(name(rule));
      for (const std::uint64_t count : {1, 20, 3}) {
        const test::LossSamples given(options.loss, count, count);
        pair.both([&](LearningRun& each) { given.give_to(*each.learner, count); });
        pair.expect_equal(what);
      }
      pair.expect_on_device();
    }
}

}  // namespace
}  // namespace weft::learning::device_learning_test
