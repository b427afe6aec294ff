// SPDX-License-Identifier: Apache-2.0

// Rates by layer, `freeze`, clipping and schedules of rates in the weights, and options that are refused. The
// same bits everywhere: exactness_test.cpp.

#include "learning/optimizer.hpp"

#include <gtest/gtest.h>

#include "cases.hpp"
#include "networks.hpp"
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace weft::learning::update_rules_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

/// Two layers in a row, of which the first has keys of its own.
mesh::NetworkSpec pair_network(float rate_scale, bool freeze) {
  return mesh::NetworkBuilder("pair", GridShape{1, 1, 3, 1})
      .input("x", 6)
      .dense({0, 0, 0, 0}, 9, kernels::Activation::tanh)
      .dense({0, 0, 1, 0}, 5, kernels::Activation::tanh)
      .rate_scale(rate_scale)
      .freeze(freeze)
      .dense({0, 0, 2, 0}, 3)
      .output("y", {0, 0, 2, 0})
      .seed(4)
      .spec();
}

/// Weights of each layer after some samples.
std::vector<std::vector<float>> weights_after(const mesh::NetworkSpec& spec, const LearningOptions& options,
                                              std::uint64_t samples) {
  LearningRun run(spec, options);
  if (samples > 0) Samples(spec, options, samples, 1, 5).train(*run.learner, 0, samples);
  std::vector<std::vector<float>> all(3);
  for (std::uint32_t x = 0; x < 3; ++x)
    for (const auto& values : run.weights({0, 0, x, 0})) all[x].insert(all[x].end(), values.begin(), values.end());
  return all;
}

LearningOptions by_sgd(float lr, Clip clip = Clip::none, float limit = 1.0f) {
  LearningOptions options;
  options.optimizer = kernels::default_options(OptimizerKind::sgd);
  options.optimizer.lr = lr;
  options.optimizer.clip = clip;
  options.optimizer.clip_limit = limit;
  return options;
}

TEST(UpdateRules, ALayersRateIsItsShareOfTheNetworks) {
  const auto scaled = weights_after(pair_network(0.5f, false), by_sgd(0.25f), 1);
  const auto plain = weights_after(pair_network(1.0f, false), by_sgd(0.25f), 1);
  const auto slow = weights_after(pair_network(1.0f, false), by_sgd(0.125f), 1);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_EQ(scaled[1], slow[1]);
  EXPECT_NE(slow[1], plain[1]);
  EXPECT_EQ(scaled[2], plain[2]);
}

TEST(UpdateRules, AFrozenLayerStaysAndPassesErrorsOn) {
  for (const Rule rule : test::all_rules()) {
    LearningOptions options = by_sgd(0.1f);
    options.rule = rule;
    const auto start = weights_after(pair_network(1.0f, false), options, 0);
    // One sample: errors are computed with the weights before the update, frozen or not.
    const auto moved = weights_after(pair_network(1.0f, false), options, 1);
    const auto frozen = weights_after(pair_network(1.0f, true), options, 1);
    EXPECT_EQ(frozen[0], moved[0]) << name(rule);
    EXPECT_NE(frozen[0], start[0]) << name(rule);
    EXPECT_EQ(frozen[1], start[1]) << name(rule);
    EXPECT_NE(moved[1], start[1]) << name(rule);
    EXPECT_EQ(frozen[2], moved[2]) << name(rule);
  }
  LearningOptions options;
  options.optimizer = kernels::default_options(OptimizerKind::adamw);
  LearningRun run(pair_network(1.0f, true), options);
  const Optimizer& optimizer = run.learner->optimizer();
  const mesh::WeightStore& store = run.store();
  for (mesh::NodeId node = 1; node <= 3; ++node)
    for (const auto& parameter : store.of(node))
      for (std::size_t s = 0; s < 2; ++s)
        EXPECT_EQ(optimizer.slot(s, store.first(node) + parameter.index) == nullptr, node == 2) << node;
}

using Layers = std::vector<std::vector<double>>;

