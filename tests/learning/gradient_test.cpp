// SPDX-License-Identifier: Apache-2.0

// Backprop through ticks against a float64 model of the same mesh, written apart, and its finite differences.

#include "mesh/network/graph.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include "tests/mesh/layer_models.hpp"
#include <cmath>

namespace weft::learning::gradient_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using kernels::Activation;
using mesh::models::Vector;

/// A mesh in float64, tick by tick, of layers that read their sources side by side.
struct Reference {
  struct Cell {
    mesh::models::Model model;
    std::vector<std::size_t> sources;
    std::vector<std::size_t> parameters;
    Vector y, state;
  };
  std::vector<Cell> cells;  // ports first
  std::vector<Vector> weights;
  std::size_t ports, output;

  explicit Reference(const LearningRun& run) : weights(run.weights()), ports(run.mesh->graph().port_count()) {
    const mesh::Graph& graph = run.mesh->graph();
    output = run.node(run.mesh->spec().outputs[0].at);
    for (const mesh::Node& node : graph.nodes()) {
      Cell& cell = cells.emplace_back();
      cell.y.resize(node.width);
      if (node.is_port()) continue;
      cell.model = model_of(run.mesh->spec(), node);
      cell.state.resize(node.layer->state_size());
      for (const std::uint32_t edge : node.sources) cell.sources.push_back(graph.edges()[edge].from);
      for (std::size_t i = 0; i < node.layer->parameters().size(); ++i)
        cell.parameters.push_back(run.store().first(static_cast<mesh::NodeId>(cells.size() - 1)) + i);
    }
  }
  static mesh::models::Model model_of(const mesh::NetworkSpec& spec, const mesh::Node& node) {
    const auto& layer = *std::find_if(spec.layers.begin(), spec.layers.end(),
                                      [&](const mesh::LayerSpec& each) { return each.at == node.at; });
    if (layer.type == "rnn") return mesh::models::rnn(node.width, true, Activation::tanh);
    if (layer.type == "lstm") return mesh::models::lstm(node.width, true);
    if (layer.type == "gru") return mesh::models::gru(node.width, true);
    if (layer.type == "swiglu") return mesh::models::swiglu(node.layer->parameters()[0].out, false, Activation::silu);
    EXPECT_EQ(layer.type, "dense") << "a layer without a model";
    const auto activation = layer.options.find("activation");
    return mesh::models::dense(activation == layer.options.end()
                                   ? Activation::linear
                                   : *kernels::parse_activation(std::get<std::string>(activation->second)));
  }
  void tick() {
    std::vector<Cell> next = cells;
    for (std::size_t i = ports; i < cells.size(); ++i) {
      Vector x;
      for (const std::size_t from : cells[i].sources) x.insert(x.end(), cells[from].y.begin(), cells[from].y.end());
      std::vector<Vector> own;
      for (const std::size_t p : cells[i].parameters) own.push_back(weights[p]);
      auto outcome = cells[i].model(own, x, cells[i].state);
      next[i].y = std::move(outcome.y), next[i].state = std::move(outcome.next);
    }
    cells = std::move(next);
  }
  /// Cross entropy of the first output after so many ticks with the same inputs.
  double loss(const Samples& given, std::size_t ticks) const {
    Reference one(*this);
    for (std::size_t i = 0; i < ports; ++i)
      one.cells[i].y.assign(given.inputs[i].values.begin(), given.inputs[i].values.end());
    for (std::size_t t = 0; t < ticks; ++t) one.tick();
    double sum = 0;
    for (const double v : one.cells[output].y) sum += std::exp(v);
    return std::log(sum) - one.cells[output].y[given.targets[0].labels[0]];
  }
};

/// Three tanh layers in a loop, of which the second is read by a linear output.
mesh::NetworkSpec loop_network() {
  return mesh::NetworkBuilder("loop", GridShape{1, 2, 2, 1})
      .input("x", 4)
      .dense({0, 0, 0, 0}, 6, Activation::tanh)
      .from({"x", Coord{0, 1, 1, 0}})
      .dense({0, 0, 1, 0}, 5, Activation::tanh)
      .dense({0, 1, 0, 0}, 3)
      .from({Coord{0, 0, 1, 0}})
      .dense({0, 1, 1, 0}, 3, Activation::tanh)
      .from({Coord{0, 0, 1, 0}})
      .output("y", {0, 1, 0, 0})
      .seed(5)
      .spec();
}

mesh::NetworkSpec one_layer_of(const std::string& type) {
  return mesh::NetworkBuilder(type, GridShape{1, 1, 2, 1})
      .input("x", 4)
      .layer({0, 0, 0, 0}, type, 6)
      .dense({0, 0, 1, 0}, 3)
      .output("y", {0, 0, 1, 0})
      .seed(5)
      .spec();
}

