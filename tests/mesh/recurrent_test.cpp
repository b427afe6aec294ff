// SPDX-License-Identifier: Apache-2.0

// rnn, lstm and gru over several ticks: against PyTorch, in meshes, across files. One step against finite differences:
// layers_test.cpp; learning: tests/learning/recurrent_test.cpp.

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/weights/weight_store.hpp"

#include "goldens.hpp"

namespace weft::mesh::recurrent_test {
namespace {

using testing_support::bits;
using testing_support::must;
using testing_support::noise;
using testing_support::output_of;
using testing_support::run_ticks;

class Recurrent : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Types, Recurrent, testing::Values("rnn", "lstm", "gru"),
                         [](const auto& type) { return type.param; });

LayerSpec spec_of(const std::string& type, std::size_t out, Options options = {}) {
  LayerSpec spec;
  spec.type = type;
  spec.out = out;
  spec.options = std::move(options);
  return spec;
}

TEST_P(Recurrent, ComputesAndSendsBackWhatPyTorchDoes) {
  const auto rows = goldens::read(GetParam());
  ASSERT_GE(rows.size(), 12u);
  for (const goldens::Golden& golden : rows) goldens::expect_as_pytorch(golden);
}

TEST_P(Recurrent, KnowsItsSizes) {
  const std::size_t gates = GetParam() == "lstm" ? 4 : GetParam() == "gru" ? 3 : 1;
  const auto layer = must(make_layer(spec_of(GetParam(), 6), 5, "layer"));
  EXPECT_EQ(layer->out(), 6u);
  EXPECT_EQ(layer->state_size(), GetParam() == "lstm" ? 12u : 6u);
  EXPECT_EQ(layer->multiply_adds(), static_cast<double>(gates * 6 * (5 + 6)));
  EXPECT_EQ(layer->mixing_matrix(), -1);
  ASSERT_EQ(layer->parameters().size(), 4u);
  const char* const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
  const std::size_t widths[] = {5, 6, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(layer->parameters()[i].name, names[i]);
    EXPECT_EQ(layer->parameters()[i].out, gates * 6);
    EXPECT_EQ(layer->parameters()[i].in, widths[i]);
    EXPECT_EQ(layer->parameters()[i].decays, i < 2);
  }
  EXPECT_EQ(must(make_layer(spec_of(GetParam(), 0), 5, "layer"))->out(), 5u) << "as wide as the input";
}

TEST_P(Recurrent, StartsFromPyTorchsDistributionUnlessToldElse) {
  // Uniform within +-1/sqrt(100), variance 1/300; bounds of 5 standard errors.
  const auto fill = [](const ParameterSpec& p) {
    std::vector<float> values(p.out * std::max<std::size_t>(p.in, 1), NAN);
    RandomStream random(3, 0, RandomPurpose::init);
    p.init(random, values);
    return values;
  };
  const auto layer = must(make_layer(spec_of(GetParam(), 100), 7, "layer"));
  for (const ParameterSpec& p : layer->parameters()) {
    double sum = 0, squares = 0, largest = 0;
    const auto values = fill(p);
    for (const float v : values) {
      sum += v;
      squares += double{v} * v;
      largest = std::max(largest, std::fabs(double{v}));
    }
    const double n = static_cast<double>(values.size());
    EXPECT_LE(std::fabs(sum / n), 5 * std::sqrt(1.0 / 300 / n)) << p.name;
    EXPECT_LE(std::fabs(squares / n - 1.0 / 300), 5.0 / 300 * std::sqrt(2.0 / n)) << p.name;
    EXPECT_LE(largest, 0.1 * (1 + 1e-6)) << p.name;
  }
  const auto he = must(make_layer(spec_of(GetParam(), 100, {{"init", std::string("he")}}), 7, "layer"));
  double squares = 0;
  const auto weights = fill(he->parameters()[0]);
  for (const float v : weights) squares += double{v} * v;
  const double n = static_cast<double>(weights.size());
  EXPECT_LE(std::fabs(squares / n - 2.0 / 7), 10.0 / 7 * std::sqrt(2.0 / n));
  for (const float v : fill(he->parameters()[2])) EXPECT_EQ(v, 0.0f);
}

TEST_P(Recurrent, RefusesOptionsThatAreWrong) {
  goldens::expect_refused(GetParam(), {{"bias", 1.0, Errc::parse_failed, "true or false"},
                                       {"init", std::string("glorot"), Errc::unknown_name, "xavier, he"},
                                       {"init", 0.5, Errc::parse_failed, "a text"},
                                       {"hidden", 4.0, Errc::unknown_name, "no such option"}});
  if (GetParam() == "rnn")
    goldens::expect_refused("rnn", {{"activation", std::string("gelu"), Errc::unknown_name, "tanh, relu"},
                                    {"activation", false, Errc::parse_failed, "a text"}});
}

/// The layer under test behind a dense one, in a loop with itself as sessions and files see it.
NetworkSpec network(const std::string& type) {
  return NetworkBuilder("memory", {1, 1, 3, 1})
      .input("x", 5)
      .dense({0, 0, 0, 0}, 7, kernels::Activation::tanh)
      .layer({0, 0, 1, 0}, type, 9)
      .dense({0, 0, 2, 0}, 3)
      .output("y", {0, 0, 2, 0})
      .seed(4)
      .spec();
}

TEST_P(Recurrent, TicksInAMeshAsPlainStepsDo) {
  Mesh mesh = must(Mesh::build(network(GetParam()), {.threads = 1}));
  const NodeId node = *mesh.graph().find_layer({0, 0, 1, 0});
  const Layer& layer = *mesh.graph().nodes()[node].layer;
  std::vector<float> state(layer.state_size()), next(layer.state_size()), cache(layer.cache_size()), y(9);
  kernels::CpuStream stream;
  for (std::uint64_t t = 0; t < 6; ++t) {
    const auto x = output_of(mesh, {0, 0, 0, 0});  // what the tick will read
    run_ticks(mesh, t, t + 1);
    const kernels::FlushSubnormals exact;
    layer.forward(stream, {MeshAccess::weights(mesh).view(node),
                           {x.data(), 1, 7, 7},
                           {},
                           {y.data(), 1, 9, 9},
                           {cache.data(), 1, cache.size(), cache.size()},
                           {state.data(), 1, state.size(), state.size()},
                           {next.data(), 1, next.size(), next.size()}});
    EXPECT_EQ(bits(output_of(mesh, {0, 0, 1, 0})), bits(y)) << "tick " << t;
    state = next;
  }
}

TEST_P(Recurrent, RunsManyTicksAtOnceAsOneByOne) {
  constexpr std::uint64_t kTicks = 150;
  std::vector<float> x;
  for (std::uint64_t t = 0; t < kTicks; ++t) {
    const auto row = noise(5, 100 + t);
    x.insert(x.end(), row.begin(), row.end());
  }
  Mesh one = must(Mesh::build(network(GetParam()), {.threads = 1}));
  run_ticks(one, 0, kTicks);
  for (const std::size_t threads : {1, 2, 7}) {
    Mesh all = must(Mesh::build(network(GetParam()), {.threads = threads, .grain_bytes = 0}));
    const RunInput input{"x", x};
    must(all.run({&input, 1}, kTicks));
    EXPECT_EQ(to_string(all.state_hash()), to_string(one.state_hash())) << threads << " threads";
  }
}

TEST_P(Recurrent, KeepsSessionsApartAndForgetsOnReset) {
  Mesh both = must(Mesh::build(network(GetParam()), {.threads = 1, .sessions = 2}));
  for (std::uint64_t t = 0; t < 8; ++t) {
    must(both.set_input("x", noise(5, 900 + t), 1));
    run_ticks(both, t, t + 1, 0);
  }
  Mesh alone = must(Mesh::build(network(GetParam()), {.threads = 1}));
  run_ticks(alone, 0, 8);
  EXPECT_EQ(bits(output_of(both, {0, 0, 1, 0}, 0)), bits(output_of(alone, {0, 0, 1, 0})));
  EXPECT_NE(bits(output_of(both, {0, 0, 1, 0}, 1)), bits(output_of(alone, {0, 0, 1, 0})));
  must(both.reset_session(0));
  run_ticks(both, 0, 8, 0);
  EXPECT_EQ(bits(output_of(both, {0, 0, 1, 0}, 0)), bits(output_of(alone, {0, 0, 1, 0})));
}

TEST_P(Recurrent, GoesOnFromAFileWithItsHiddenState) {
  Mesh unbroken = must(Mesh::build(network(GetParam()), {.threads = 1}));
  run_ticks(unbroken, 0, 5);
  const auto bytes = must(encode_mesh(unbroken, true));
  run_ticks(unbroken, 5, 9);
  const auto file = must(formats::decode_entity(ByteSpan(bytes), "test"));
  for (const bool with_state : {true, false}) {
    Mesh again = must(Mesh::build(must(network_of(file)), {.threads = 2, .grain_bytes = 0}));
    must(restore_weights(again, file));
    if (with_state) must(restore_live(again, file));
    run_ticks(again, 5, 9);
    EXPECT_EQ(bits(output_of(again, {0, 0, 1, 0})) == bits(output_of(unbroken, {0, 0, 1, 0})), with_state);
    EXPECT_EQ(again.state_hash() == unbroken.state_hash(), with_state);
  }
}

}  // namespace
}  // namespace weft::mesh::recurrent_test
