// SPDX-License-Identifier: Apache-2.0
// Learning on a device, of all cells or beside the host: the state and every score that the CPU has, to the bit.
// Skipped (77) where there is no Vulkan device; WEFT_TEST_DEVICE names one.

#include "learning/learner_snapshot.hpp"
#include "learning/optimizer.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/weights/weight_store.hpp"

#include <gtest/gtest.h>

#include "cases.hpp"
#include "device_pair.hpp"
#include "tests/mesh/raw_layer.hpp"
#include "tests/thorough.hpp"
#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

namespace weft::learning::device_learning_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using kernels::Activation;
using mesh::Placement;

constexpr Coord kFirst{0, 0, 0, 0}, kMiddle{0, 0, 1, 0}, kOutput{0, 1, 0, 0};

/// The digits' network 64-64-64-10 with a cell that feeds back, some of its cells on the host.
mesh::NetworkSpec placed(std::uint64_t seed, const std::vector<Coord>& on_host) {
  mesh::NetworkSpec spec = digits_network(seed);
  for (mesh::LayerSpec& layer : spec.layers)
    if (std::find(on_host.begin(), on_host.end(), layer.at) != on_host.end()) layer.device = Placement::cpu;
  return spec;
}

/// A cell of a registered type, which the host keeps, between two others; its reader feeds back.
mesh::NetworkSpec registered() {
  register_raw();
  return mesh::NetworkBuilder("registered", GridShape{1, 2, 2, 1})
      .input("pixels", 64)
      .dense({0, 0, 0, 0}, 24, Activation::tanh)
      .from({"pixels", Coord{0, 1, 1, 0}})
      .layer({0, 0, 1, 0}, "raw")
      .dense({0, 1, 0, 0}, 10)
      .dense({0, 1, 1, 0}, 16, Activation::tanh)
      .from({Coord{0, 0, 1, 0}})
      .output("digit", {0, 1, 0, 0})
      .seed(12)
      .spec();
}

struct Placed : Case {
  bool is_mixed = false;
};

/// Cases in turns: of the rules' a sixteenth on a device with this slice (WEFT_TEST_SLICE) and as many beside the host,
/// or each on both if all are wanted; of the others a thirty-second, on one or the other. And layers of a registered
/// type, a third.
std::vector<Placed> placed_cases() {
  constexpr std::size_t kSlices = 32, kTurns = 16;
  std::vector<Placed> all;
  std::size_t whole = test_slice(kSlices), chosen = whole, other = 0;
  for (Case& row : cases()) {
    if (row.is_on_cpu) continue;
    if (!row.is_whole && other++ % kSlices != test_slice(kSlices) && !is_thorough()) continue;
    row.options.learners = 2;
    if (row.is_mixed) {
      all.push_back({row, true});
      continue;
    }
    const std::size_t number = ++(row.is_whole ? whole : chosen), turn = number % kTurns;
    const bool takes_both = row.is_whole && is_thorough();
    const bool is_alone = row.is_whole ? turn == 1 : turn % 2 == 1;
    const bool is_beside = row.is_whole ? turn == 2 : turn % 2 == 0;
    if (is_alone || takes_both) all.push_back({row, false});
    if (!is_beside && !takes_both) continue;
    row.spec = checkered(row.spec, number / kTurns % 2);
    row.name += "_mixed";
    all.push_back({row, true});
  }
  std::vector<Placed> beside;
  for (const Rule rule : {Rule::backprop, Rule::chain, Rule::gap})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      Placed row{{std::string(name(rule)) + "_" + std::string(name(schedule)) + "_registered", registered()}, true};
      row.options = {.rule = rule, .schedule = schedule, .learners = 2};
      beside.push_back(row);
    }
  for (Placed& row : in_slice(beside, 3)) all.push_back(std::move(row));
  return all;
}

class DeviceLearning : public ::testing::TestWithParam<Placed> {
 protected:
  void SetUp() override { need_device(); }
};

TEST_P(DeviceLearning, EndsWhereTheCpuDoesWithTheSameScores) {
  Pair pair(GetParam().spec, GetParam().options, 3, 40);
  for (const std::uint64_t count : {1, 2, 7}) pair.train(count);
  pair.expect_equal("on the way");
  pair.train(12);
  pair.go_back_and_train(18);
  pair.drain();
  pair.expect_equal("drained");
  EXPECT_GE(pair.gpu().learner->scores().size(), 80u);
  if (GetParam().acts)
    EXPECT_EQ(pair.statistics().replays, 0u);
  else if (GetParam().is_mixed)
    pair.expect_mixed();
  else
    pair.expect_on_device();
}