/// Gradients of one sample: what sgd with a rate of 1 takes off.
Layers gradients() {
  const auto start = weights_after(pair_network(1.0f, false), by_sgd(1.0f), 0);
  const auto moved = weights_after(pair_network(1.0f, false), by_sgd(1.0f), 1);
  Layers all(3);
  for (std::size_t l = 0; l < 3; ++l)
    for (std::size_t i = 0; i < start[l].size(); ++i)
      all[l].push_back(static_cast<double>(start[l][i]) - static_cast<double>(moved[l][i]));
  return all;
}

void expect_steps(const LearningOptions& options, const Layers& wanted) {
  const auto start = weights_after(pair_network(1.0f, false), options, 0);
  const auto moved = weights_after(pair_network(1.0f, false), options, 1);
  for (std::size_t l = 0; l < 3; ++l)
    for (std::size_t i = 0; i < start[l].size(); ++i)
      EXPECT_NEAR(static_cast<double>(start[l][i]) - static_cast<double>(moved[l][i]), wanted[l][i], 4e-7)
          << "layer " << l << ", weight " << i;
}

double squares(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return sum;
}

TEST(UpdateRules, ClippingTakesOffWhatItsFormulaSays) {
  const Layers g = gradients();
  const double norms[] = {std::sqrt(squares(g[0])), std::sqrt(squares(g[1])), std::sqrt(squares(g[2]))};
  const double all = std::sqrt(squares(g[0]) + squares(g[1]) + squares(g[2]));
  const float middle =
      static_cast<float>(0.5 * (*std::min_element(norms, norms + 3) + *std::max_element(norms, norms + 3)));
  Layers by_value = g, by_norm = g, by_all = g;
  bool is_some_clipped = false, is_some_kept = false;
  for (std::size_t l = 0; l < 3; ++l) {
    const double factor = std::min(1.0, static_cast<double>(middle) / (norms[l] + 1e-6));
    (factor < 1.0 ? is_some_clipped : is_some_kept) = true;
    for (std::size_t i = 0; i < g[l].size(); ++i) {
      by_value[l][i] = std::clamp(g[l][i], -0.0625, 0.0625);
      by_norm[l][i] = g[l][i] * factor;
      by_all[l][i] = g[l][i] * (all / 3) / (all + 1e-6);
    }
  }
  EXPECT_TRUE(is_some_clipped && is_some_kept) << norms[0] << " " << norms[1] << " " << norms[2];
  expect_steps(by_sgd(1.0f, Clip::value, 0.0625f), by_value);
  expect_steps(by_sgd(1.0f, Clip::norm, middle), by_norm);
  expect_steps(by_sgd(1.0f, Clip::global_norm, static_cast<float>(all / 3)), by_all);
  // A limit that nothing reaches changes no bit.
  const auto plain = weights_after(pair_network(1.0f, false), by_sgd(0.25f), 7);
  for (const Clip clip : {Clip::value, Clip::norm, Clip::global_norm})
    EXPECT_EQ(weights_after(pair_network(1.0f, false), by_sgd(0.25f, clip, 1e6f), 7), plain) << name(clip);
}

TEST(UpdateRules, TheRateFollowsTheCountOfUpdates) {
  LearningOptions scheduled = by_sgd(0.25f);
  scheduled.rate_schedule = {.kind = RateScheduleKind::step, .updates = 3, .factor = 0.5f};
  const auto spec = pair_network(1.0f, false);
  EXPECT_EQ(weights_after(spec, scheduled, 3), weights_after(spec, by_sgd(0.25f), 3));
  EXPECT_NE(weights_after(spec, scheduled, 4), weights_after(spec, by_sgd(0.25f), 4));
  LearningOptions warm = by_sgd(0.25f);
  warm.rate_schedule.warmup = 2;
  EXPECT_EQ(weights_after(spec, warm, 1), weights_after(spec, by_sgd(0.125f), 1));
}

