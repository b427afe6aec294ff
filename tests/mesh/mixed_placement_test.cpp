// SPDX-License-Identifier: Apache-2.0
// Meshes of which a device runs some cells and the host the others, against one on the CPU: the same bits, whoever has
// what. Skipped where no Vulkan device opens; WEFT_TEST_DEVICE names one.

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"

#include "device_pair.hpp"
#include <cstdint>
#include <string>
#include <vector>

namespace weft::mesh::mixed_placement_test {
namespace {

using actors::Policy;
using testing_support::bits;
using testing_support::device_name;
using testing_support::explosive;
using testing_support::mixed_network;
using testing_support::must;
using testing_support::noise;

/// Every other cell stays on the host, as squares of one colour of a board do.
NetworkSpec checkered(NetworkSpec spec, std::uint32_t colour) {
  for (LayerSpec& layer : spec.layers)
    if ((layer.at.z + layer.at.y + layer.at.x) % 2 == colour) layer.device = Placement::cpu;
  return spec;
}

/// Remote links both ways, two loops, levels, hidden states and an input that both sides read.
NetworkSpec far_linked(std::uint32_t colour) {
  using kernels::Activation;
  NetworkSpec spec = NetworkBuilder("far", GridShape{2, 2, 3, 2})
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
  return checkered(std::move(spec), colour);
}

class MixedPlacement : public testing_support::DevicePair {
 protected:
  /// Nothing but what crosses, and nothing went on the CPU instead.
  void expect_mixed(std::uint64_t steps) {
    EXPECT_EQ(statistics().why_host, "");
    EXPECT_EQ(statistics().device_steps, steps);
    EXPECT_EQ(statistics().host_steps, 0u);
    EXPECT_EQ(statistics().replays, 0u);
    EXPECT_GT(statistics().exchanged_bytes, 0u);
    EXPECT_GT(statistics().host_cells, 0u);
    EXPECT_LT(statistics().host_cells, MeshAccess::cells(*gpu_).size());
  }
};

class EitherColour : public MixedPlacement, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(EitherColour, TicksOneByOneAsTheCpuDoes) {
  build(far_linked(GetParam()), 2);
  for (std::uint64_t t = 0; t < 14; ++t) {
    // Some inputs stay for a few ticks.
    if (t % 3 != 1) set_inputs(t);
    tick(1);
    expect_outputs();
  }
  EXPECT_EQ(statistics().downloads, 0u);
  EXPECT_EQ(statistics().uploads, 1u);
  expect_equal("at the end");
  tick(3);
  EXPECT_EQ(statistics().uploads, 1u) << "looking is not writing";
  expect_equal("after a look");
  expect_mixed(17);
}

TEST_P(EitherColour, TicksManyAtOnceFromAnyTickOn) {
  build(checkered(mixed_network().spec(), GetParam()));
  set_inputs(3);
  for (const std::uint64_t n : {1, 2, 5, 64, 1, 70, 7}) {
    tick(n);
    expect_outputs();
  }
  expect_equal("at the end");
  expect_mixed(150);
  // As many programs as there are slots.
  EXPECT_EQ(statistics().programs, 2u);
}

TEST_P(EitherColour, RunsWithInputsAndOutputs) {
  build(far_linked(GetParam()), 2);
  for (const std::uint64_t ticks : {1, 3, 50}) run_with_inputs(ticks);
  expect_equal("at the end");
  expect_mixed(60);
}

TEST_P(EitherColour, HasWeightsInOtherTypes) {
  NetworkSpec spec = checkered(mixed_network().spec(), GetParam());
  const Dtype types[] = {Dtype::int8, Dtype::fp8_e4m3, Dtype::bfloat16, Dtype::int4};
  std::size_t next = 0;
  for (LayerSpec& layer : spec.layers)
    if (layer.type == "dense") layer.dtype = types[next++ % 4];
  build(spec);
  for (std::uint64_t t = 0; t < 4; ++t) {
    set_inputs(t);
    tick(3);
    expect_outputs();
  }
  expect_equal("at the end");
  expect_mixed(12);
}

TEST_P(EitherColour, SessionsComeGoAndAreMovedWhileTheDeviceIsAhead) {
  build(far_linked(GetParam()), 2);
  move_sessions_about();
  expect_mixed(gpu_->ticks());
}

TEST_P(EitherColour, GoesBackToSavedStates) {
  build(far_linked(GetParam()));
  go_back_to_saved_states(SnapshotWeights::always);
}

TEST_P(EitherColour, OrdersMorphAndSilenceCellsOfBothSides) {
  build(checkered(mixed_network().spec(), GetParam()));
  set_inputs(1);
  tick(4);
  struct Wanted {
    CommandKind kind;
    Coord cell;
    std::uint64_t after, number = 0;
  };
  const Wanted all[] = {{CommandKind::morph, {0, 0, 1, 0}, 3},       {CommandKind::morph, {0, 0, 0, 0}, 0},
                        {CommandKind::disable, {1, 0, 0, 0}, 0},     {CommandKind::enable, {1, 0, 0, 0}, 6},
                        {CommandKind::disable, {0, 1, 0, 0}, 2},     {CommandKind::enable, {0, 1, 0, 0}, 5},
                        {CommandKind::set_weights, {0, 1, 1, 0}, 1}, {CommandKind::reset, {0, 0, 0, 0}, 2},
                        {CommandKind::reset, {1, 0, 1, 0}, 2}};
  for (const Wanted& wanted : all) {
    both([&](Mesh& mesh) {
      auto order = std::make_shared<Command>();
      order->kind = wanted.kind;
      if (wanted.after) order->not_before = mesh.ticks() + wanted.after;
      order->encoding = Encoding(Dtype::int8);
      if (wanted.kind == CommandKind::set_weights) order->values = noise(19 * 19, 77, 0.2f);
      must(mesh.post(wanted.cell, order));
    });
    tick(4);
    expect_outputs();
    tick(6);
    expect_equal(std::string(name(wanted.kind)));
  }
  EXPECT_GT(statistics().host_steps, 0u);
  EXPECT_GT(statistics().device_steps, 0u);
}

TEST_P(EitherColour, WeightsAndStatesWrittenByHandCount) {
  build(far_linked(GetParam()));
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

TEST_P(EitherColour, WorksWithRegionsOnSeveralThreadsAndWithOneWideRegion) {
  for (const bool is_wide : {false, true}) {
    SCOPED_TRACE(is_wide);
    const NetworkSpec spec = far_linked(GetParam());
    build(spec, 3);
    MeshOptions options;
    options.threads = 3;
    options.sessions = 3;
    options.grain_bytes = 0;
    options.wide = is_wide;
    options.wide_from = 0;
    options.pin = false;
    options.device = device_name();
    gpu_.emplace(must(Mesh::build(spec, options)));
    for (std::uint64_t t = 0; t < 6; ++t) {
      set_inputs(t);
      tick(2);
    }
    expect_equal("at the end");
    expect_mixed(12);
  }
}

INSTANTIATE_TEST_SUITE_P(OfTheBoard, EitherColour, ::testing::Values(0u, 1u),
                         [](const auto& row) { return row.param ? "odd" : "even"; });

/// Cells of `explosive` that stay on the host; the one at x = 1 fails.
class MixedFaults : public MixedPlacement,
                    public ::testing::WithParamInterface<std::tuple<Policy, std::vector<std::uint32_t>>> {
 protected:
  static NetworkSpec placed() {
    NetworkSpec spec = explosive(std::get<0>(GetParam()));
    for (LayerSpec& layer : spec.layers)
      for (const std::uint32_t x : std::get<1>(GetParam()))
        if (layer.at.x == x) layer.device = Placement::cpu;
    return spec;
  }
  void write(std::uint32_t x, const std::vector<float>& values) {
    both([&](Mesh& mesh) {
      const std::size_t first = MeshAccess::weights(mesh).first(*mesh.graph().find_layer({0, 0, x, 0}));
      must(MeshAccess::weights(mesh).write(MeshAccess::weights(mesh).parameters()[first], values, "written"));
    });
  }
};

TEST_P(MixedFaults, HappenAtTheSameTickToTheSameEnd) {
  build(placed(), 2);
  set_inputs(1);
  tick(12);
  both([](Mesh& mesh) { mesh.take_cell_snapshots(); });
  tick(5);
  write(1, std::vector<float>(36, 1e38f));
  both_say_the_same([](Mesh& mesh) { return mesh.tick(3); });
  both_say_the_same([](Mesh& mesh) { return mesh.tick(20); });
  expect_equal("after the fault");
  expect_same_supervision();
  write(1, std::vector<float>(36, 0.1f));
  both([](Mesh& mesh) { mesh.resume(); });
  set_inputs(9);
  both_say_the_same([](Mesh& mesh) { return mesh.tick(20); });
  expect_equal("mended");
}

TEST_P(MixedFaults, TakeBackWhatTheHostDidSinceBothAgreed) {
  build(placed());
  // The first cell adds up "a" and some of the third, which keeps the sign that it once had; the second sums six of it.
  // Small inputs at first, in several calls; then saturated ones, so that the sum overflows.
  std::vector<float> adds(6 * 18, 0.0f);
  for (std::size_t i = 0; i < adds.size(); ++i) adds[i] = i % 18 < 7 ? 1.0f : i % 18 < 12 ? 0.0f : 0.1f;
  write(0, adds);
  write(1, std::vector<float>(36, 6e37f));
  both([](Mesh& mesh) {
    const std::size_t third = MeshAccess::weights(mesh).first(*mesh.graph().find_layer({0, 0, 2, 0}));
    must(MeshAccess::weights(mesh).write(MeshAccess::weights(mesh).parameters()[third], std::vector<float>(36, 1.0f),
                                         "third"));
    must(mesh.set_input("a", std::vector<float>(7, -0.001f)));
    must(mesh.set_input("b", std::vector<float>(5, 0.0f)));
  });
  for (int i = 0; i < 5; ++i) {
    both_say_the_same([](Mesh& mesh) { return mesh.tick(1); });
    for (const char* port : {"a", "b"})
      both([&](Mesh& mesh) {
        const std::size_t width = *port == 'a' ? 7 : 5;
        must(mesh.set_input(port, std::vector<float>(width, 0.001f * static_cast<float>(i))));
      });
  }
  EXPECT_EQ(statistics().downloads, 0u);
  std::vector<float> a(40 * 7, 0.0f), b(40 * 5, 0.0f), left[2], right[2];
  for (std::size_t i = 20 * 7; i < a.size(); ++i) a[i] = 900.0f;
  std::size_t which = 0;
  both_say_the_same([&](Mesh& mesh) {
    left[which].assign(40 * 6, 0.0f);
    right[which].assign(40 * 4, 0.0f);
    const RunInput inputs[] = {{"a", a}, {"b", b}};
    const RunOutput outputs[] = {{"left", left[which]}, {"right", right[which]}};
    ++which;
    return mesh.run(inputs, 40, outputs);
  });
  EXPECT_EQ(bits(left[1]), bits(left[0]));
  EXPECT_EQ(bits(right[1]), bits(right[0]));
  expect_equal("after the run");
  expect_same_supervision();
  EXPECT_GT(statistics().replays, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, MixedFaults,
    ::testing::Combine(::testing::Values(Policy::halt, Policy::hold, Policy::restart, Policy::isolate),
                       ::testing::Values(std::vector<std::uint32_t>{1}, std::vector<std::uint32_t>{0, 3})),
    [](const auto& row) {
      return std::string(name(std::get<0>(row.param))) +
             (std::get<1>(row.param).size() == 1 ? "_on_the_host" : "_on_the_device");
    });

TEST_F(MixedPlacement, RunsOnTheCpuAloneWhereAllCellsStayThere) {
  NetworkSpec spec = mixed_network().spec();
  for (LayerSpec& layer : spec.layers) layer.device = Placement::cpu;
  build(spec);
  set_inputs(1);
  tick(5);
  expect_equal("at the end");
  EXPECT_NE(statistics().why_host.find("keeps all cells"), std::string::npos) << statistics().why_host;
  EXPECT_EQ(statistics().host_steps, 5u);
}

TEST_F(MixedPlacement, OfOneLayerIsItsWholeCellsAndOfThoseThatShareItsWeights) {
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
  expect_mixed(9);
  EXPECT_EQ(statistics().host_cells, 2u);
}

}  // namespace
}  // namespace weft::mesh::mixed_placement_test