INSTANTIATE_TEST_SUITE_P(Of, DeviceLearning, ::testing::ValuesIn(placed_cases()),
                         [](const auto& row) { return row.param.name; });

class DeviceUpdateCount : public ::testing::TestWithParam<std::tuple<OptimizerKind, bool>> {
 protected:
  void SetUp() override { need_device(); }
};

// A layer whose targets point away from what it gave does not move, which the device finds out by itself: it counts for
// each layer.
TEST_P(DeviceUpdateCount, IsRightForLayersThatSometimesDoNotMove) {
  LearningOptions options{.rule = Rule::fw_dtp, .schedule = Schedule::pipelined};
  options.optimizer.kind = std::get<0>(GetParam());
  if (std::get<1>(GetParam())) options.rate_schedule = {RateScheduleKind::cosine, 10, 150};
  // Displacements as long as they come: at the limit of the rule a target is seldom on the far side of the origin.
  options.output_step = 40.0f;
  options.displacement_limit = options.step_limit = 1e20f;
  // Three values often point away from their target.
  const mesh::NetworkSpec narrow = mesh::NetworkBuilder("narrow", GridShape{1, 1, 3, 1})
                                       .input("pixels", 64)
                                       .dense({0, 0, 0, 0}, 3, Activation::tanh)
                                       .dense({0, 0, 1, 0}, 3, Activation::tanh)
                                       .dense({0, 0, 2, 0}, 10)
                                       .output("digit", {0, 0, 2, 0})
                                       .seed(9)
                                       .spec();
  Pair pair(narrow, options, 1, 192);
  for (int batch = 0; batch < 2; ++batch) pair.train(64);
  const auto updates = std::as_const(*pair.cpu().learner).optimizer().updates();
  EXPECT_TRUE(std::any_of(updates.begin(), updates.end(), [](std::uint64_t n) { return n > 0 && n < 100; }));
  pair.expect_equal("trained");
  pair.train(64);
  pair.expect_equal("trained on");
  pair.expect_on_device();
}

// Behind hidden state a layer has several errors in one update, and moves where one of them teaches something.
TEST_P(DeviceUpdateCount, IsRightForLayersWithSeveralErrorsInAnUpdate) {
  const mesh::NetworkSpec narrow = mesh::NetworkBuilder("narrow", GridShape{1, 1, 4, 1})
                                       .input("pixels", 64)
                                       .dense({0, 0, 0, 0}, 2, Activation::tanh)
                                       .layer({0, 0, 1, 0}, "leaky_integrator")
                                       .dense({0, 0, 2, 0}, 2, Activation::tanh)
                                       .dense({0, 0, 3, 0}, 10)
                                       .output("digit", {0, 0, 3, 0})
                                       .seed(9)
                                       .spec();
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    LearningOptions options{.rule = Rule::fw_dtp, .schedule = schedule, .horizon = 6};
    options.optimizer.kind = std::get<0>(GetParam());
    if (std::get<1>(GetParam())) options.rate_schedule = {RateScheduleKind::cosine, 10, 100};
    options.output_step = 40.0f;
    options.displacement_limit = options.step_limit = 1e20f;
    Pair pair(narrow, options, 1, 128);
    pair.train(64);
    pair.expect_equal("trained");
    pair.train(64);
    pair.expect_equal("trained on");
    const std::uint64_t updates = std::as_const(*pair.cpu().learner).optimizer().updates()[1];
    EXPECT_GT(updates, 20u);
    EXPECT_LT(updates, 128u);
    pair.expect_on_device();
  }
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
    for (const Schedule schedule : in_slice<Schedule>({Schedule::settle, Schedule::pipelined}, 2)) {
      SCOPED_TRACE(std::string(name(rule)) + ", " + std::string(name(schedule)));
      LearningOptions options{.rule = rule, .schedule = schedule};
      options.optimizer.kind = kind;
      Pair pair(digits_network(9), options, 1, 128);
      pair.label_all();
      for (int batch = 0; batch < 2; ++batch) pair.train(32);
      const std::uint64_t graphs = pair.statistics().graphs;
      for (int batch = 0; batch < 2; ++batch) pair.train(32);
      EXPECT_EQ(pair.statistics().graphs, graphs);
      pair.expect_equal("trained");
      pair.expect_on_device();
    }
}

