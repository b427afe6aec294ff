// SPDX-License-Identifier: Apache-2.0
// Meshes with layers of registered types beside a device: their cells stay on the host, the others do not, and the bits
// are the CPU's. Skipped where no Vulkan device opens; WEFT_TEST_DEVICE names one.

#include "mesh/mesh.hpp"

#include "device_pair.hpp"
#include "raw_layer.hpp"
#include <cstdint>
#include <string>
#include <vector>

namespace weft::mesh::registered_placement_test {
namespace {

using kernels::Activation;
using testing_support::must;

class RegisteredPlacement : public testing_support::DevicePair {
 protected:
  void SetUp() override {
    DevicePair::SetUp();
    testing_support::register_raw();
    testing_support::register_fragile();
  }
  void expect_mixed(std::uint64_t host_cells) {
    EXPECT_EQ(statistics().why_host, "");
    EXPECT_EQ(statistics().host_steps, 0u);
    EXPECT_EQ(statistics().replays, 0u);
    EXPECT_GT(statistics().device_steps, 0u);
    EXPECT_GT(statistics().exchanged_bytes, 0u);
    EXPECT_EQ(statistics().host_cells, host_cells);
  }
};

/// Two of six cells are of a registered type: one between others, in a loop, and one that reads an input itself.
NetworkSpec network() {
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

TEST_F(RegisteredPlacement, KeepsTheirCellsOnTheHostAndSaysWhich) {
  build(network(), 2);
  for (std::uint64_t t = 0; t < 10; ++t) {
    if (t % 3 != 1) set_inputs(t);
    tick(1 + t % 2);
    expect_outputs();
  }
  expect_equal("at the end");
  expect_mixed(2);
  const std::string& why = statistics().why_host_cells;
  EXPECT_NE(why.find("(0,0,1), (0,1,0): "), std::string::npos) << why;
  EXPECT_NE(why.find("'raw' is not one of Weft's own"), std::string::npos) << why;
}

TEST_F(RegisteredPlacement, RunsWithInputsAndMovesSessions) {
  build(network(), 2);
  for (const std::uint64_t ticks : {1, 3, 20}) run_with_inputs(ticks);
  move_sessions_about();
  expect_mixed(2);
}

TEST_F(RegisteredPlacement, GoesBackToSavedStates) {
  build(network());
  go_back_to_saved_states(SnapshotWeights::always);
}

TEST_F(RegisteredPlacement, SeesThemInsideOfOthersAndWhereTheirWeightsAreShared) {
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
  for (std::uint64_t t = 0; t < 4; ++t) {
    set_inputs(t);
    tick(3);
    for (const char* const output : {"left", "right"})
      EXPECT_EQ(testing_support::bits(must(gpu_->output(output))), testing_support::bits(must(cpu_->output(output))));
  }
  expect_equal("at the end");
  expect_mixed(3);
}

TEST_F(RegisteredPlacement, StaysOnTheCpuWhereThereIsNothingElse) {
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

TEST_F(RegisteredPlacement, WhatTheyDoWrongIsSeenAsOnTheCpu) {
  for (const auto policy : {actors::Policy::halt, actors::Policy::hold, actors::Policy::restart})
    for (const float trigger : {testing_support::kThrow, testing_support::kNan}) {
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
TEST_F(RegisteredPlacement, TheDeviceHasNoRoomForCellsOfTheHost) {
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
}  // namespace weft::mesh::registered_placement_test
