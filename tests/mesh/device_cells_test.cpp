// SPDX-License-Identifier: Apache-2.0
// Cells that do not fire in every tick, that watch others, or that get commands, in a mesh on a device: the CPU's bits,
// and no more of it on the CPU than must be. Skipped where no Vulkan device opens; WEFT_TEST_DEVICE names one.

#include "device_pair.hpp"
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::mesh::device_cells_test {
namespace {

using actors::Policy;
using namespace testing_support;

constexpr Coord kWatched{0, 0, 1, 0}, kSpare{0, 0, 2, 0};

class DeviceCells : public DevicePair {
 protected:
  void send_command(Coord cell, CommandKind kind, std::uint64_t number = 0, std::uint64_t after = 0) {
    both([&](Mesh& mesh) {
      post(mesh, cell,
           {.kind = kind,
            .not_before = after ? mesh.ticks() + after : 0,
            .number = number,
            .encoding = Encoding(Dtype::int8)});
    });
  }
  std::uint64_t actions() const { return actions_of(*cpu_); }
  void expect_on_device(std::uint64_t steps, std::uint64_t host_steps) {
    EXPECT_EQ(statistics().why_host, "");
    EXPECT_EQ(statistics().device_steps, steps);
    EXPECT_EQ(statistics().host_steps, host_steps);
    EXPECT_EQ(statistics().replays, 0u);
  }
  using DevicePair::run_both;
  /// Inputs are small, and larger from one tick on.
  void run_both(std::uint64_t ticks, std::uint64_t loud_from, std::uint64_t seed) {
    const std::size_t sessions = cpu_->sessions();
    std::vector<float> a = noise(ticks * sessions * 7, seed), b = noise(ticks * sessions * 5, seed + 1);
    const auto soften = [&](std::vector<float>& values, std::size_t width) {
      const std::size_t quiet = std::min<std::size_t>(values.size(), loud_from * sessions * width);
      for (std::size_t i = 0; i < quiet; ++i) values[i] *= 0.01f;
    };
    soften(a, 7), soften(b, 5);
    run_both(ticks, a, b);
  }
  /// `explosive` with a first cell that adds up "a", and a second that overflows when all of it is near 1.
  void build_bomb(const NetworkSpec& spec) {
    build(spec);
    std::vector<float> adds(6 * 18, 0.0f);
    for (std::size_t i = 0; i < adds.size(); ++i) adds[i] = i % 18 < 7 ? 1.0f : i % 18 < 12 ? 0.0f : 0.01f;
    both([&](Mesh& mesh) {
      write_weights(mesh, {0, 0, 0, 0}, adds);
      write_weights(mesh, {0, 0, 1, 0}, std::vector<float>(36, 6e37f));
      MeshAccess::take_cell_snapshots(mesh);
    });
  }
  /// Quiet at first, then loud enough to be noticed, then so loud that it goes off.
  void run_bomb(std::uint64_t ticks, std::uint64_t noticed_from, std::uint64_t off_from) {
    std::vector<float> a(ticks * 7, 0.0f);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = i / 7 < noticed_from ? 0.001f : i / 7 < off_from ? 0.12f : 9.0f;
    run_both(ticks, a, std::vector<float>(ticks * 5, 0.1f));
  }
};

/// A watched layer, a spare of it, a watcher and a reader of them, each in a cell of its own; a second watcher of the
/// first. `keeps_another`: the network keeps a cell of the others on the host too.
NetworkSpec minded(const Options& rule, const Options& second, bool has_spare, bool keeps_another = false) {
  NetworkBuilder builder("minded", {1, 2, 4, 1});
  builder.input("a", 7).input("b", 5).dense({0, 0, 0, 0}, 12, kernels::Activation::tanh).from({"a", "b"});
  if (keeps_another) builder.placement(Placement::cpu);
  builder.layer(kWatched, "rnn", 8).layer(kSpare, "rnn", 8).from({Coord{0, 0, 0, 0}});
  builder.layer({0, 0, 3, 0}, "metacognition")
      .from(has_spare ? std::vector<Source>{kWatched, kSpare} : std::vector<Source>{kWatched});
  for (const auto& [key, value] : rule) builder.option(key, value);
  builder.layer({0, 1, 0, 0}, "residual").from({kWatched, kSpare});
  builder.dense({0, 1, 1, 0}, 3).output("left", {0, 1, 1, 0}).output("right", kWatched);
  if (!second.empty()) {
    builder.layer({0, 1, 2, 0}, "metacognition").from({kWatched});
    for (const auto& [key, value] : second) builder.option(key, value);
  }
  return builder.seed(21).spec();
}

const Options kReset{{"statistic", std::string("rms")}, {"above", 0.3}, {"cooldown", 20.0}};
const Options kMorph{{"statistic", std::string("gain_drift")},
                     {"above", 1.5},
                     {"horizon", 16.0},
                     {"action", std::string("morph")},
                     {"to", std::string("int8")}};
const Options kRival{{"statistic", std::string("rms")},
                     {"above", 0.3},
                     {"cooldown", 20.0},
                     {"action", std::string("morph")},
                     {"to", std::string("bfloat16")}};
const Options kSwap{
    {"statistic", std::string("deviation")}, {"above", 0.3}, {"action", std::string("swap")}, {"cooldown", 15.0}};

class DeviceMetacognition : public DeviceCells, public ::testing::WithParamInterface<int> {
 protected:
  static NetworkSpec network(bool keeps_another = false) {
    switch (GetParam()) {
      case 0:
        return minded(kReset, {}, false, keeps_another);
      case 1:
        return minded(kMorph, kReset, false, keeps_another);
      case 2:
        return minded(kSwap, kRival, true, keeps_another);
      default:
        return minded(kRival, kReset, false, keeps_another);
    }
  }
  /// Each action costs the CPU the tick that executes it.
  void expect_mixed() {
    EXPECT_GT(actions(), 1u);
    EXPECT_GT(statistics().host_steps, 0u);
    EXPECT_LE(statistics().host_steps, actions());
    expect_on_device(cpu_->ticks() - statistics().host_steps, statistics().host_steps);
    EXPECT_GT(statistics().exchanged_bytes, 0u);
    EXPECT_NE(statistics().why_host_cells.find("metacognition decides there"), std::string::npos);
  }
};

TEST_P(DeviceMetacognition, TickByTick) {
  build(network(), 2);
  for (std::uint64_t t = 0; t < 120; ++t) {
    for (std::size_t session = 0; session < 2; ++session)
      both([&](Mesh& mesh) {
        must(mesh.set_input("a", noise(7, t + 1000 * session, t < 30 ? 0.01f : 3.0f), session));
        must(mesh.set_input("b", noise(5, t + 1000 * session + 500, t < 30 ? 0.01f : 3.0f), session));
      });
    tick(1);
    if (t % 7 == 0) expect_equal(std::to_string(t));
  }
  expect_equal("at the end");
  expect_mixed();
}

TEST_P(DeviceMetacognition, InOneRunWithInputsAndOutputs) {
  for (const bool keeps_another : {false, true}) {
    build(network(keeps_another), 2);
    run_both(100, 30, 5);
    expect_equal("at the end");
    set_inputs(8);
    tick(70);
    expect_equal("held inputs");
    expect_mixed();
  }
}

TEST_P(DeviceMetacognition, GoesBackToASavedStateWithCommandsUnderWay) {
  build(network());
  run_both(32, 30, 5);
  for (int i = 0; i < 6; ++i) {
    Snapshot here, there;
    cpu_->take_snapshot(here, SnapshotWeights::always);
    gpu_->take_snapshot(there, SnapshotWeights::always);
    run_both(9, 0, 7);
    must(cpu_->restore_snapshot(here));
    must(gpu_->restore_snapshot(there));
    expect_equal("back");
    run_both(1, 0, 9);
    expect_equal("again");
  }
  EXPECT_GT(actions(), 0u);
  EXPECT_EQ(statistics().replays, 0u);
}

constexpr const char* kRules[] = {"reset", "morph_and_reset", "swap_and_morph", "two_rivals"};
INSTANTIATE_TEST_SUITE_P(Rules, DeviceMetacognition, ::testing::Range(0, 4),
                         [](const auto& row) { return std::string(kRules[row.param]); });

/// The second cell fails in the tick in which the watcher acts, or some ticks before or after.
class DeviceMetacognitionFaults : public DeviceCells, public ::testing::WithParamInterface<Policy> {};

TEST_P(DeviceMetacognitionFaults, HappenOnceBesideCommands) {
  std::uint64_t replays = 0;
  for (const double min_ticks : {1.0, 2.0, 3.0, 4.0, 5.0}) {
    SCOPED_TRACE(min_ticks);
    NetworkSpec spec = explosive(GetParam());
    LayerSpec watcher;
    watcher.type = "metacognition";
    watcher.at = {0, 1, 0, 0};
    watcher.from = {Coord{0, 0, 0, 0}};
    watcher.options = {{"statistic", std::string("rms")}, {"above", 0.5}, {"cooldown", 9.0}, {"min_ticks", min_ticks}};
    spec.grid.y = 2;
    spec.layers.push_back(watcher);
    build_bomb(spec);
    run_bomb(20, 20, 20);
    EXPECT_EQ(statistics().replays, 0u);
    run_bomb(60, 31, 34);
    expect_equal("after the run");
    both([](Mesh& mesh) { mesh.resume(); });
    run_bomb(30, 3, 30);
    expect_equal("went on");
    EXPECT_GT(actions(), 1u);
    replays += statistics().replays;
    expect_same_supervision();
  }
  EXPECT_GT(replays, 2u);
}

INSTANTIATE_TEST_SUITE_P(Policies, DeviceMetacognitionFaults,
                         ::testing::Values(Policy::halt, Policy::hold, Policy::restart, Policy::isolate),
                         [](const auto& row) { return std::string(name(row.param)); });

TEST_F(DeviceCells, ThatAreDisabledKeepTheirOutputOnTheDevice) {
  build(mixed_network().spec(), 2);
  set_inputs(1);
  tick(9);
  send_command({0, 0, 0, 0}, CommandKind::disable);
  send_command({1, 0, 0, 0}, CommandKind::disable);
  tick(40);
  expect_outputs();
  run_rounds(5, 1);
  run_both(20, 0, 2);
  expect_equal("silent");
  expect_on_device(9 + 39 + 5 + 20, 1);
  send_command({0, 0, 0, 0}, CommandKind::enable);
  run_both(20, 0, 3);
  expect_equal("enabled");
  expect_on_device(9 + 39 + 5 + 20 + 19, 2);
}

class DevicePeriods : public DeviceCells, public ::testing::WithParamInterface<std::vector<std::uint64_t>> {};

TEST_P(DevicePeriods, AreKeptOnTheDevice) {
  for (const bool is_mixed : {false, true}) {
    SCOPED_TRACE(is_mixed);
    NetworkSpec spec = mixed_network().spec();
    for (std::size_t i = 0; i < spec.layers.size() && is_mixed; ++i)
      if (spec.layers[i].at.x == 0) spec.layers[i].device = Placement::cpu;
    build(spec, 2);
    set_inputs(1);
    const Coord cells[] = {{0, 0, 0, 0}, {1, 0, 0, 0}, {1, 1, 1, 0}};
    for (std::size_t i = 0; i < GetParam().size(); ++i) send_command(cells[i], CommandKind::set_period, GetParam()[i]);
    std::uint64_t seed = 1;
    for (const std::uint64_t n : {1, 2, 1, 5, 1, 1, 40, 3, 100}) {
      tick(n);
      expect_outputs();
      set_inputs(++seed);
    }
    expect_equal("ticks");
    for (const std::uint64_t n : {1, 2, 70}) run_both(n, 0, n);
    expect_equal("runs");
    expect_on_device(cpu_->ticks() - 1, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, DevicePeriods,
                         ::testing::Values(std::vector<std::uint64_t>{2}, std::vector<std::uint64_t>{3},
                                           std::vector<std::uint64_t>{2, 4, 8}, std::vector<std::uint64_t>{7, 11},
                                           std::vector<std::uint64_t>{std::uint64_t{1} << 40, 5}),
                         [](const auto& row) {
                           std::string text;
                           for (const std::uint64_t period : row.param) text += "p" + std::to_string(period);
                           return text;
                         });

TEST_F(DeviceCells, ThatWereIsolatedStaySoOnTheDevice) {
  build(explosive(Policy::isolate), 2);
  set_inputs(1);
  both([](Mesh& mesh) { write_weights(mesh, {0, 0, 1, 0}, std::vector<float>(36, 3e38f)); });
  both_say_the_same([](Mesh& mesh) { return mesh.tick(6); });
  expect_equal("after the fault");
  expect_same_supervision();
  const std::uint64_t host = statistics().host_steps, device = statistics().device_steps;
  set_inputs(2);
  tick(30);
  expect_equal("isolated");
  EXPECT_EQ(statistics().host_steps, host);
  EXPECT_EQ(statistics().device_steps, device + 30);
  // Enabled, it fails again.
  send_command({0, 0, 1, 0}, CommandKind::enable);
  both_say_the_same([](Mesh& mesh) { return mesh.tick(6); });
  expect_equal("enabled");
  expect_same_supervision();
}

TEST_F(DeviceCells, GetCommandsOfLaterTicksThenAndNotBefore) {
  build(mixed_network().spec());
  set_inputs(1);
  tick(3);
  send_command({0, 0, 0, 0}, CommandKind::reset, 0, 50);
  send_command({1, 0, 0, 0}, CommandKind::morph, 0, 20);
  tick(100);
  expect_equal("after both");
  // The tick that takes them out of their mailboxes, and one for each.
  expect_on_device(100, 3);
  send_command({0, 0, 0, 0}, CommandKind::reset, 0, 5);
  run_both(30, 0, 3);
  expect_equal("in a run");
  expect_on_device(128, 5);
}

// A halt ends a call at a multiple of 256 of its ticks, however the call was cut up.
TEST_F(DeviceCells, HaltWhereTheyWouldOnTheCpu) {
  const auto overflow_later = [&](bool with_command, std::uint64_t before) {
    build_bomb(explosive(Policy::halt));
    if (before) tick(before);
    if (with_command) send_command({0, 0, 3, 0}, CommandKind::probe);
    run_bomb(600, 20, 20);
    EXPECT_EQ(cpu_->ticks(), before + 256);
    expect_equal("run");
    both([](Mesh& mesh) { mesh.resume(); });
    if (with_command) send_command({0, 0, 3, 0}, CommandKind::probe);
    both_say_the_same([](Mesh& mesh) { return mesh.tick(1000); });
    EXPECT_EQ(cpu_->ticks(), before + 512);
    expect_equal("ticks");
  };
  overflow_later(false, 0);
  overflow_later(true, 0);
  overflow_later(true, 100);
}

TEST_F(DeviceCells, HaltInACallBehindOthersWhereTheyWouldOnTheCpu) {
  NetworkSpec spec = NetworkBuilder("growing", {1, 1, 2, 1})
                         .input("a", 7)
                         .input("b", 5)
                         .dense({0, 0, 0, 0}, 4)
                         .from({"a", "b", Coord{0, 0, 0, 0}})
                         .dense({0, 0, 1, 0}, 4, kernels::Activation::tanh)
                         .output("left", {0, 0, 0, 0})
                         .output("right", {0, 0, 1, 0})
                         .spec();
  spec.supervision = {Policy::halt, 3, 50, Policy::halt};
  build(spec);
  // It feeds back 1.8 times its sum: some 150 ticks until it overflows.
  both([](Mesh& mesh) { write_weights(mesh, {0, 0, 0, 0}, std::vector<float>(64, 0.45f)); });
  set_inputs(1);
  both_say_the_same([](Mesh& mesh) { return mesh.tick(100); });
  both_say_the_same([](Mesh& mesh) { return mesh.tick(1000); });
  EXPECT_EQ(cpu_->ticks(), 356u);
  expect_equal("halted");
}

}  // namespace
}  // namespace weft::mesh::device_cells_test
