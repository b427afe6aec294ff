// SPDX-License-Identifier: Apache-2.0

// Layers with hidden state learn by every rule, and remember what an output needs ticks later. Gradients:
// gradient_test.cpp; the same bits everywhere: exactness_test.cpp.

#include "learning/error_schedule.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include "tests/mesh/raw_layer.hpp"

namespace weft::learning::recurrent_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

class Recurrent : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Types, Recurrent, ::testing::Values("rnn", "lstm", "gru"),
                         [](const auto& type) { return type.param; });

constexpr std::size_t kIn = 4, kHidden = 6, kOut = 3;

mesh::NetworkSpec small_network(const std::string& type) {
  return mesh::NetworkBuilder("small", GridShape{1, 1, 2, 1})
      .input("x", kIn)
      .layer({0, 0, 0, 0}, type, kHidden)
      .dense({0, 0, 1, 0}, kOut)
      .output("y", {0, 0, 1, 0})
      .seed(5)
      .spec();
}

TEST(SeveralLearners, MoveALayerByTheMeanOfTheirGradients) {
  constexpr std::size_t kLearners = 3;
  const std::vector<float> x = noise(kLearners * kIn, 4);
  const std::vector<std::uint32_t> labels{1, 0, 2};
  for (const char* type : {"rnn", "lstm", "gru", "swiglu"}) {
    const auto change = [&](std::size_t first, std::size_t count) {
      const LearningOptions options{
          .optimizer = {.kind = OptimizerKind::sgd, .lr = 1.0f}, .horizon = 5, .hold = 5, .learners = count};
      LearningRun run(small_network(type), options, shape(1, count));
      auto moved = run.weights();
      run.train({x.begin() + first * kIn, x.begin() + (first + count) * kIn},
                {labels.begin() + first, labels.begin() + first + count});
      const auto after = run.weights();
      for (std::size_t p = 0; p < moved.size(); ++p)
        for (std::size_t i = 0; i < moved[p].size(); ++i) moved[p][i] -= after[p][i];
      return moved;
    };
    const auto together = change(0, kLearners), a = change(0, 1), b = change(1, 1), c = change(2, 1);
    for (std::size_t p = 0; p < together.size(); ++p)
      for (std::size_t i = 0; i < together[p].size(); ++i)
        ASSERT_NEAR(together[p][i], (a[p][i] + b[p][i] + c[p][i]) / 3, 5e-7) << type << " " << p << " " << i;
  }
}

TEST(RecurrentRules, EveryRuleMovesEveryParameterOfEveryLayer) {
  for (const Rule rule : test::all_rules())
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      if (rule == Rule::gap_original) continue;  // nothing below a gru or a swiglu
      LearningOptions options{.rule = rule, .schedule = schedule};
      options.horizon = rule == Rule::backprop ? 8 : 0;
      LearningRun run(recurrent_network(3), options);
      const auto before = run.weights();
      Samples(recurrent_network(3), options, 60).train(*run.learner, 0, 60);
      must(run.learner->drain());
      const auto after = run.weights();
      for (std::size_t p = 0; p < after.size(); ++p) EXPECT_NE(before[p], after[p]) << name(rule) << " " << p;
    }
}

