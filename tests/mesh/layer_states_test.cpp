// SPDX-License-Identifier: Apache-2.0

// Layers that remember, in meshes: ticks are plain steps however many are run at once, sessions stay apart, and a state
// goes with its session and its file.

#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/state.hpp"

#include "goldens.hpp"

namespace weft::mesh::layer_states_test {
namespace {

using namespace testing_support;

struct Row {
  std::string name, layer;
};

class LayerState : public testing::TestWithParam<Row> {
 protected:
  static constexpr Coord kAt{0, 0, 1, 0};
  /// The layer under test between two dense ones.
  static NetworkSpec network() {
    NetworkSpec spec = NetworkBuilder("memory", {1, 1, 3, 1})
                           .input("x", 5)
                           .dense({0, 0, 0, 0}, 8, kernels::Activation::tanh)
                           .layer(kAt, "identity")
                           .dense({0, 0, 2, 0}, 3)
                           .output("y", {0, 0, 2, 0})
                           .seed(4)
                           .spec();
    spec.layers[1] = goldens::layer(GetParam().layer);
    spec.layers[1].at = kAt;
    return spec;
  }
  static Mesh build(std::size_t sessions = 1, std::size_t threads = 1) {
    return must(Mesh::build(network(), {.threads = threads, .sessions = sessions, .grain_bytes = 0}));
  }
  static std::vector<std::uint32_t> output(const Mesh& mesh, std::size_t session = 0) {
    return bits(output_of(mesh, kAt, session));
  }
};

INSTANTIATE_TEST_SUITE_P(
    Of, LayerState,
    testing::Values(
        Row{"rnn", R"({"type": "rnn", "out": 9})"}, Row{"lstm", R"({"type": "lstm", "out": 9})"},
        Row{"gru", R"({"type": "gru", "out": 9})"}, Row{"leaky_integrator", R"({"type": "leaky_integrator"})"},
        Row{"gru_snap1", R"({"type": "gru", "out": 9, "through_time": "snap1"})"},
        Row{"gru_eprop", R"({"type": "gru", "out": 9, "through_time": "eprop"})"},
        Row{"lstm_snap1", R"({"type": "lstm", "out": 9, "through_time": "snap1"})"},
        Row{"lstm_eprop", R"({"type": "lstm", "out": 9, "through_time": "eprop"})"},
        Row{"diagonal", R"({"type": "diagonal", "out": 10})"},
        Row{"diagonal_bent", R"({"type": "diagonal", "out": 10, "activation": "tanh", "activation_of": "state"})"},
        Row{"diagonal_backward",
            R"({"type": "diagonal", "out": 10, "through_time": "backward", "activation": "tanh"})"},
        Row{"attention", R"({"type": "attention", "out": 9, "heads": 4, "kv_heads": 2, "context": 6, "rope": "half"})"},
        Row{"gumbel", R"({"type": "softmax", "kind": "gumbel", "temperature": 0.8, "groups": 2})"},
        Row{"gumbel_straight", R"({"type": "softmax", "kind": "gumbel", "straight_through": true, "groups": 2})"},
        Row{"sequential",
            R"({"type": "sequential", "layers": [{"type": "leaky_integrator"}, {"type": "gru", "out": 7}]})"},
        Row{"sequential_diagonal",
            R"({"type": "sequential", "layers": [{"type": "leaky_integrator"}, {"type": "diagonal", "out": 6}]})"},
        Row{"sequential_traces", R"({"type": "sequential", "layers": [
                                    {"type": "gru", "out": 6}, {"type": "lstm", "out": 5, "through_time": "snap1"}]})"},
        Row{"filter", R"({"type": "parallel", "merge": "filter", "top_k": 1, "balance": 1.0, "layers": [
                          {"type": "leaky_integrator", "rate": 0.25}, {"type": "leaky_integrator"}]})"}),
    [](const auto& row) { return row.param.name; });

