// SPDX-License-Identifier: Apache-2.0
// Meshes on a device, alone, beside cells on the host and beside layers of registered types, against one on the CPU
// that is given the same at the same ticks: every output, answer, fault and hash must be the same bits, whoever has
// what and whoever is ahead. Skipped where no Vulkan device opens; WEFT_TEST_DEVICE names one.

#include "mesh/mesh.hpp"

#include "device_pair.hpp"
#include "raw_layer.hpp"
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace weft::mesh::device_executor_test {
namespace {

using namespace testing_support;
using actors::Policy;
using kernels::Activation;

/// Remote links both ways, two loops, levels, hidden states and an input that both sides read.
NetworkSpec far_linked() {
  return NetworkBuilder("far", GridShape{2, 2, 3, 2})
      .input("a", 7)
      .input("b", 5)
      .dense({0, 0, 0, 0}, 21, Activation::tanh)
      .from({"a", Coord{1, 1, 2, 0}, Coord{1, 0, 1, 0}})
      .layer({0, 0, 0, 1}, "rms_norm")
      .layer({0, 0, 1, 0}, "gru", 17)
      .from({"b", "a", Coord{0, 0, 0, 1}})
      .layer({0, 0, 2, 0}, "lstm", 9)
      .from({Coord{0, 0, 0, 0}, Coord{0, 0, 1, 0}})
      .dense({0, 1, 0, 0}, 33, Activation::silu)
      .from({Coord{0, 0, 2, 0}, Coord{1, 1, 1, 0}})
      .layer({0, 1, 1, 0}, "leaky_integrator")
      .dense({1, 0, 1, 0}, 12, Activation::sigmoid)
      .from({Coord{0, 1, 0, 0}, Coord{0, 0, 0, 0}, "b"})
      .layer({1, 0, 1, 1}, "softmax")
      .dense({1, 1, 1, 0}, 14, Activation::gelu)
      .from({Coord{1, 0, 1, 1}, Coord{1, 1, 1, 0}, Coord{0, 0, 0, 1}})
      .dense({1, 1, 2, 0}, 4)
      .from({Coord{1, 1, 1, 0}, Coord{0, 1, 1, 0}})
      .dense({1, 1, 0, 0}, 3, Activation::tanh)
      .from({Coord{1, 0, 1, 0}})
      .output("left", {1, 1, 2, 0})
      .output("right", {1, 1, 0, 0})
      .seed(23)
      .spec();
}

/// Two of six cells are of a registered type: one between others, in a loop, and one that reads an input itself.
NetworkSpec registered() {
  register_raw();
  return NetworkBuilder("registered", GridShape{1, 2, 3, 2})
      .input("a", 7)
      .input("b", 5)
      .dense({0, 0, 0, 0}, 21, Activation::tanh)
      .from({"a", "b", Coord{0, 1, 1, 0}})
      .layer({0, 0, 1, 0}, "raw")
      .layer({0, 0, 1, 1}, "rms_norm")
      .dense({0, 0, 2, 0}, 4)
      .layer({0, 1, 0, 0}, "raw")
      .from({"b"})
      .dense({0, 1, 1, 0}, 9, Activation::tanh)
      .from({Coord{0, 0, 1, 1}, Coord{0, 1, 0, 0}})
      .layer({0, 1, 2, 0}, "gru", 3)
      .output("left", {0, 0, 2, 0})
      .output("right", {0, 1, 2, 0})
      .seed(31)
      .spec();
}

/// Colour of the board whose cells the host keeps; 2: none, 3: the host keeps layers of a registered type.
class DeviceRunTest : public DevicePair, public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  static NetworkSpec far() { return GetParam() == 3 ? registered() : checkered(far_linked(), GetParam()); }
  static NetworkSpec mixed() { return checkered(mixed_network().spec(), GetParam()); }
  std::uint64_t host_cells() const {
    std::uint64_t on_host = 0;
    for (const auto& cell : MeshAccess::cells(*gpu_)) {
      const Coord at = cell->at();
      on_host +=
          GetParam() == 3 ? at == Coord{0, 0, 1, 0} || at == Coord{0, 1, 0, 0} : (at.z + at.y + at.x) % 2 == GetParam();
    }
    return on_host;
  }
  void expect_placed() { expect_on_device(gpu_->ticks(), host_cells()); }
};
class DeviceCommandsTest : public DeviceRunTest {};  // of cells that only `mixed` has

INSTANTIATE_TEST_SUITE_P(Of, DeviceRunTest, ::testing::Range(0u, 4u), [](const auto& row) {
  return std::string(row.param == 3 ? "registered" : row.param == 2 ? "device" : row.param ? "odd" : "even");
});
INSTANTIATE_TEST_SUITE_P(Of, DeviceCommandsTest, ::testing::Range(0u, 3u), [](const auto& row) {
  return std::string(row.param == 2 ? "device" : row.param ? "odd" : "even");
});

TEST_P(DeviceRunTest, TicksOneByOneAsTheCpuDoes) {
  build(far(), 2);
  for (std::uint64_t t = 0; t < 14; ++t) {
    // Some inputs stay for a few ticks.
    if (t % 3 != 1) set_inputs(t);
    tick(1);
    expect_outputs();
  }
  // Nothing came back but outputs.
  EXPECT_EQ(statistics().downloads, 0u);
  EXPECT_EQ(statistics().uploads, 1u);
  expect_equal("at the end");
  EXPECT_EQ(statistics().downloads, 1u);
  tick(3);
  EXPECT_EQ(statistics().uploads, 1u) << "looking is not writing";
  expect_equal("after a look");
  expect_placed();
  if (GetParam() != 3) return;
  const std::string& why = statistics().why_host_cells;
  EXPECT_NE(why.find("(0,0,1), (0,1,0): "), std::string::npos) << why;
  EXPECT_NE(why.find("'raw' is not one of Weft's own"), std::string::npos) << why;
}

TEST_P(DeviceCommandsTest, TicksManyAtOnceFromAnyTickOn) {
  build(mixed());
  set_inputs(3);
  for (const std::uint64_t n : {1, 2, 5, 64, 1, 300, 7}) {
    tick(n);
    expect_outputs();
  }
  expect_equal("at the end");
  expect_placed();
  // As many command graphs as there are slots.
  if (GetParam() < 2) {
    EXPECT_EQ(statistics().graphs, 2u);
  }
}

TEST_P(DeviceRunTest, RunsWithInputsAndOutputs) {
  build(far(), 2);
  for (const std::uint64_t ticks : {1, 3, 50, 129}) {
    run_both(ticks, noise(ticks * 2 * 7, ticks), noise(ticks * 2 * 5, ticks + 1));
    tick(2);  // the last input stays
    expect_outputs();
  }
  expect_equal("at the end");
  expect_placed();
}

TEST_P(DeviceCommandsTest, HasWeightsInOtherTypes) {
  NetworkSpec spec = mixed();
  const Dtype types[] = {Dtype::int8, Dtype::fp8_e4m3, Dtype::bfloat16, Dtype::int4};
  std::size_t next = 0;
  for (LayerSpec& layer : spec.layers)
    if (layer.type == "dense") layer.dtype = types[next++ % 4];
  build(spec);
  run_rounds(4, 3);
  expect_equal("at the end");
  expect_placed();
}

TEST_P(DeviceRunTest, SessionsComeGoAndAreMovedWhileTheDeviceIsAhead) {
  build(far(), 2);
  move_sessions_about();
  expect_placed();
}

TEST_P(DeviceRunTest, GoesBackToSavedStates) {
  build(far());
  for (const SnapshotWeights weights : {SnapshotWeights::always, SnapshotWeights::automatic})
    go_back_to_saved_states(weights);
}

TEST_P(DeviceCommandsTest, CommandsAreExecutedAtTheirTicksAndAnsweredAlike) {
  build(mixed());
  set_inputs(1);
  tick(4);
  const auto wanted = [](CommandKind kind, std::uint64_t after, std::uint64_t number = 0) {
    return Wanted{.kind = kind, .not_before = after, .number = number, .encoding = Encoding(Dtype::int8)};
  };
  const std::pair<Coord, Wanted> all[] = {
      {{0, 0, 0, 0}, wanted(CommandKind::probe, 0)},         {{1, 1, 0, 0}, wanted(CommandKind::snapshot, 2)},
      {{0, 1, 1, 0}, wanted(CommandKind::set_weights, 1)},   {{0, 0, 1, 0}, wanted(CommandKind::morph, 3)},
      {{0, 0, 0, 0}, wanted(CommandKind::morph, 0)},         {{1, 0, 0, 0}, wanted(CommandKind::disable, 0)},
      {{1, 0, 0, 0}, wanted(CommandKind::enable, 6)},        {{0, 1, 0, 0}, wanted(CommandKind::disable, 2)},
      {{0, 1, 0, 0}, wanted(CommandKind::enable, 5)},        {{1, 1, 1, 0}, wanted(CommandKind::set_period, 2, 3)},
      {{1, 1, 1, 0}, wanted(CommandKind::set_period, 8, 1)}, {{0, 0, 0, 0}, wanted(CommandKind::reset, 4)},
      {{1, 0, 1, 0}, wanted(CommandKind::reset, 2)},         {{1, 1, 0, 0}, wanted(CommandKind::probe, 5)}};
  for (const bool all_at_once : {false, true}) {
    std::vector<CommandMessage> sent[2];
    for (const auto& [cell, command] : all) {
      std::size_t which = 0;
      both([&, &cell = cell, &command = command](Mesh& mesh) {
        Wanted now = command;
        if (now.not_before) now.not_before += mesh.ticks();
        if (now.kind == CommandKind::set_weights) now.values = noise(19 * 19, 77, 0.2f);
        sent[which++].push_back(post(mesh, cell, now));
      });
      if (all_at_once) continue;
      tick(5);
      expect_outputs();
      tick(7);
      expect_equal(std::string(name(command.kind)));
    }
    tick(20);
    expect_equal("after all commands");
    for (std::size_t i = 0; i < sent[0].size(); ++i) {
      const Command &here = *sent[0][i], &there = *sent[1][i];
      ASSERT_TRUE(here.is_done() && there.is_done()) << i;
      EXPECT_EQ(there.done_at(), here.done_at()) << i;
      ASSERT_TRUE(here.status().has_value()) << i << ": " << here.status().error().text();
      EXPECT_TRUE(there.status().has_value()) << i;
      EXPECT_EQ(bits(there.answer()), bits(here.answer())) << i;
    }
  }
  EXPECT_GT(statistics().host_steps, 0u);
  EXPECT_GT(statistics().device_steps, 0u);
}

TEST_P(DeviceCommandsTest, ComputesPassesAndHeldCopiesWhileItIsAhead) {
  build(mixed());
  set_inputs(1);
  tick(11);
  const std::vector<float> a = noise(3 * 7, 5), b = noise(3 * 5, 6);
  const RunInput inputs[] = {{"a", a}, {"b", b}};
  std::vector<float> got[2][2];
  std::size_t which = 0;
  both([&](Mesh& mesh) {
    for (std::vector<float>& each : got[which]) each.resize(3 * 4);
    const RunOutput passed[] = {{"left", got[which][0]}}, held[] = {{"left", got[which][1]}};
    must(mesh.forward(inputs, 3, passed));
    must(MeshAccess::evaluate_copies(mesh, 0, inputs, 3, 6, held));
    ++which;
  });
  EXPECT_EQ(bits(got[1][0]), bits(got[0][0]));
  EXPECT_EQ(bits(got[1][1]), bits(got[0][1]));
  tick(3);
  expect_equal("after");
}

// Rows that are measured or passed through run on the device too, in parts, to the CPU's bits.
TEST_P(DeviceRunTest, RunsCopiesAndPassesOfManyRowsOnTheDevice) {
  const auto straight = NetworkBuilder("straight", {1, 1, 3, 1})
                            .input("x", 6)
                            .dense({0, 0, 0, 0}, 9, kernels::Activation::tanh)
                            .dense({0, 0, 1, 0}, 8, kernels::Activation::gelu)
                            .dense({0, 0, 2, 0}, 4)
                            .output("y", {0, 0, 2, 0})
                            .seed(3)
                            .spec();
  build(straight);
  constexpr std::size_t kRows = 300;
  const std::vector<float> x = noise(kRows * 6, 5);
  const RunInput input{"x", x};
  std::vector<float> got[2][2];
  std::size_t which = 0;
  both([&](Mesh& mesh) {
    must(mesh.tick(5));
    for (std::vector<float>& each : got[which]) each.resize(kRows * 4);
    const RunOutput passed{"y", got[which][0]}, held{"y", got[which][1]};
    must(mesh.forward({&input, 1}, kRows, {&passed, 1}));
    must(MeshAccess::evaluate_copies(mesh, 0, {&input, 1}, kRows, 7, {&held, 1}));
    ++which;
  });
  EXPECT_EQ(bits(got[1][0]), bits(got[0][0]));
  EXPECT_EQ(bits(got[1][1]), bits(got[0][1]));
  EXPECT_EQ(statistics().copy_steps, gpu_->graph().settle_ticks() + 7);
  EXPECT_EQ(statistics().copy_replays, 0u);
  EXPECT_EQ(statistics().faults, 0u);
  tick(3);
  expect_equal("after");
}

TEST_P(DeviceRunTest, IsCapturedAndSavedWhileItIsAhead) {
  build(far(), 2);
  set_inputs(1);
  tick(13);
  CheckpointSnapshot snapshot;
  must(take_checkpoint_snapshot(*gpu_, true, snapshot));
  tick(4);
  const ByteBuffer bytes = must(encode_snapshot(snapshot));
  Mesh again = mesh_of_file(bytes);
  EXPECT_EQ(again.state_hash(1), state_hash(snapshot.view(), 1, {}));
  must(again.tick(4));
  EXPECT_EQ(hashes(again), hashes(*cpu_));
  tick(2);
  const auto saved = must(formats::decode_entity(must(encode_mesh(*gpu_, true)), "saved"));
  // And into a mesh whose device is ahead.
  must(gpu_->tick(9));
  must(restore_weights(*gpu_, saved));
  must(restore_live(*gpu_, saved));
  expect_equal("restored");
  tick(5);
  expect_equal("went on");
}

TEST_P(DeviceRunTest, WeightsAndStatesWrittenByHandCount) {
  build(far());
  set_inputs(1);
  for (int i = 0; i < 4; ++i) {
    tick(5);
    both([&](Mesh& mesh) {
      for (const Coord at : {Coord{0, 0, 0, 0}, Coord{0, 0, 1, 0}}) {
        const NodeId node = *mesh.graph().find_layer(at);
        MeshAccess::weights(mesh).parameters()[MeshAccess::weights(mesh).first(node)].data[i] += 0.5f;
        if (i % 2) MeshAccess::state(mesh).output(node, mesh.ticks()).row(0)[i] = 2;
      }
    });
  }
  tick(5);
  expect_equal("at the end");
}

TEST_P(DeviceRunTest, WorksWithRegionsOnSeveralThreadsAndWithOneWideRegion) {
  for (const bool is_wide : {false, true}) {
    SCOPED_TRACE(is_wide);
    build(far(), 3);
    gpu_.emplace(mesh_on(far(), device_name(), 3,
                         {.threads = 3, .pin = false, .grain_bytes = 0, .wide = is_wide, .wide_from = 0}));
    run_rounds(6, 2);
    expect_equal("at the end");
    expect_placed();
  }
}

/// Cells of `explosive`, whose second one fails, some of them on the host.
class DeviceFaults : public DevicePair,
                     public ::testing::WithParamInterface<std::tuple<Policy, std::vector<std::uint32_t>>> {
 protected:
  bool is_mixed() const { return !std::get<1>(GetParam()).empty(); }
  static NetworkSpec network() {
    NetworkSpec spec = explosive(std::get<0>(GetParam()));
    for (LayerSpec& layer : spec.layers)
      for (const std::uint32_t x : std::get<1>(GetParam()))
        if (layer.at.x == x) layer.device = Placement::cpu;
    return spec;
  }
  void write(std::uint32_t x, const std::vector<float>& values) {
    both([&](Mesh& mesh) { write_weights(mesh, {0, 0, x, 0}, values); });
  }
};

TEST_P(DeviceFaults, HappenAtTheSameTickToTheSameEnd) {
  build(network(), 2);
  set_inputs(1);
  tick(20);
  both([](Mesh& mesh) { MeshAccess::take_cell_snapshots(mesh); });
  tick(5);
  // Big, but finite for small inputs: what then comes in makes the second layer overflow.
  write(1, std::vector<float>(36, 1e38f));
  for (const std::uint64_t n : {3, 300, 2}) both_say_the_same([n](Mesh& mesh) { return mesh.tick(n); });
  expect_equal("after the fault");
  expect_same_supervision();
  // Mended, both go on.
  write(1, noise(36, 5, 0.1f));
  both([](Mesh& mesh) { mesh.resume(); });
  set_inputs(9);
  both_say_the_same([](Mesh& mesh) { return mesh.tick(40); });
  expect_equal("mended");
}

TEST_P(DeviceFaults, InTheMiddleOfARunTakeBackWhatWasDoneSinceBothAgreed) {
  build(network());
  // The first cell adds up "a" and some of the third, which keeps the sign that it once had; the second sums six of it.
  // Small inputs at first, in several calls; then saturated ones, so that the sum overflows.
  std::vector<float> adds(6 * 18, 0.0f);
  for (std::size_t i = 0; i < adds.size(); ++i) adds[i] = i % 18 < 7 ? 1.0f : i % 18 < 12 ? 0.0f : 0.1f;
  write(0, adds);
  write(1, std::vector<float>(36, 6e37f));
  write(2, std::vector<float>(36, 1.0f));
  for (int i = 0; i < 6; ++i) {
    both([&](Mesh& mesh) {
      must(mesh.set_input("a", std::vector<float>(7, i ? 0.001f * static_cast<float>(i) : -0.001f)));
      must(mesh.set_input("b", std::vector<float>(5, 0.001f * static_cast<float>(i))));
    });
    both_say_the_same([](Mesh& mesh) { return mesh.tick(1); });
  }
  EXPECT_EQ(statistics().downloads, 0u);
  std::vector<float> a(40 * 7, 0.0f);
  std::fill(a.begin() + 20 * 7, a.end(), 900.0f);
  run_both(40, a, std::vector<float>(40 * 5, 0.0f));
  expect_equal("after the run");
  expect_same_supervision();
  EXPECT_GT(statistics().replays, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, DeviceFaults,
    ::testing::Combine(::testing::Values(Policy::halt, Policy::hold, Policy::restart, Policy::isolate),
                       ::testing::Values(std::vector<std::uint32_t>{}, std::vector<std::uint32_t>{1},
                                         std::vector<std::uint32_t>{0, 3})),
    [](const auto& row) {
      const std::size_t on_host = std::get<1>(row.param).size();
      return std::string(name(std::get<0>(row.param))) + (on_host == 0   ? ""
                                                          : on_host == 1 ? "_on_the_host"
                                                                         : "_on_the_device");
    });

class DevicePlacement : public DevicePair {};

TEST_F(DevicePlacement, TakesTheNetworksDeviceUnlessToldOtherwise) {
  const NetworkSpec spec = mixed_network().device(device_name()).spec();
  EXPECT_NE(must(Mesh::build(spec)).device_statistics(), nullptr);
  EXPECT_EQ(mesh_on(spec, "cpu", 1).device_statistics(), nullptr);
  EXPECT_EQ(must(Mesh::build(spec)).current_spec().device, device_name());
}

TEST_F(DevicePlacement, RunsOnTheCpuAloneWhereAllCellsStayThere) {
  build(checkered(checkered(mixed_network().spec(), 0), 1));
  set_inputs(1);
  tick(5);
  expect_equal("at the end");
  EXPECT_NE(statistics().why_host.find("keeps all cells"), std::string::npos) << statistics().why_host;
  EXPECT_EQ(statistics().host_steps, 5u);
}

TEST_F(DevicePlacement, OfOneLayerIsItsWholeCellsAndOfThoseThatShareItsWeights) {
  const NetworkSpec spec = NetworkBuilder("shared", GridShape{1, 1, 4, 2})
                               .input("a", 7)
                               .input("b", 5)
                               .dense({0, 0, 0, 0}, 9, kernels::Activation::tanh)
                               .from({"a", "b"})
                               .dense({0, 0, 1, 0}, 9, kernels::Activation::tanh)
                               .placement(Placement::cpu)
                               .layer({0, 0, 1, 1}, "layer_norm")
                               .layer({0, 0, 2, 0}, "sequential")
                               .inside({[] {
                                 LayerSpec shared;
                                 shared.type = "shared";
                                 shared.at = {0, 0, 1, 0};
                                 return shared;
                               }()})
                               .dense({0, 0, 3, 0}, 4)
                               .output("left", {0, 0, 3, 0})
                               .output("right", {0, 0, 2, 0})
                               .seed(3)
                               .spec();
  build(spec);
  set_inputs(1);
  tick(9);
  expect_equal("at the end");
  expect_on_device(9, 2);
}

TEST_F(DevicePlacement, SeesRegisteredTypesInsideOfOthersAndWhereTheirWeightsAreShared) {
  register_raw();
  LayerSpec raw, shared;
  raw.type = "raw";
  shared.type = "shared";
  shared.at = {0, 0, 0, 0};
  const NetworkSpec spec = NetworkBuilder("inside", GridShape{1, 1, 4, 1})
                               .input("a", 7)
                               .input("b", 5)
                               .layer({0, 0, 0, 0}, "raw")
                               .from({"a"})
                               .layer({0, 0, 1, 0}, "sequential")
                               .inside({shared})
                               .from({"a"})
                               .layer({0, 0, 2, 0}, "sequential")
                               .inside({raw})
                               .from({"b", Coord{0, 0, 1, 0}, Coord{0, 0, 3, 0}})
                               .dense({0, 0, 3, 0}, 4, Activation::tanh)
                               .output("left", {0, 0, 3, 0})
                               .output("right", {0, 0, 2, 0})
                               .seed(3)
                               .spec();
  build(spec);
  run_rounds(4, 3);
  expect_equal("at the end");
  expect_on_device(12, 3);
}

TEST_F(DevicePlacement, StaysOnTheCpuWhereAllTypesAreRegistered) {
  register_raw();
  const NetworkSpec spec = NetworkBuilder("only", GridShape{1, 1, 2, 1})
                               .input("a", 7)
                               .input("b", 5)
                               .layer({0, 0, 0, 0}, "raw")
                               .from({"a"})
                               .layer({0, 0, 1, 0}, "raw")
                               .from({"b"})
                               .output("left", {0, 0, 0, 0})
                               .output("right", {0, 0, 1, 0})
                               .spec();
  build(spec);
  set_inputs(1);
  tick(5);
  expect_equal("at the end");
  EXPECT_EQ(statistics().host_steps, 5u);
  EXPECT_EQ(statistics().device_bytes, 0u);
  EXPECT_NE(statistics().why_host.find("(0,0,0), (0,0,1): the layer type 'raw'"), std::string::npos)
      << statistics().why_host;
}

TEST_F(DevicePlacement, WhatRegisteredTypesDoWrongIsSeenAsOnTheCpu) {
  register_fragile();
  for (const auto policy : {actors::Policy::halt, actors::Policy::hold, actors::Policy::restart})
    for (const float trigger : {kThrow, kNan}) {
      SCOPED_TRACE(std::string(name(policy)) + ", " + std::to_string(trigger));
      NetworkSpec spec = NetworkBuilder("fragile", GridShape{1, 1, 3, 1})
                             .input("a", 7)
                             .input("b", 5)
                             .layer({0, 0, 0, 0}, "fragile")
                             .from({"a"})
                             .dense({0, 0, 1, 0}, 4, Activation::tanh)
                             .from({Coord{0, 0, 0, 0}, Coord{0, 0, 2, 0}})
                             .dense({0, 0, 2, 0}, 3)
                             .from({"b", Coord{0, 0, 1, 0}})
                             .output("left", {0, 0, 1, 0})
                             .output("right", {0, 0, 2, 0})
                             .seed(5)
                             .spec();
      spec.supervision = {policy, 3, 50, actors::Policy::isolate};
      build(spec);
      set_inputs(1);
      tick(7);
      std::vector<float> values(7, 0.25f);
      values[0] = trigger;
      both([&](Mesh& mesh) { must(mesh.set_input("a", values)); });
      both_say_the_same([](Mesh& mesh) { return mesh.tick(3); });
      expect_equal("after the fault");
      expect_same_supervision();
      set_inputs(2);
      both([](Mesh& mesh) { mesh.resume(); });
      both_say_the_same([](Mesh& mesh) { return mesh.tick(6); });
      expect_equal("mended");
    }
}

/// Device memory of a chain of which one layer is large.
TEST_F(DevicePlacement, TheDeviceHasNoRoomForCellsOfTheHost) {
  const auto chain = [](std::optional<Placement> place) {
    NetworkBuilder builder("wide", GridShape{1, 1, 4, 1});
    builder.input("a", 7)
        .input("b", 5)
        .dense({0, 0, 0, 0}, 8, Activation::tanh)
        .from({"a", "b"})
        .dense({0, 0, 1, 0}, 4096, Activation::tanh);
    if (place) builder.placement(*place);
    builder.dense({0, 0, 2, 0}, 1024, Activation::tanh);
    if (place) builder.placement(*place);
    return builder.dense({0, 0, 3, 0}, 3).output("left", {0, 0, 0, 0}).output("right", {0, 0, 3, 0}).seed(7).spec();
  };
  std::uint64_t bytes[2];
  for (const bool is_host : {false, true}) {
    build(chain(is_host ? std::optional(Placement::cpu) : std::nullopt));
    set_inputs(4);
    tick(4);
    expect_equal(is_host ? "mixed" : "on the device");
    bytes[is_host] = statistics().device_bytes;
    EXPECT_EQ(statistics().why_host, "");
  }
  // The weights of 8 x 4096 and 4096 x 1024, and what only the host's cells read of each other.
  constexpr std::uint64_t kWeights = (8 + 1024) * 4096 * sizeof(float);
  EXPECT_GT(bytes[0], kWeights);
  EXPECT_LT(bytes[1] + kWeights + 2 * 4096 * sizeof(float), bytes[0] + 4096);
  // The rest: a layer of 16 x 1024 in panels, and less than that in rows.
  EXPECT_LT(bytes[1], 16 * 1024 * sizeof(float) + 16 * 1024);
}

}  // namespace
}  // namespace weft::mesh::device_executor_test