/// Episodes of six ticks: a bit is shown in the first, the sixth asks for it, noise in between. The share of right
/// answers of the last `kLast` episodes, each answered before it was learned from.
double remember(const mesh::NetworkSpec& spec, std::uint32_t horizon, std::uint64_t episodes, Rule rule) {
  constexpr std::uint64_t kTicks = 6, kLast = 300;
  const LearningOptions options{.rule = rule,
                                .schedule = Schedule::pipelined,
                                .optimizer = {.kind = OptimizerKind::adamw, .lr = 0.005f},
                                .horizon = horizon};
  LearningRun run(spec, options);
  std::vector<float> x;
  std::vector<std::uint32_t> labels;
  RandomStream random(6, 0, RandomPurpose::test);
  for (std::uint64_t episode = 0; episode < episodes; ++episode) {
    const std::uint32_t bit = random.next_below(2);
    for (std::uint64_t t = 0; t < kTicks; ++t) {
      x.push_back(t == 0 ? 1.0f : 0.0f);
      x.push_back(t == 0 ? 2.0f * static_cast<float>(bit) - 1.0f : 0.3f * random.next_normal());
      x.push_back(t == kTicks - 1 ? 1.0f : 0.0f);
      labels.push_back(t == kTicks - 1 ? bit : kNoLabel);
    }
  }
  run.train(x, labels, {}, episodes * kTicks);
  must(run.learner->drain());
  std::uint64_t asked = 0, right = 0;
  for (const Score& score : run.learner->scores()) {
    if (score.label == kNoLabel || score.sample < (episodes - kLast) * kTicks) continue;
    ++asked;
    right += score.prediction == score.label;
  }
  WEFT_ASSERT(asked == kLast, "episodes that were scored");
  return static_cast<double>(right) / static_cast<double>(asked);
}

double remember(const std::string& type, std::uint32_t horizon, std::uint64_t episodes, Rule rule = Rule::backprop) {
  return remember(mesh::NetworkBuilder("remember", GridShape{1, 1, 2, 1})
                      .input("x", 3)
                      .layer({0, 0, 0, 0}, type, 16)
                      .dense({0, 0, 1, 0}, 2)
                      .output("y", {0, 0, 1, 0})
                      .seed(2)
                      .spec(),
                  horizon, episodes, rule);
}

TEST_P(Recurrent, LearnsToRememberABitForFiveTicksThroughItsState) {
  EXPECT_GT(remember(GetParam(), 8, 3000), 0.95);
  EXPECT_GT(remember(GetParam(), 0, 3000), 0.95);
  // The error must reach the tick that showed the bit: what a state holds by chance does not do.
  EXPECT_LT(remember(GetParam(), 2, 3000), 0.9);
}

// Targets of the hidden state reach the tick that showed the bit. Feedback that is random, or still learned, does not
// carry them through every type (docs/learning.md, "Waves").
TEST_P(Recurrent, RemembersByTargetsFromTickToTick) {
  std::vector<Rule> rules{Rule::gap_difference};
  if (GetParam() != "rnn") rules.insert(rules.end(), {Rule::chain, Rule::dtp});
  if (GetParam() == "gru") rules.insert(rules.end(), {Rule::fw_dtp, Rule::sdtp});
  for (const Rule rule : rules) {
    const double far = remember(GetParam(), 0, 3000, rule), near = remember(GetParam(), 2, 3000, rule);
    EXPECT_GT(far, 0.95) << name(rule);
    EXPECT_LT(near, 0.9) << name(rule);
  }
}

/// A container that holds a layer of the type, and one that holds that container.
mesh::NetworkSpec inside_containers(const std::string& type, std::size_t hidden, std::size_t in, std::size_t out) {
  const std::string width = std::to_string(hidden);
  return must(mesh::read_network(R"({"weft": 2, "seed": 2, "grid": {"x": 2}, "inputs": {"x": [)" + std::to_string(in) +
                                     R"(]}, "layers": [
  {"at": [0,0,0,0], "type": "sequential", "from": ["x"], "layers": [
     {"type": "parallel", "merge": "concat", "layers": [{"type": ")" +
                                     type + R"(", "out": )" + width + R"(}, {"type": "dense", "out": 2}]}]},
  {"at": [0,0,1,0], "type": "dense", "out": )" +
                                     std::to_string(out) + R"(}], "outputs": {"y": [0,0,1,0]}})",
                                 "containers"));
}