TEST_P(LayerState, TicksAsPlainStepsDo) {
  Mesh mesh = build();
  const NodeId node = *mesh.graph().find_layer(kAt);
  const Layer& layer = *mesh.graph().nodes()[node].layer;
  const auto row = [](std::vector<float>& v) {
    return kernels::MatrixView{v.data(), v.empty() ? 0u : 1u, v.size(), v.size()};
  };
  const auto before = MeshAccess::state(std::as_const(mesh)).hidden(node, 0);
  std::vector<float> state(before.row(0), before.row(0) + layer.state_size()), next(state.size());
  std::vector<float> cache(layer.cache_size()), y(layer.out());
  AlignedBuffer<float> workspace(layer.workspace_size());
  kernels::CpuStream stream;
  for (std::uint64_t t = 0; t < 6; ++t) {
    auto x = output_of(mesh, {0, 0, 0, 0});  // what the tick will read
    run_ticks(mesh, t, t + 1);
    const kernels::FlushSubnormals exact;
    layer.forward(stream, {MeshAccess::weights(mesh).view(node),
                           row(x),
                           {},
                           row(y),
                           row(cache),
                           row(state),
                           row(next),
                           workspace.data()});
    EXPECT_EQ(output(mesh), bits(y)) << "tick " << t;
    state = next;
  }
}

TEST_P(LayerState, RunsManyTicksAtOnceAsOneByOneOnEveryMachineShape) {
  constexpr std::uint64_t kTicks = 70;
  std::vector<float> x;
  for (std::uint64_t t = 0; t < kTicks; ++t) {
    const auto row = noise(5, 100 + t);
    for (int session = 0; session < 2; ++session) x.insert(x.end(), row.begin(), row.end());
  }
  Mesh one = build();
  run_ticks(one, 0, kTicks);
  for (const kernels::Isa isa : kernels::available_isas()) {
    const ForIsa scope(isa);
    for (const std::size_t threads : {1, 2, 7}) {
      Mesh all = build(2, threads);
      const RunInput input{"x", x};
      must(all.run({&input, 1}, kTicks));
      EXPECT_EQ(to_string(all.state_hash(0)), to_string(one.state_hash())) << name(isa) << ", " << threads;
    }
  }
}

// Loom let queries of one sample see keys of others.
TEST_P(LayerState, KeepsSessionsApartAndForgetsOnReset) {
  Mesh both = build(2), alone = build();
  const auto run = [&] {
    for (std::uint64_t t = 0; t < 9; ++t) {
      must(both.set_input("x", noise(5, 900 + t), 1));
      run_ticks(both, t, t + 1, 0);
    }
  };
  run();
  run_ticks(alone, 0, 9);
  EXPECT_EQ(output(both, 0), output(alone));
  EXPECT_NE(output(both, 1), output(alone));
  must(both.reset_session(0));
  run();
  EXPECT_EQ(output(both, 0), output(alone));
}

TEST_P(LayerState, GoesWithItsSessionToAnotherMeshAndRow) {
  Mesh mesh = build(3), elsewhere = build();
  const auto run = [](Mesh& each, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t t = from; t < to; ++t) {
      for (std::size_t b = 0; b < each.sessions(); ++b) must(each.set_input("x", noise(5, 100 + t), b));
      must(each.tick());
    }
  };
  run(mesh, 0, 5);
  run(elsewhere, 0, 2);
  SessionSnapshot moved;
  must(mesh.take_session_snapshot(2, moved));
  must(elsewhere.restore_session_snapshot(0, moved));
  run(mesh, 5, 12);
  run(elsewhere, 5, 12);
  EXPECT_EQ(output(mesh, 2), output(elsewhere));
  must(mesh.remove_session(0));
  run(mesh, 12, 16);
  run(elsewhere, 12, 16);
  EXPECT_EQ(output(mesh, 1), output(elsewhere));
}

TEST_P(LayerState, GoesOnFromAFile) {
  Mesh unbroken = build(2);
  run_ticks(unbroken, 0, 9);
  const ByteBuffer bytes = must(encode_mesh(unbroken, true));
  run_ticks(unbroken, 9, 13);
  for (const bool with_state : {true, false}) {
    Mesh again = mesh_of_file(bytes, {.threads = 2, .grain_bytes = 0}, with_state);
    run_ticks(again, 9, 13);
    EXPECT_EQ(output(again) == output(unbroken), with_state);
    for (const std::size_t session : {0, 1})
      EXPECT_EQ(again.state_hash(session) == unbroken.state_hash(session), with_state);
  }
}

}  // namespace
}  // namespace weft::mesh::layer_states_test
