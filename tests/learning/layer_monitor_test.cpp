// SPDX-License-Identifier: Apache-2.0

// Measurements of LayerMonitor against closed forms in float64.

#include "learning/layer_monitor.hpp"

#include "learning/learner.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>
#include <memory>
#include <vector>

namespace weft::learning::layer_monitor_test {
namespace {

constexpr std::size_t kIn = 3, kOut = 2;
constexpr double kRate = 0.25;

/// One linear layer, or a chain of `depth` of them behind it.
mesh::Mesh chain(std::uint32_t depth) {
  mesh::NetworkBuilder b("chain", {1, 1, depth, 1});
  b.input("x", kIn);
  for (std::uint32_t i = 0; i < depth; ++i) b.dense({0, 0, i, 0}, kOut);
  b.output("y", {0, 0, depth - 1, 0}).seed(3);
  return *mesh::Mesh::build(b.spec(), {});
}

LearningOptions options(Rule rule, Schedule schedule) {
  LearningOptions o;
  o.rule = rule;
  o.schedule = schedule;
  o.loss = Loss::mse;
  o.optimizer.kind = OptimizerKind::sgd;
  o.optimizer.lr = static_cast<float>(kRate);
  o.step_limit = o.displacement_limit = 1e6f;  // nothing is shortened
  return o;
}

std::vector<double> parameters(const mesh::Mesh& mesh) {
  std::vector<double> all;
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(mesh);
  for (const auto& parameter : weights.of(*mesh.graph().find_layer({0, 0, 0, 0})))
    for (const float value : weights.read(parameter)) all.push_back(value);
  return all;
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

const std::vector<float> kX{0.5f, -1.25f, 2.0f}, kTarget{0.75f, -0.5f};

TEST(LayerMonitor, MeasuresErrorBudgetAndUpdateOfALinearLayer) {
  for (const Rule rule : {Rule::backprop, Rule::fw_dtp}) {
    mesh::Mesh mesh = chain(1);
    const auto learner = *Learner::build(mesh, options(rule, Schedule::settle));
    const std::vector<double> w = parameters(mesh);
    std::vector<double> y(kOut), g(kOut), target(kOut);
    for (std::size_t o = 0; o < kOut; ++o) {
      y[o] = w[kOut * kIn + o];
      for (std::size_t i = 0; i < kIn; ++i) y[o] += w[o * kIn + i] * double{kX[i]};
      g[o] = 2 * (y[o] - double{kTarget[o]}) / kOut;  // of the mean of squares
      target[o] = y[o] - g[o];
    }
    LayerMonitor watch(*learner);
    watch.measure(true);
    const mesh::RunInput input{"x", kX};
    const Target wanted{"y", {}, kTarget};
    // A sample that came first would have no past: the mesh stands at its first tick then.
    ASSERT_TRUE(learner->learn({&input, 1}, {}, 1));
    EXPECT_TRUE(watch.read().empty()) << "no error has come";
    ASSERT_TRUE(learner->learn({&input, 1}, {&wanted, 1}, 1));
    const auto found = watch.read();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].at, (Coord{0, 0, 0, 0}));
    EXPECT_NEAR(found[0].error, norm(g) / std::sqrt(double{kOut}), 1e-5);
    EXPECT_EQ(found[0].error_age, 0u);
    double share = 1;
    if (rule == Rule::fw_dtp) {
      double dot = 0;
      for (std::size_t o = 0; o < kOut; ++o) dot += y[o] * target[o];
      const double budget = (dot / (norm(y) * norm(target)) + 1) / 2;
      ASSERT_TRUE(found[0].budget);
      EXPECT_NEAR(*found[0].budget, budget, 1e-5);
      share = budget < 0.2 ? 0 : 0.5 + 0.5 * budget;
    } else {
      EXPECT_FALSE(found[0].budget) << "no targets";
    }
    std::vector<double> change, after;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const std::size_t o = i < kOut * kIn ? i / kIn : i - kOut * kIn;
      change.push_back(-kRate * share * g[o] * (i < kOut * kIn ? double{kX[i % kIn]} : 1.0));
      after.push_back(w[i] + change.back());
    }
    EXPECT_NEAR(found[0].update, norm(change) / std::sqrt(double(w.size())), 1e-5);
    EXPECT_NEAR(found[0].relative_update, norm(change) / norm(after), 1e-5);
    EXPECT_NEAR(found[0].weight, norm(after) / std::sqrt(double(w.size())), 1e-5);
  }
}