TEST_P(Recurrent, RememberWhatContainersHoldByDefault) {
  EXPECT_GT(remember(inside_containers(GetParam(), 16, 3, 2), 0, 3000, Rule::backprop), 0.95);
  EXPECT_LT(remember(inside_containers(GetParam(), 16, 3, 2), 2, 3000, Rule::backprop), 0.9);
  // Of targets as much as without a container, but for rnn, whose place in the parallel layer changes what it is given.
  if (GetParam() != "rnn")
    EXPECT_GT(remember(inside_containers(GetParam(), 16, 3, 2), 0, 3000, Rule::gap_difference), 0.95);
}

/// Distances at which errors reach the first layer, without a stated horizon.
std::size_t reached(const mesh::NetworkSpec& spec, Rule rule) {
  return ErrorSchedule(must(mesh::Graph::build(spec)), rule, 0).of(1).size();
}

TEST(StateErrors, GoThroughEveryStateThatPassesThemByDefault) {
  mesh::testing_support::register_raw();
  const auto behind = [](const std::string& type, auto&& set) {
    mesh::NetworkBuilder network("state", GridShape{1, 1, 2, 1});
    network.input("x", 8).layer({0, 0, 0, 0}, type);
    set(network);
    return network.dense({0, 0, 1, 0}, 3).output("y", {0, 0, 1, 0}).spec();
  };
  const auto plain = [](mesh::NetworkBuilder&) {};
  // The layer's own distance, then 8 ticks of its past.
  for (const Rule rule : {Rule::backprop, Rule::chain, Rule::fw_dtp, Rule::gap_difference}) {
    EXPECT_EQ(reached(small_network("gru"), rule), 9u) << name(rule);
    EXPECT_EQ(reached(inside_containers("gru", 4, 3, 2), rule), 9u) << name(rule);
    EXPECT_EQ(reached(behind("leaky_integrator", plain), rule), 9u) << name(rule);
    EXPECT_EQ(reached(behind("raw", plain), rule), 9u) << name(rule) << ", a registered layer";
    // Noise, and positions, are no memory.
    EXPECT_EQ(reached(behind("dropout", plain), rule), 1u) << name(rule);
    EXPECT_EQ(reached(behind("diagonal", plain), rule), 1u) << name(rule) << ", whose state has its derivatives";
  }
  const auto keys = behind("attention", [](auto& network) { network.option("heads", 2.0).option("context", 4.0); });
  EXPECT_EQ(reached(keys, Rule::backprop), 9u);
  EXPECT_EQ(reached(keys, Rule::chain), 1u) << "keys and values have no targets";
  for (const Rule rule : {Rule::dfa, Rule::local_ce, Rule::gap_original})
    EXPECT_EQ(reached(small_network("gru"), rule), 1u) << name(rule);
}

TEST(StateErrors, AreToldOfWhereThereAreNone) {
  const auto told = [](const mesh::NetworkSpec& spec, LearningOptions options) {
    const LearningRun run(spec, options);
    return states_without_errors(*run.learner);
  };
  using Nodes = std::vector<mesh::NodeId>;
  for (const Rule rule : test::all_rules()) {
    const bool sends_none = rule == Rule::dfa || rule == Rule::local_ce || rule == Rule::gap_original;
    EXPECT_EQ(told(small_network("lstm"), {.rule = rule}), sends_none ? Nodes{1} : Nodes{}) << name(rule);
    EXPECT_EQ(told(inside_containers("lstm", 4, 3, 2), {.rule = rule}), sends_none ? Nodes{1} : Nodes{}) << name(rule);
    EXPECT_EQ(told(digits_network(1), {.rule = rule}), Nodes{}) << name(rule);
  }
  EXPECT_EQ(told(small_network("gru"), {.horizon = 2}), Nodes{1}) << "the horizon ends at the tick of the error";
  EXPECT_EQ(told(small_network("gru"), {.horizon = 3}), Nodes{});
}

