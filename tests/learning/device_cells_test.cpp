// SPDX-License-Identifier: Apache-2.0
// Learning on a device beside cells that do not fire in every tick, that watch others, or that get commands: the state
// and every score that the CPU has, to the bit. Skipped (77) where there is no Vulkan device; WEFT_TEST_DEVICE names
// one.

#include <gtest/gtest.h>

#include "device_pair.hpp"
#include "tests/thorough.hpp"
#include <string>
#include <tuple>
#include <vector>

namespace weft::learning::device_cells_test {
namespace {

using mesh::CommandKind;
using namespace mesh::testing_support;
using namespace test;

constexpr Coord kFirst{0, 0, 0, 0}, kMiddle{0, 0, 1, 0}, kOutput{0, 1, 0, 0};

void send_command(Pair& pair, Coord cell, CommandKind kind, std::uint64_t number = 0, std::uint64_t after = 0) {
  pair.both([&](LearningRun& run) {
    post(*run.mesh, cell,
         {.kind = kind,
          .not_before = after ? run.mesh->ticks() + after : 0,
          .number = number,
          .encoding = Encoding(Dtype::bfloat16)});
  });
}

class DeviceCellsLearn : public ::testing::TestWithParam<std::tuple<Rule, Schedule>> {
 protected:
  void SetUp() override { need_device(); }
  LearningOptions options() const {
    LearningOptions options;
    std::tie(options.rule, options.schedule) = GetParam();
    return with_defaults(options);
  }
};

TEST_P(DeviceCellsLearn, AndCostTheCpuTheStepsThatExecuteCommands) {
  Pair pair(digits_network(3), options());
  pair.train(9);
  EXPECT_EQ(pair.statistics().host_steps, 0u);
  send_command(pair, kMiddle, CommandKind::morph);
  pair.train(20);
  pair.expect_equal("morphed at once");
  EXPECT_EQ(pair.statistics().host_steps, 1u);
  send_command(pair, kFirst, CommandKind::reset, 0, 7);
  pair.train(20);
  pair.expect_equal("reset later");
  EXPECT_EQ(pair.statistics().host_steps, 3u);
  EXPECT_EQ(pair.statistics().replays, 0u);
}

TEST_P(DeviceCellsLearn, AlthoughSomeAreSilent) {
  for (const std::uint64_t period : {0, 3, 11}) {
    SCOPED_TRACE(period);
    Pair pair(digits_network(3), options());
    send_command(pair, kMiddle, period ? CommandKind::set_period : CommandKind::disable, period);
    pair.train(40);
    pair.expect_equal("silent");
    send_command(pair, kMiddle, period ? CommandKind::set_period : CommandKind::enable, 1);
    pair.train(10);
    pair.drain();
    pair.expect_equal("drained");
    EXPECT_EQ(pair.statistics().host_steps, 2u);
    EXPECT_EQ(pair.statistics().replays, 0u);
  }
}

/// Watchers of the middle cell beside the digits' network.
mesh::NetworkSpec minded(std::initializer_list<mesh::Options> rules) {
  mesh::NetworkSpec spec = digits_network(5);
  spec.grid.y = 3;
  std::uint32_t x = 0;
  for (const mesh::Options& rule : rules) {
    mesh::LayerSpec watcher;
    watcher.type = "metacognition";
    watcher.at = {0, 2, x++, 0};
    watcher.from = {kMiddle};
    watcher.options = rule;
    spec.layers.push_back(watcher);
  }
  return spec;
}

const mesh::Options kMorph{{"statistic", std::string("rms")},
                           {"above", 0.05},
                           {"cooldown", 37.0},
                           {"min_ticks", 5.0},
                           {"action", std::string("morph")},
                           {"to", std::string("int8")}};
const mesh::Options kReset{
    {"statistic", std::string("deviation")}, {"above", 0.05}, {"cooldown", 29.0}, {"min_ticks", 11.0}};
const mesh::Options kStorm{{"statistic", std::string("gradient_storm")},
                           {"above", 1.01},
                           {"horizon", 5.0},
                           {"cooldown", 40.0},
                           {"action", std::string("morph")},
                           {"to", std::string("bfloat16")}};

TEST_P(DeviceCellsLearn, BesideMetacognition) {
  for (const bool measures : {false, true}) {
    SCOPED_TRACE(measures);
    Pair pair(measures ? minded({kStorm, kReset}) : minded({kMorph, kReset}), options());
    pair.train(30);
    pair.expect_equal("trained");
    pair.train(1);
    pair.train(29);
    pair.drain();
    pair.expect_equal("drained");
    EXPECT_GT(actions_of(*pair.cpu().mesh), 1u);
    EXPECT_GT(pair.statistics().host_steps, 0u);
    // The step that executes a command, and one more where it was given in such a step.
    EXPECT_LE(pair.statistics().host_steps, 2 * actions_of(*pair.cpu().mesh));
    EXPECT_GT(pair.statistics().device_steps, 2 * pair.statistics().host_steps);
    EXPECT_EQ(pair.statistics().why_host, "");
    EXPECT_EQ(pair.statistics().replays, 0u);
    const std::string& why = pair.statistics().why_host_cells;
    EXPECT_EQ(why.find("measures their gradients") != std::string::npos, measures) << why;
  }
}

std::vector<std::tuple<Rule, Schedule>> rules_in_both_schedules() {
  std::vector<std::tuple<Rule, Schedule>> all;
  for (const Rule rule : test::all_rules())
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) all.emplace_back(rule, schedule);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Rules, DeviceCellsLearn, ::testing::ValuesIn(in_slice(rules_in_both_schedules(), 5)),
                         [](const auto& row) {
                           return std::string(name(std::get<0>(row.param))) + "_" +
                                  std::string(name(std::get<1>(row.param)));
                         });

class DeviceCellsFail : public ::testing::TestWithParam<std::tuple<actors::Policy, Schedule>> {
 protected:
  void SetUp() override { need_device(); }
};

// Observations and commands since host and device last agreed are replayed, once.
TEST_P(DeviceCellsFail, BesideMetacognition) {
  const auto [policy, schedule] = GetParam();
  mesh::NetworkSpec spec = minded({kStorm, kMorph});
  spec.supervision = {policy, 3, 50, actors::Policy::isolate};
  Pair pair(spec, {.schedule = schedule});
  pair.both([](LearningRun& run) { mesh::MeshAccess::take_cell_snapshots(*run.mesh); });
  pair.run_through_a_fault(kOutput, {25, 12, 20});
  EXPECT_GT(actions_of(*pair.cpu().mesh), 0u);
}

INSTANTIATE_TEST_SUITE_P(Policies, DeviceCellsFail,
                         ::testing::Combine(::testing::Values(actors::Policy::halt, actors::Policy::hold,
                                                              actors::Policy::restart, actors::Policy::isolate),
                                            ::testing::Values(Schedule::settle, Schedule::pipelined)),
                         [](const auto& row) {
                           return std::string(name(std::get<0>(row.param))) + "_" +
                                  std::string(name(std::get<1>(row.param)));
                         });

}  // namespace
}  // namespace weft::learning::device_cells_test