TEST(UpdateRules, BadOptionsAreNamedWithTheirValues) {
  const auto expect_refused = [](const std::string& json, std::initializer_list<std::string_view> fragments) {
    const auto read = read_learning(json);
    ASSERT_FALSE(read) << json;
    expect_error(read, read.error().code(), fragments);
  };
  expect_refused(R"({"optimizer": {"lr": -0.5}})", {"learning.optimizer.lr", "-0.5"});
  expect_refused(R"({"optimizer": {"type": "rmsprop", "alpha": 1.5}})", {"learning.optimizer.alpha", "1.5"});
  expect_refused(R"({"optimizer": {"type": "rmspropp"}})", {"learning.optimizer.type", "rmspropp", "rmsprop"});
  expect_refused(R"({"optimizer": {"clip": "norm", "clip_limit": 0}})", {"learning.optimizer.clip_limit", "0"});
  expect_refused(R"({"optimizer": {"clip": "globalnorm"}})", {"learning.optimizer.clip", "globalnorm", "global_norm"});
  expect_refused(R"({"schedule": "pipelined", "optimizer": {"clip": "global_norm"}})",
                 {"learning.optimizer.clip", "global_norm", "pipelined"});
  expect_refused(R"({"rate_schedule": {"type": "cosin", "updates": 5}})",
                 {"learning.rate_schedule.type", "cosin", "cosine"});
  expect_refused(R"({"rate_schedule": {"type": "cosine"}})", {"learning.rate_schedule.updates", "cosine"});
  expect_refused(R"({"rate_schedule": {"type": "exponential", "factor": 2}})", {"learning.rate_schedule.factor", "2"});
  expect_refused(R"({"rate_schedule": {"type": "cosine", "updates": 5, "end": -1}})",
                 {"learning.rate_schedule.end", "-1"});
}

// Options that come from C++ and no file.
TEST(UpdateRules, BadTypedOptionsAreNamedWithTheirValues) {
  mesh::Mesh mesh = must(mesh::Mesh::build(pair_network(1.0f, false), {}));
  LearningOptions options = by_sgd(-0.5f);
  expect_error(Learner::build(mesh, options), Errc::out_of_range, {"learning.optimizer.lr", "-0.5"});
  options = by_sgd(std::numeric_limits<float>::quiet_NaN());
  expect_error(Learner::build(mesh, options), Errc::out_of_range, {"learning.optimizer.lr", "nan"});
  options = by_sgd(0.1f, Clip::norm, 0.0f);
  expect_error(Learner::build(mesh, options), Errc::out_of_range, {"learning.optimizer.clip_limit", "0 is not within"});
  options = by_sgd(0.1f);
  options.optimizer.alpha = 1.5f;
  expect_error(Learner::build(mesh, options), Errc::out_of_range, {"learning.optimizer.alpha", "1.5"});
  options = by_sgd(0.1f);
  options.rate_schedule.kind = RateScheduleKind::linear;
  expect_error(Learner::build(mesh, options), Errc::invalid_argument, {"learning.rate_schedule.updates", "linear"});
}

TEST(UpdateRules, BadKeysOfLayersAreNamedWithTheirValues) {
  for (const float scale :
       {-1.0f, 0.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    expect_error(mesh::Mesh::build(pair_network(scale, false), {}), Errc::out_of_range,
                 {"layers[1].rate_scale", "not above 0", "freeze"});
  mesh::NetworkSpec spec = pair_network(1.0f, false);
  spec.layers[1].type = "softmax";
  spec.layers[1].out = 0;
  spec.layers[1].options.clear();
  spec.layers[1].is_frozen = true;
  expect_error(mesh::Mesh::build(spec, {}), Errc::unsupported, {"layers[1].freeze", "softmax", "no weights"});
}

TEST(UpdateRules, OptionsAreWrittenAsTheyAreRead) {
  for (const UpdateCase& each : update_cases()) {
    const LearningOptions options = each.options(Rule::backprop, Schedule::settle);
    EXPECT_EQ(must(read_learning(write_learning(options))), options) << each.name;
  }
}

}  // namespace
}  // namespace weft::learning::update_rules_test