// A horizon that ends before a layer keeps it from learning: its weights stay as they are, and its name is told.
TEST(LayerErrors, AreToldOfWhereAHorizonEndsBefore) {
  const auto chain = [](const auto& change) {
    mesh::NetworkSpec spec = mesh::NetworkBuilder("chain", GridShape{1, 1, 3, 1})
                                 .input("x", 4)
                                 .dense({0, 0, 0, 0}, 5)
                                 .dense({0, 0, 1, 0}, 5)
                                 .dense({0, 0, 2, 0}, 3)
                                 .output("y", {0, 0, 2, 0})
                                 .spec();
    change(spec);
    return spec;
  };
  const auto as_it_is = chain([](auto&) {});
  using Nodes = std::vector<mesh::NodeId>;
  for (const Rule rule : test::all_rules())
    for (const std::uint32_t horizon : {0u, 1u, 2u, 3u}) {
      LearningOptions options{.rule = rule, .horizon = horizon};
      options.optimizer.lr = 0.01f;
      LearningRun run(as_it_is, options);
      const Nodes wanted = horizon == 1 ? Nodes{1, 2} : horizon == 2 ? Nodes{1} : Nodes{};
      EXPECT_EQ(layers_without_errors(*run.learner), wanted) << name(rule) << " " << horizon;
      const auto before = run.weights();
      const Samples data(as_it_is, options, 8);
      data.train(*run.learner, 0, 8);
      const auto after = run.weights();
      for (const mesh::NodeId node : wanted)
        EXPECT_EQ(run.weights({0, 0, node - 1, 0}), LearningRun(as_it_is, options).weights({0, 0, node - 1, 0}));
      EXPECT_NE(after, before) << name(rule);
    }
  const auto frozen = chain([](auto& spec) { spec.layers[0].is_frozen = true; });
  const LearningRun run(frozen, {.horizon = 1});
  EXPECT_EQ(layers_without_errors(*run.learner), Nodes{2}) << "a frozen one is not to learn";
}

/// Two layers of one type before a dense one. Four noisy patterns, each held for four ticks; the share of right answers
/// of the last 200 of 2000 samples.
double classify(const std::string& type, Rule rule) {
  constexpr std::uint64_t kPatterns = 2000, kLast = 200;
  constexpr std::size_t kWidth = 8, kClasses = 4;
  LearningOptions options{.rule = rule, .hold = 4};
  options.optimizer.kind = OptimizerKind::adamw;
  options.horizon = rule == Rule::backprop ? 4 : 0;
  LearningRun run(mesh::NetworkBuilder("classify", GridShape{1, 1, 3, 1})
                      .input("x", kWidth)
                      .layer({0, 0, 0, 0}, type, 24)
                      .layer({0, 0, 1, 0}, type, 24)
                      .dense({0, 0, 2, 0}, kClasses)
                      .output("y", {0, 0, 2, 0})
                      .seed(8)
                      .spec(),
                  options);
  RandomStream random(9, 0, RandomPurpose::test);
  std::vector<float> centres(kClasses * kWidth), x;
  for (float& v : centres) v = random.next_normal();
  std::vector<std::uint32_t> labels;
  for (std::uint64_t s = 0; s < kPatterns; ++s) {
    labels.push_back(random.next_below(kClasses));
    for (std::size_t i = 0; i < kWidth; ++i)
      x.push_back(centres[labels.back() * kWidth + i] + 0.3f * random.next_normal());
  }
  run.train(x, labels, {}, kPatterns);
  std::uint64_t right = 0;
  for (const Score& score : run.learner->scores().last(kLast)) right += score.prediction == score.label;
  return static_cast<double>(right) / kLast;
}

TEST(RecurrentRules, EveryRuleLearnsThroughEveryLayer) {
  for (const char* type : {"rnn", "lstm", "gru", "swiglu"})
    for (const Rule rule : test::all_rules()) {
      if (rule == Rule::gap_original) continue;  // has no steps for all of them
      // Under local_ce layers do not learn for each other, and its heads are four random directions of 24.
      EXPECT_GT(classify(type, rule), rule == Rule::local_ce ? 0.7 : 0.95) << type << " by " << name(rule);
    }
}

}  // namespace
}  // namespace weft::learning::recurrent_test
