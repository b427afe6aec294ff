// SPDX-License-Identifier: Apache-2.0
// A device that fails while a mesh learns on it, at each call at which it can: scores, updates and hashes stay the
// CPU's. Skipped (77) where there is no Vulkan device; WEFT_TEST_DEVICE names one.

#include "mesh/device/device_recovery.hpp"

#include "device_pair.hpp"
#include "tests/mesh/faulty_device.hpp"
#include <string>
#include <tuple>
#include <vector>

namespace weft::learning::device_faults_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

mesh::NetworkSpec small_network() {
  return mesh::NetworkBuilder("small", {1, 1, 3, 1})
      .input("x", 4)
      .dense({0, 0, 0, 0}, 6, kernels::Activation::tanh)
      .from({"x", Coord{0, 0, 1, 0}})
      .dense({0, 0, 1, 0}, 5, kernels::Activation::tanh)
      .dense({0, 0, 2, 0}, 3)
      .output("y", {0, 0, 2, 0})
      .seed(5)
      .spec();
}

/// A run of batches whose samples go on.
struct FaultyRun : LearningRun {
  FaultyRun(const LearningOptions& options, const std::string& where, std::uint64_t samples = 30)
      : LearningRun(small_network(), options, shape_on(where, 2)), data(small_network(), options, samples, 2) {}
  void train(std::uint64_t count) {
    data.train(*learner, trained, count);
    trained += count;
  }
  mesh::DeviceStatistics statistics() const {
    return mesh->device_statistics() ? *mesh->device_statistics() : mesh::DeviceStatistics();
  }
  Samples data;
  std::uint64_t trained = 0;
};

LearningOptions learning_by(Rule rule, Schedule schedule) {
  LearningOptions options;
  options.rule = rule;
  options.schedule = schedule;
  options.optimizer.kind = OptimizerKind::momentum;
  return with_defaults(options);
}

/// One of them a run, in turn.
std::vector<std::pair<Rule, Schedule>> rules_in_turn() {
  return in_slice<std::pair<Rule, Schedule>>(
      {{Rule::backprop, Schedule::pipelined}, {Rule::fw_dtp, Schedule::settle}, {Rule::gap, Schedule::pipelined}}, 3);
}

using Row = std::tuple<std::pair<Rule, Schedule>, DriverFault>;
class EachFault : public FaultsTest, public ::testing::WithParamInterface<Row> {};

TEST_P(EachFault, WheneverItHappensLosesNothingThatWasLearned) {
  const auto [what, fault] = GetParam();
  if (fault == DriverFault::validation_error && !faulty().validates()) GTEST_SKIP() << "no validation layers";
  const LearningOptions options = learning_by(what.first, what.second);
  // A lost device is opened again, which takes a second on a CPU; the others strike in the same places.
  const bool is_slow = fault == DriverFault::lost_at_submit || fault == DriverFault::lost_at_wait;
  const auto run_on = [&](const std::string& where) {
    FaultyRun run(options, where);
    run.train(3);
    run.train(1);
    std::string all = run.told();
    run.train(9);
    mesh::Snapshot saved;
    run.mesh->take_snapshot(saved);
    run.train(2);
    run.store().parameters()[1].data[0] += 0.25f;
    run.train(4);
    all += run.told();
    must(run.mesh->restore_snapshot(saved));
    run.train(5);
    must(run.learner->drain());
    all += run.told();
    const Outcome outcome{all, run.statistics()};
    plan().clear();  // its end is no part of its run
    return outcome;
  };
  const int stride = is_thorough() ? (is_slow ? 2 : 1) : (is_slow ? 29 : 13);
  const int runs = expect_nothing_lost(fault, run_on, false, stride);
  std::printf("%d runs with a fault\n", runs);
  EXPECT_GT(runs, is_thorough() ? 5 : 1);
}

INSTANTIATE_TEST_SUITE_P(Rules, EachFault,
                         ::testing::Combine(::testing::ValuesIn(rules_in_turn()),
                                            ::testing::ValuesIn(in_slice<DriverFault>(
                                                {DriverFault::no_room, DriverFault::lost_at_submit,
                                                 DriverFault::no_commands, DriverFault::validation_error,
                                                 DriverFault::lost_at_wait},
                                                2))),
                         [](const auto& row) {
                           return std::string(name(std::get<0>(row.param).first)) + "_" +
                                  mesh::testing_support::name(std::get<1>(row.param));
                         });

class LearningFaultsTest : public FaultsTest {};

TEST_F(LearningFaultsTest, ALongRunGoesOnFromTheLastDownload) {
  // Every 1,024 steps the host gets what the device holds: weights and the optimiser's memory too.
  for (const Rule rule : in_slice<Rule>({Rule::backprop, Rule::fw_dtp}, 2))
    for (const int n : {0, 5}) {
      if (!is_thorough() && (n == 0) != (rule == Rule::backprop)) continue;
      SCOPED_TRACE(std::string(name(rule)) + ", " + std::to_string(n));
      faulty().open();
      const LearningOptions options = learning_by(rule, Schedule::pipelined);
      FaultyRun cpu(options, "cpu", 6000), gpu(options, device_name(), 6000);
      const auto train = [&](std::uint64_t count) {
        cpu.train(count);
        gpu.train(count);
      };
      train(1030);
      train(1100);
      EXPECT_GE(gpu.statistics().downloads, 2u);
      EXPECT_EQ(gpu.statistics().replays, 0u);
      train(7);
      plan().fail(DriverFault::lost_at_submit, static_cast<std::uint64_t>(n));
      train(40);
      train(1030);
      EXPECT_EQ(gpu.statistics().faults, 1u);
      EXPECT_EQ(gpu.told(), cpu.told());
    }
}

TEST_F(LearningFaultsTest, GoesBackToTheDeviceWhereABatchBegins) {
  const LearningOptions options = learning_by(Rule::backprop, Schedule::pipelined);
  FaultyRun cpu(options, "cpu", 6000), gpu(options, device_name(), 6000);
  const auto train = [&](std::uint64_t count) {
    cpu.train(count);
    gpu.train(count);
  };
  train(5);
  plan().fail(DriverFault::lost_at_wait, 0);
  train(5);
  EXPECT_EQ(gpu.statistics().faults, 1u);
  train(mesh::DeviceRecovery::kFirstWait);
  EXPECT_EQ(gpu.statistics().restarts, 0u);
  const std::uint64_t before = gpu.statistics().device_steps, host = gpu.statistics().host_steps;
  train(20);
  EXPECT_EQ(gpu.statistics().restarts, 1u);
  EXPECT_EQ(gpu.statistics().device_steps, before + 20);
  EXPECT_EQ(gpu.statistics().host_steps, host);
  EXPECT_EQ(gpu.told(), cpu.told());
}

}  // namespace
}  // namespace weft::learning::device_faults_test