LearningOptions by_sgd(std::uint32_t horizon, std::uint32_t hold, float lr) {
  return {.optimizer = {.kind = OptimizerKind::sgd, .lr = lr}, .horizon = horizon, .hold = hold};
}

TEST(Backprop, ThroughTicksLoopsAndHiddenStatesEqualsFiniteDifferencesInFloat64) {
  constexpr std::uint32_t kHold = 9;  // the error runs round a loop of three twice
  for (const mesh::NetworkSpec& spec : {loop_network(), one_layer_of("rnn"), one_layer_of("lstm"), one_layer_of("gru"),
                                        one_layer_of("swiglu"), recurrent_network(3)}) {
    SCOPED_TRACE(spec.name);
    const LearningOptions options = by_sgd(kHold, kHold, 1.0f);
    LearningRun run(spec, options);
    const Reference model(run);
    Samples given(spec, options, 1, 1, 3);
    if (given.targets.size() > 1) given.targets.pop_back();
    given.train(*run.learner, 0, 1);
    EXPECT_NEAR(run.learner->scores()[0].loss, model.loss(given, kHold), 1e-5);
    const auto after = run.weights();
    for (std::size_t p = 0; p < after.size(); ++p)
      for (std::size_t i = 0; i<after[p].size(); i += after[p].size()> 400 ? 17 : 1) {
        constexpr double kStep = 1e-5;
        Reference up(model), down(model);
        up.weights[p][i] += kStep;
        down.weights[p][i] -= kStep;
        const double wanted = (up.loss(given, kHold) - down.loss(given, kHold)) / (2 * kStep);
        // One float32 rounding of a weight below 2 bounds what the difference of weights can show.
        EXPECT_NEAR(model.weights[p][i] - after[p][i], wanted, 1e-5 * std::abs(wanted) + 2.5e-7) << p << " " << i;
      }
  }
}

TEST(Backprop, TruncatedAtTheHorizonLeavesFartherPathsOut) {
  // With horizon 2 the error reaches the output and what it reads; the two others of the loop stay as they were.
  LearningRun run(loop_network(), by_sgd(2, 0, 0.5f));
  const auto before = run.weights();
  run.train({0.5f, -1.25f, 0.75f, 0.3f}, {1});
  const auto after = run.weights();
  const bool moves[] = {false, false, true, true, true, true, false, false};
  for (std::size_t p = 0; p < after.size(); ++p) EXPECT_EQ(before[p] != after[p], moves[p]) << p;
}

// Pipelined: with a learning rate too small to matter, the sum of the updates is the sum of the samples' own gradients,
// each taken with its own activations, although samples follow each other tick by tick.
TEST(Backprop, PipelinedMeetsEverySampleWithItsOwnActivations) {
  const mesh::NetworkSpec spec = mesh::NetworkBuilder("chain", GridShape{1, 1, 3, 1})
                                     .input("x", 4)
                                     .dense({0, 0, 0, 0}, 6, Activation::tanh)
                                     .dense({0, 0, 1, 0}, 5, Activation::tanh)
                                     .dense({0, 0, 2, 0}, 3)
                                     .output("y", {0, 0, 2, 0})
                                     .seed(9)
                                     .spec();
  constexpr std::uint64_t kSamples = 40;
  const auto sum_of_gradients = [&](Schedule schedule) {
    // 2^-14: a power of two, so the division below is exact; weights move by about 1e-3 in all.
    LearningOptions options = by_sgd(0, 0, 0x1p-14f);
    options.schedule = schedule;
    LearningRun run(spec, options);
    const auto before = run.weights();
    Samples(spec, options, kSamples).train(*run.learner, 0, kSamples);
    must(run.learner->drain());
    EXPECT_EQ(run.learner->scores().size(), kSamples);
    for (std::uint64_t s = 0; s < kSamples; ++s) EXPECT_EQ(run.learner->scores()[s].sample, s);
    auto after = run.weights();
    for (std::size_t p = 0; p < after.size(); ++p)
      for (std::size_t i = 0; i < after[p].size(); ++i) after[p][i] = (before[p][i] - after[p][i]) * 0x1p14;
    return after;
  };
  const auto settled = sum_of_gradients(Schedule::settle), pipelined = sum_of_gradients(Schedule::pipelined);
  for (std::size_t p = 0; p < settled.size(); ++p)
    for (std::size_t i = 0; i < settled[p].size(); ++i)
      EXPECT_NEAR(settled[p][i], pipelined[p][i], 0.02 + 0.01 * std::abs(settled[p][i])) << p << " " << i;
}

}  // namespace
}  // namespace weft::learning::gradient_test
