// SPDX-License-Identifier: Apache-2.0
// A mesh on a device against one on the CPU, given the same at the same ticks: every output, answer, fault
// and hash must be the same bits, whoever is ahead. Skipped where no Vulkan device opens; WEFT_TEST_DEVICE names one.

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/persistence/checkpoint_snapshot.hpp"
#include "mesh/persistence/entity_model.hpp"

#include "device_pair.hpp"
#include <memory>
#include <string>
#include <vector>

namespace weft::mesh::device_executor_test {
namespace {

using actors::Policy;
using testing_support::bits;
using testing_support::device_name;
using testing_support::encode_snapshot;
using testing_support::explosive;
using testing_support::mesh_on;
using testing_support::mixed_network;
using testing_support::must;
using testing_support::noise;
using testing_support::register_fragile;

class DeviceRunTest : public testing_support::DevicePair {};

TEST_F(DeviceRunTest, TicksOneByOneAsTheCpuDoes) {
  build(mixed_network().spec(), 2);
  for (std::uint64_t t = 0; t < 12; ++t) {
    set_inputs(t);
    tick(1);
    expect_outputs();
  }
  // Nothing came back but outputs.
  EXPECT_EQ(statistics().device_steps, 12u);
  EXPECT_EQ(statistics().host_steps, 0u);
  EXPECT_EQ(statistics().downloads, 0u);
  EXPECT_EQ(statistics().uploads, 1u);
  expect_equal("at the end");
  EXPECT_EQ(statistics().downloads, 1u);
  // Looking is not writing.
  tick(1);
  EXPECT_EQ(statistics().uploads, 1u);
}

TEST_F(DeviceRunTest, TicksManyAtOnceFromAnyTickOn) {
  build(mixed_network().spec());
  set_inputs(3);
  for (const std::uint64_t n : {1, 2, 5, 64, 1, 300, 7}) {
    tick(n);
    expect_outputs();
  }
  expect_equal("at the end");
  EXPECT_EQ(statistics().host_steps, 0u);
}

TEST_F(DeviceRunTest, RunsWithInputsAndOutputs) {
  build(mixed_network().spec(), 2);
  for (const std::uint64_t ticks : {1, 3, 50, 129}) run_with_inputs(ticks);
  expect_equal("at the end");
  EXPECT_EQ(statistics().host_steps, 0u);
}

TEST_F(DeviceRunTest, SessionsComeGoAndAreMovedWhileTheDeviceIsAhead) {
  build(mixed_network().spec(), 2);
  move_sessions_about();
  // Sessions came and went, and the figures are still the mesh's.
  EXPECT_EQ(statistics().device_steps, gpu_->ticks());
}

TEST_F(DeviceRunTest, GoesBackToSavedStates) {
  build(mixed_network().spec());
  go_back_to_saved_states(SnapshotWeights::automatic);
}

TEST_F(DeviceRunTest, OrdersAreCarriedOutAtTheirTicksAndAnsweredAlike) {
  build(mixed_network().spec());
  set_inputs(1);
  tick(4);
  struct Wanted {
    CommandKind kind;
    Coord cell;
    std::uint64_t after, number = 0;
  };
  const Wanted all[] = {{CommandKind::probe, {0, 0, 0, 0}, 0},         {CommandKind::snapshot, {1, 1, 0, 0}, 2},
                        {CommandKind::set_weights, {0, 1, 1, 0}, 1},   {CommandKind::morph, {0, 0, 1, 0}, 3},
                        {CommandKind::disable, {1, 0, 0, 0}, 0},       {CommandKind::enable, {1, 0, 0, 0}, 6},
                        {CommandKind::set_period, {1, 1, 1, 0}, 2, 3}, {CommandKind::set_period, {1, 1, 1, 0}, 8, 1},
                        {CommandKind::reset, {0, 0, 0, 0}, 4},         {CommandKind::probe, {1, 1, 0, 0}, 5}};
  for (const bool all_at_once : {false, true}) {
    std::vector<CommandMessage> orders[2];
    for (const Wanted& wanted : all) {
      std::size_t which = 0;
      both([&](Mesh& mesh) {
        auto order = std::make_shared<Command>();
        order->kind = wanted.kind;
        order->number = wanted.number;
        if (wanted.after) order->not_before = mesh.ticks() + wanted.after;
        order->encoding = Encoding(Dtype::int8);
        if (wanted.kind == CommandKind::set_weights) order->values = noise(19 * 19, 77, 0.2f);
        orders[which++].push_back(must(mesh.post(wanted.cell, order)));
      });
      if (all_at_once) continue;
      tick(5);
      expect_outputs();
      tick(7);
      expect_equal(std::string(name(wanted.kind)));
    }
    tick(20);
    expect_equal("after all orders");
    for (std::size_t i = 0; i < orders[0].size(); ++i) {
      const Command &here = *orders[0][i], &there = *orders[1][i];
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

TEST_F(DeviceRunTest, ComputesPassesAndHeldCopiesWhileItIsAhead) {
  build(mixed_network().spec());
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

TEST_F(DeviceRunTest, IsCapturedAndSavedWhileItIsAhead) {
  build(mixed_network().spec(), 2);
  set_inputs(1);
  tick(13);
  CheckpointSnapshot snapshot;
  must(take_checkpoint_snapshot(*gpu_, true, snapshot));
  tick(4);
  const auto file = must(formats::decode_entity(must(encode_snapshot(snapshot)), "snapshot"));
  Mesh again = mesh_on(mixed_network().spec(), "cpu", 2);
  must(restore_weights(again, file));
  must(restore_live(again, file));
  EXPECT_EQ(again.state_hash(1), state_hash(snapshot.view(), 1, {}));
  must(again.tick(4));
  EXPECT_EQ(testing_support::hashes(again), testing_support::hashes(*cpu_));
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

TEST_F(DeviceRunTest, WeightsWrittenByHandCount) {
  build(mixed_network().spec());
  set_inputs(1);
  for (int i = 0; i < 4; ++i) {
    tick(5);
    both([&](Mesh& mesh) { MeshAccess::weights(mesh).parameters()[1].data[i] += 0.5f; });
    if (i % 2)
      both([&](Mesh& mesh) {
        MeshAccess::state(mesh).output(*mesh.graph().find_layer({0, 0, 0, 0}), mesh.ticks()).row(0)[i] = 2;
      });
  }
  tick(5);
  expect_equal("at the end");
}

class DeviceFaults : public DeviceRunTest, public ::testing::WithParamInterface<Policy> {
 protected:
  void SetUp() override { DeviceRunTest::SetUp(); }
};

TEST_P(DeviceFaults, HappenAtTheSameTickToTheSameEnd) {
  build(explosive(GetParam()), 2);
  set_inputs(1);
  tick(20);
  both([](Mesh& mesh) { mesh.take_cell_snapshots(); });
  tick(5);
  // Big, but finite for small inputs: what then comes in makes the second layer overflow.
  both([](Mesh& mesh) {
    const std::size_t first = MeshAccess::weights(mesh).first(*mesh.graph().find_layer({0, 0, 1, 0}));
    auto& parameter = MeshAccess::weights(mesh).parameters()[first];
    const std::vector<float> huge(36, 1e38f);
    must(MeshAccess::weights(mesh).write(parameter, huge, "huge"));
  });
  both_say_the_same([](Mesh& mesh) { return mesh.tick(3); });
  both_say_the_same([](Mesh& mesh) { return mesh.tick(300); });
  both_say_the_same([](Mesh& mesh) { return mesh.tick(2); });
  expect_equal("after the fault");
  expect_same_supervision();
  // Mended, both go on.
  both([](Mesh& mesh) {
    const std::size_t first = MeshAccess::weights(mesh).first(*mesh.graph().find_layer({0, 0, 1, 0}));
    must(MeshAccess::weights(mesh).write(MeshAccess::weights(mesh).parameters()[first], noise(36, 5, 0.1f), "mended"));
    mesh.resume();
  });
  set_inputs(9);
  both_say_the_same([](Mesh& mesh) { return mesh.tick(40); });
  expect_equal("mended");
}

TEST_P(DeviceFaults, InTheMiddleOfARunLeaveTheSameOutputsBehind) {
  build(explosive(GetParam()));
  set_inputs(1);
  both([](Mesh& mesh) {
    const std::size_t first = MeshAccess::weights(mesh).first(*mesh.graph().find_layer({0, 0, 1, 0}));
    must(MeshAccess::weights(mesh).write(MeshAccess::weights(mesh).parameters()[first], std::vector<float>(36, 6e37f),
                                         "large"));
  });
  // Small inputs at first; from tick 30 on saturated ones, so that the sum of six overflows.
  std::vector<float> a(60 * 7, 0.0f), b(60 * 5, 0.0f), right[2];
  for (std::size_t i = 30 * 7; i < a.size(); ++i) a[i] = i % 3 ? 900.0f : -900.0f;
  both_say_the_same([](Mesh& mesh) { return mesh.tick(2); });
  std::size_t which = 0;
  both_say_the_same([&](Mesh& mesh) {
    right[which].assign(60 * 4, 0.0f);
    const RunInput inputs[] = {{"a", a}, {"b", b}};
    const RunOutput outputs[] = {{"right", right[which++]}};
    return mesh.run(inputs, 60, outputs);
  });
  EXPECT_EQ(bits(right[1]), bits(right[0]));
  expect_equal("after the run");
}

INSTANTIATE_TEST_SUITE_P(Policies, DeviceFaults,
                         ::testing::Values(Policy::halt, Policy::hold, Policy::restart, Policy::isolate),
                         [](const auto& row) { return std::string(name(row.param)); });

TEST_F(DeviceRunTest, ATypeThatSomebodyRegisteredRunsOnTheCpuBesideTheDeviceAndSaysWhy) {
  register_fragile();
  build(testing_support::fragile_network());
  both([](Mesh& mesh) { must(mesh.set_input("fuse", std::vector<float>{0.5f})); });
  set_inputs(1);
  tick(6);
  expect_outputs();
  set_inputs(2);
  tick(5);
  expect_equal("at the end");
  EXPECT_NE(statistics().why_host_cells.find("fragile"), std::string::npos) << statistics().why_host_cells;
  EXPECT_EQ(statistics().host_cells, 2u);
  EXPECT_EQ(statistics().why_host, "");
  EXPECT_EQ(statistics().device_steps, 11u);
  EXPECT_EQ(statistics().host_steps, 0u);
}

TEST_F(DeviceRunTest, TakesTheNetworksDeviceUnlessToldOtherwise) {
  const NetworkSpec spec = mixed_network().device(device_name()).spec();
  EXPECT_NE(must(Mesh::build(spec)).device_statistics(), nullptr);
  EXPECT_EQ(mesh_on(spec, "cpu", 1).device_statistics(), nullptr);
  EXPECT_EQ(must(Mesh::build(spec)).current_spec().device, device_name());
}

}  // namespace
}  // namespace weft::mesh::device_executor_test