// In a pipeline the error of a layer r links before the output speaks of 2 r ticks ago.
TEST(LayerMonitor, TellsTheAgeOfErrorsAndChangesNoBit) {
  constexpr std::uint32_t kDepth = 4;
  for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
    mesh::Mesh measured = chain(kDepth), plain = chain(kDepth);
    LearningOptions slow = options(Rule::backprop, schedule);
    slow.optimizer.lr = 0.01f;
    const auto one = *Learner::build(measured, slow);
    const auto other = *Learner::build(plain, slow);
    auto watch = std::make_unique<LayerMonitor>(*one);
    const mesh::RunInput input{"x", kX};
    const Target target{"y", {}, kTarget};
    for (int sample = 0; sample < 40; ++sample) {
      watch->measure(sample % 3 == 0);
      ASSERT_TRUE(one->learn({&input, 1}, {&target, 1}, 1));
      ASSERT_TRUE(other->learn({&input, 1}, {&target, 1}, 1));
    }
    const auto found = watch->read();
    ASSERT_EQ(found.size(), kDepth);
    for (std::uint32_t layer = 0; layer < kDepth; ++layer) {
      EXPECT_EQ(found[layer].at.x, layer);
      const std::uint32_t distance = kDepth - 1 - layer;
      EXPECT_EQ(found[layer].error_age, schedule == Schedule::pipelined ? 2 * distance : distance) << layer;
      EXPECT_GT(found[layer].update, 0.0f);
    }
    watch.reset();
    ASSERT_TRUE(one->learn({&input, 1}, {&target, 1}, 1)) << "nobody looks any more";
    ASSERT_TRUE(other->learn({&input, 1}, {&target, 1}, 1));
    EXPECT_EQ(measured.state_hash(), plain.state_hash());
  }
}

/// A run whose layers' rates are set halfway. Its steps are fused where nobody looks.
std::string hash_of_set_rates(Rule rule, bool is_watched) {
  using namespace test;
  LearningRun run(digits_network(9), {.rule = rule, .schedule = Schedule::pipelined});
  LayerMonitor watch(*run.learner);
  watch.measure(is_watched);
  const Samples samples(digits_network(9), {.rule = rule}, 80);
  samples.train(*run.learner, 0, 40);
  for (const auto& [at, rate] : {std::pair{Coord{0, 0, 1, 0}, 0.25f}, {Coord{0, 1, 0, 0}, 0.0f}}) {
    auto command = mesh::make_command(mesh::CommandKind::set_rate);
    command->values = {rate};
    mesh::testing_support::must(run.mesh->post(at, command));
  }
  samples.train(*run.learner, 40, 40);
  mesh::testing_support::must(run.learner->drain());
  return run.hash();
}

// Golden hashes: rates, a watch and fused steps together leave the bits that each of them has alone.
TEST(LayerMonitor, LeavesTheHashOfARunWhoseRatesAreSet) {
  const struct {
    Rule rule;
    const char* hash;
  } rows[] = {{Rule::backprop, "a9c8a68dd66f68cabfbd717d6365162c"},
              {Rule::fw_dtp, "4c75645678d91940b3a67fb5fd545922"},
              {Rule::dfa, "dc11d8bd967986b1cc5775786b345c50"},
              {Rule::local_ce, "99c12883ff3747bdf598dd95b4a11251"}};
  for (const kernels::Isa isa : kernels::available_isas()) {
    const mesh::testing_support::ForIsa scope(isa);
    for (const auto& [rule, hash] : rows)
      for (const bool is_watched : {false, true})
        EXPECT_EQ(hash_of_set_rates(rule, is_watched), hash) << name(isa) << ", " << name(rule) << is_watched;
  }
}

}  // namespace
}  // namespace weft::learning::layer_monitor_test