// More steps than are recorded together: layers with a loss of their own look at labels of samples that are on their
// way to the outputs when such a block ends.
TEST_F(DeviceRunTest, HasLabelsOfSamplesThatAreUnderWayWhenABlockEnds) {
  Pair pair(digits_network(9), {.rule = Rule::local_ce, .schedule = Schedule::pipelined}, 2, 150);
  pair.train(140);
  pair.expect_equal("trained");
  pair.train(10);
  pair.drain();
  pair.expect_equal("drained");
  pair.expect_on_device();
}

// Inputs of megabytes reach the device in parts of a block of steps, each with a program of its own: the first block
// begins before samples reach the output, so its parts stand elsewhere in the window of samples than later ones'.
TEST_F(DeviceRunTest, IsFedWideInputsInParts) {
  constexpr std::size_t kSessions = 64, kSteps = 16;
  const mesh::NetworkSpec wide = mesh::NetworkBuilder("wide", GridShape{1, 1, 2, 1})
                                     .input("pixels", 8192)
                                     .dense({0, 0, 0, 0}, 1, Activation::tanh)
                                     .dense({0, 0, 1, 0}, 3)
                                     .output("digit", {0, 0, 1, 0})
                                     .seed(9)
                                     .spec();
  Pair pair(wide, {.rule = Rule::backprop, .schedule = Schedule::pipelined, .learners = kSessions}, kSessions,
            3 * kSteps);
  pair.label_all();
  for (int batch = 0; batch < 3; ++batch) pair.train(kSteps);
  EXPECT_GT(pair.statistics().graphs, 3u);
  pair.expect_equal("trained");
  pair.expect_on_device();
}

/// Words of what is under way in a learner, as its file has them.
std::vector<std::uint32_t> flight_of(Learner& learner) {
  const LearnerSnapshot blobs(learner);
  const ByteSpan bytes = blobs.tensors().back().bytes;
  std::vector<std::uint32_t> words(bytes.size() / sizeof(std::uint32_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

TEST_F(DeviceRunTest, GivesOutWhatIsUnderWayAndTakesItBack) {
  Pair pair(digits_network(3), {.rule = Rule::backprop, .schedule = Schedule::pipelined}, 1, 120);
  pair.train(40);
  EXPECT_EQ(flight_of(*pair.gpu().learner), flight_of(*pair.cpu().learner));
  pair.train(40);
  const Optimizer &there = pair.gpu().learner->optimizer(), &here = pair.cpu().learner->optimizer();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(there.slot(0, i)[0], here.slot(0, i)[0]) << i;
  // Values written there count from the next sample on.
  pair.both([](LearningRun& run) { run.learner->optimizer().slot(0, 2)[5] = 0.25f; });
  pair.train(40);
  pair.expect_equal("with another velocity");
}

TEST_F(DeviceRunTest, FaultsOfEitherSideEndAsOnTheCpu) {
  for (const auto policy :
       {actors::Policy::halt, actors::Policy::hold, actors::Policy::restart, actors::Policy::isolate})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
      for (const std::vector<Coord>& on_host : std::vector<std::vector<Coord>>{{}, {kOutput}, {kMiddle}}) {
        SCOPED_TRACE(std::string(name(policy)) + ", " + std::string(name(schedule)));
        mesh::NetworkSpec spec = placed(3, on_host);
        spec.supervision = {policy, 3, 50, actors::Policy::isolate};
        Pair pair(spec, {.rule = Rule::backprop, .schedule = schedule});
        pair.run_through_a_fault(kOutput, {30, 20, 5});
      }
}

TEST_F(DeviceRunTest, AFaultLongAfterBothAgreedTakesBackWhatSamplesUnderWayRead) {
  for (const bool is_on_host : {false, true})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      SCOPED_TRACE(std::string(name(schedule)) + (is_on_host ? ", host" : ", device"));
      mesh::NetworkSpec spec = is_on_host ? placed(3, {kFirst}) : placed(3, {kMiddle, kOutput});
      spec.layers[0].from = {"pixels"};  // its past inputs are the port's
      spec.layers[0].options.insert_or_assign("activation", std::string("linear"));
      spec.supervision = {actors::Policy::hold, 3, 50, actors::Policy::isolate};
      Pair pair(spec, {.rule = Rule::backprop, .schedule = schedule});
      pair.train(12);
      pair.expect_equal("before");
      std::fill_n(pair.data.inputs[0].values.begin() + 48 * 64, 64, 3e38f);  // their sums are infinite
      pair.train(40);
      pair.expect_equal("after");
      EXPECT_GT(pair.cpu().mesh->supervisor().events().appended(), 0u);
      EXPECT_GT(pair.statistics().replays, 0u);
    }
}

// An expert whose values pass float32's range, and which no sample chooses: where it is not computed, its gradients are
// not NaN.
TEST_F(DeviceRunTest, LeavesOutExpertsThatNobodyChose) {
  const mesh::NetworkSpec spec = must(mesh::read_network(R"({"weft": 2, "seed": 3, "inputs": {"pixels": [64]},
      "chain": [{"type": "parallel", "merge": "filter", "gate": "first", "top_k": 2, "layers": [
        {"type": "dense", "out": 3}, {"type": "dense", "out": 10},
        {"type": "sequential", "layers": [{"type": "dense", "out": 8}, {"type": "dense", "out": 10}]},
        {"type": "sequential", "layers": [{"type": "swiglu", "out": 8, "hidden": 5}, {"type": "dense", "out": 10}]}]},
        {"type": "dense", "out": 10}]})",
                                                         "experts"));
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    LearningOptions options{.rule = Rule::backprop, .schedule = schedule};
    options.optimizer.lr = 1e-3f;
    Pair pair(spec, options, 2);
    pair.both([](LearningRun& run) {
      mesh::WeightStore& weights = mesh::MeshAccess::weights(*run.mesh);
      const auto write = [&](const std::string& name, std::vector<float> values) {
        for (auto& each : weights.parameters()) {
          if (each.spec->name.rfind(name, 0) != 0) continue;
          values.resize(each.spec->out * std::max<std::size_t>(each.spec->in, 1), values.back());
          must(weights.write(each, values, "test"));
        }
      };
      write("layers[0].weight", {0.0f});
      write("layers[0].bias", {5.0f, 4.0f, -1000.0f});
      write("layers[3].layers[0].", {3e38f});
    });
    pair.train(20);
    pair.expect_equal("trained");
    EXPECT_EQ(pair.cpu().mesh->supervisor().events().appended(), 0u);
    if (mesh::testing_support::open_device(mesh::testing_support::device_options())->info().conditional_dispatches)
      pair.expect_on_device();
  }
}

TEST_F(DeviceRunTest, ARuleIsTakenOffAndPutOnWhileTheDeviceIsAhead) {
  const auto options = with_defaults({.rule = Rule::chain, .schedule = Schedule::pipelined});
  Pair pair(digits_network(3), options);
  pair.train(20);
  pair.both([&](LearningRun& run) {
    run.learner.reset();
    must(run.mesh->set_input("pixels", noise(64, 3)));
    must(run.mesh->tick(9));
  });
  EXPECT_EQ(pair.gpu().hash(), pair.cpu().hash());
  pair.both([&](LearningRun& run) {
    must(run.mesh->tick(3));
    run.learner = must(Learner::build(*run.mesh, options));
  });
  pair.train(20);
  pair.expect_equal("with a new rule");
}

TEST_F(DeviceRunTest, HasNoRoomForWhatTheHostLearns) {
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    std::uint64_t bytes[2];
    for (const bool is_mixed : {false, true}) {
      Pair pair(is_mixed ? placed(9, {kFirst}) : digits_network(9), {.rule = Rule::backprop, .schedule = schedule});
      pair.train(10);
      pair.expect_equal("trained");
      bytes[is_mixed] = pair.statistics().device_bytes;
    }
    // Weights, gradients and velocities of 64 x (64 + 64) inputs: half of it is enough to tell.
    EXPECT_LT(bytes[1] + 3 * 64 * 64 * sizeof(float), bytes[0]) << name(schedule);
  }
}

}  // namespace
}  // namespace weft::learning::device_learning_test
