// SPDX-License-Identifier: Apache-2.0

// Layers with hidden state learn: backpropagation through their state equals a float64 model's finite differences, the
// same bits come out everywhere, and they remember what an output needs ticks later.

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include "tests/mesh/layer_models.hpp"
#include <cmath>

namespace weft::learning::recurrent_test {
namespace {

using mesh::models::Model;
using mesh::models::Vector;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSamples = 15;
#else
constexpr std::uint64_t kSamples = 60;
#endif

std::vector<Vector> weights_of(const mesh::Mesh& mesh) {
  std::vector<Vector> all;
  for (const auto& parameter : mesh::MeshAccess::weights(mesh).parameters()) {
    const auto values = mesh::MeshAccess::weights(mesh).read(parameter);
    all.emplace_back(values.begin(), values.end());
  }
  return all;
}

mesh::Mesh build(const mesh::NetworkSpec& spec, mesh::MeshOptions options = {.threads = 1}) {
  auto mesh = mesh::Mesh::build(spec, options);
  WEFT_ASSERT(mesh, mesh.error().text());
  return *std::move(mesh);
}

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

/// The cross entropy of the output after `ticks` ticks with the same input; the dense layer reads one tick late.
double loss(const Model& model, const std::vector<Vector>& weights, const Vector& x, std::size_t ticks,
            std::size_t state_size, std::size_t label) {
  const std::vector<Vector> own(weights.begin(), weights.begin() + 4);
  Vector h(kHidden, 0.0), state(state_size, 0.0), y;
  for (std::size_t t = 0; t < ticks; ++t) {
    y = mesh::models::affine(weights[4], &weights[5], h);
    auto outcome = model(own, x, state);
    h = std::move(outcome.y), state = std::move(outcome.next);
  }
  double sum = 0;
  for (const double v : y) sum += std::exp(v);
  return std::log(sum) - y[label];
}

TEST_P(Recurrent, BackpropagatesThroughItsStateAsFiniteDifferencesDo) {
  constexpr std::uint32_t kHold = 7;
  const Model model = GetParam() == "lstm"  ? mesh::models::lstm(kHidden, true)
                      : GetParam() == "gru" ? mesh::models::gru(kHidden, true)
                                            : mesh::models::rnn(kHidden, true, kernels::Activation::tanh);
  const std::size_t states = GetParam() == "lstm" ? 2 * kHidden : kHidden;
  mesh::Mesh mesh = build(small_network(GetParam()));
  LearningOptions options;
  options.horizon = kHold;
  options.hold = kHold;
  options.optimizer.kind = OptimizerKind::sgd;
  options.optimizer.lr = 1.0f;
  auto learner = Learner::build(mesh, options);
  ASSERT_TRUE(learner) << learner.error().text();
  const auto before = weights_of(mesh);
  const std::vector<float> x{0.5f, -1.25f, 0.75f, 0.3f};
  const Vector xd(x.begin(), x.end());
  const std::vector<std::uint32_t> label{1};
  const mesh::RunInput input{"x", x};
  const Target target{"y", label, {}};
  ASSERT_TRUE((*learner)->learn({&input, 1}, {&target, 1}, 1));
  EXPECT_NEAR((*learner)->scores()[0].loss, loss(model, before, xd, kHold, states, 1), 1e-5);
  const auto after = weights_of(mesh);
  for (std::size_t p = 0; p < after.size(); ++p)
    for (std::size_t i = 0; i < after[p].size(); ++i) {
      constexpr double kStep = 1e-5;
      auto up = before, down = before;
      up[p][i] += kStep;
      down[p][i] -= kStep;
      const double wanted =
          (loss(model, up, xd, kHold, states, 1) - loss(model, down, xd, kHold, states, 1)) / (2 * kStep);
      // One float32 rounding of a weight below 2 bounds what the difference of weights can show.
      EXPECT_NEAR(before[p][i] - after[p][i], wanted, 1e-5 * std::abs(wanted) + 2.5e-7) << p << " " << i;
    }
}

TEST(SeveralLearners, MoveALayerByTheMeanOfTheirGradients) {
  constexpr std::size_t kLearners = 3;
  RandomStream random(4, 0, RandomPurpose::test);
  std::vector<float> x;
  for (std::size_t i = 0; i < kLearners * kIn; ++i) x.push_back(random.next_normal());
  const std::vector<std::uint32_t> labels{1, 0, 2};
  for (const char* type : {"rnn", "lstm", "gru", "swiglu"}) {
    const auto change = [&](std::size_t first, std::size_t count) {
      mesh::MeshOptions shape;
      shape.threads = 1;
      shape.sessions = count;
      mesh::Mesh mesh = build(small_network(type), shape);
      LearningOptions options;
      options.learners = count;
      options.horizon = options.hold = 5;
      options.optimizer.kind = OptimizerKind::sgd;
      options.optimizer.lr = 1.0f;
      auto learner = Learner::build(mesh, options);
      WEFT_ASSERT(learner, learner.error().text());
      auto moved = weights_of(mesh);
      const mesh::RunInput input{"x", std::span(x).subspan(first * kIn, count * kIn)};
      const Target target{"y", std::span(labels).subspan(first, count), {}};
      const Status learned = (*learner)->learn({&input, 1}, {&target, 1}, 1);
      WEFT_ASSERT(learned, learned.error().text());
      const auto after = weights_of(mesh);
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

struct Setting {
  std::size_t threads = 1, sessions = 1;
  bool at_once = true;
};

void learn(Learner& learner, const Setting& setting) {
  const test::Samples data(kSamples, setting.sessions, 11);
  const std::uint64_t step = setting.at_once ? kSamples : 1;
  for (std::uint64_t s = 0; s < kSamples; s += step) {
    const mesh::RunInput inputs[] = {
        {"a", std::span(data.a).subspan(s * setting.sessions * 7, step * setting.sessions * 7)},
        {"b", std::span(data.b).subspan(s * setting.sessions * 5, step * setting.sessions * 5)}};
    const Target targets[] = {{"left", std::span(data.left).subspan(s, step), {}},
                              {"right", std::span(data.right).subspan(s, step), {}}};
    const Status learned = learner.learn(inputs, targets, step);
    WEFT_ASSERT(learned, learned.error().text());
    learner.clear_scores();
  }
  const Status drained = learner.drain();
  WEFT_ASSERT(drained, drained.error().text());
}

struct Type {
  Dtype dtype;
  Activations activations;
};

std::string train(const Type& type, Rule rule, Schedule schedule, const Setting& setting) {
  auto spec = test::recurrent_network(3);
  for (mesh::LayerSpec& layer : spec.layers) {
    layer.dtype = type.dtype;
    layer.activations = type.activations;
  }
  mesh::MeshOptions mesh_options;
  mesh_options.threads = setting.threads;
  mesh_options.sessions = setting.sessions;
  mesh_options.grain_bytes = 0;
  mesh_options.pin = false;
  mesh::Mesh mesh = build(spec, mesh_options);
  LearningOptions options;
  options.rule = rule;
  options.schedule = schedule;
  options.optimizer.lr = 0.01f;
  options.horizon = rule == Rule::backprop ? 8 : 0;
  auto learner = Learner::build(mesh, options);
  WEFT_ASSERT(learner, learner.error().text());
  learn(**learner, setting);
  return to_string(mesh.state_hash(0));
}

class RecurrentOfType : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(
    Dtypes, RecurrentOfType,
    ::testing::Values(Type{Dtype::float32, Activations::int8}, Type{Dtype::int8, Activations::int8},
                      Type{Dtype::int8, Activations::float32}, Type{Dtype::bfloat16, Activations::int8},
                      Type{Dtype::int4, Activations::int8}, Type{Dtype::ternary, Activations::int8}),
    [](const auto& row) {
      return std::string(name(row.param.dtype)) + "_" + std::string(name(row.param.activations));
    });

TEST_P(RecurrentOfType, LearningEndsInTheSameStateOnEveryMachineShape) {
  struct Way {
    Rule rule;
    Schedule schedule;
  };
  const Way ways[] = {
      {Rule::backprop, Schedule::settle}, {Rule::backprop, Schedule::pipelined}, {Rule::fw_dtp, Schedule::pipelined}};
  for (const Way& way : ways) {
    const std::string expected = train(GetParam(), way.rule, way.schedule, {});
    for (const kernels::Isa isa : kernels::available_isas()) {
      const test::ForIsa scope(isa);
      for (const std::size_t threads : {1, 2, 7})
        for (const std::size_t sessions : {1, 5})
          EXPECT_EQ(train(GetParam(), way.rule, way.schedule, {threads, sessions, (threads + sessions) % 2 == 0}),
                    expected)
              << kernels::name(isa) << " " << threads << " threads, " << sessions << " sessions";
    }
  }
}

TEST(RecurrentRules, EveryRuleMovesEveryParameterOfEveryLayer) {
  for (const Rule rule : {Rule::backprop, Rule::gap, Rule::chain, Rule::fw_dtp, Rule::dfa})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      mesh::Mesh mesh = build(test::recurrent_network(3));
      LearningOptions options;
      options.rule = rule;
      options.schedule = schedule;
      options.horizon = rule == Rule::backprop ? 8 : 0;
      auto learner = Learner::build(mesh, options);
      ASSERT_TRUE(learner) << learner.error().text();
      const auto before = weights_of(mesh);
      learn(**learner, {});
      const auto after = weights_of(mesh);
      for (std::size_t p = 0; p < after.size(); ++p) {
        EXPECT_NE(before[p], after[p]) << name(rule) << " " << p;
        for (const double v : after[p]) ASSERT_TRUE(std::isfinite(v)) << name(rule) << " " << p;
      }
    }
}

/// Episodes of six ticks: a bit is shown in the first, the sixth asks for it, noise in between. The share of right
/// answers of the last `kLast` episodes, each answered before it was learned from.
double remember(const std::string& type, std::uint32_t horizon, std::uint64_t episodes) {
  constexpr std::uint64_t kTicks = 6, kLast = 300;
  mesh::Mesh mesh = build(mesh::NetworkBuilder("remember", GridShape{1, 1, 2, 1})
                              .input("x", 3)
                              .layer({0, 0, 0, 0}, type, 16)
                              .dense({0, 0, 1, 0}, 2)
                              .output("y", {0, 0, 1, 0})
                              .seed(2)
                              .spec());
  LearningOptions options;
  options.schedule = Schedule::pipelined;
  options.horizon = horizon;
  options.optimizer.kind = OptimizerKind::adamw;
  options.optimizer.lr = 0.005f;
  auto learner = Learner::build(mesh, options);
  WEFT_ASSERT(learner, learner.error().text());
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
  const mesh::RunInput input{"x", x};
  const Target target{"y", labels, {}};
  const Status learned = (*learner)->learn({&input, 1}, {&target, 1}, episodes * kTicks);
  WEFT_ASSERT(learned, learned.error().text());
  const Status drained = (*learner)->drain();
  WEFT_ASSERT(drained, drained.error().text());
  std::uint64_t asked = 0, right = 0;
  for (const Score& score : (*learner)->scores()) {
    if (score.label == kNoLabel || score.sample < (episodes - kLast) * kTicks) continue;
    ++asked;
    right += score.prediction == score.label;
  }
  WEFT_ASSERT(asked == kLast, "episodes that were scored");
  return static_cast<double>(right) / static_cast<double>(asked);
}

TEST_P(Recurrent, LearnsToRememberABitForFiveTicksThroughItsState) {
  EXPECT_GT(remember(GetParam(), 8, 3000), 0.95);
  // The error must reach the tick that showed the bit: what a state holds by chance does not do.
  EXPECT_LT(remember(GetParam(), 2, 3000), 0.9);
}

/// Two layers of one type before a dense one. Four noisy patterns, each held for four ticks; the share of right answers
/// of the last 200 of 2000 samples.
double classify(const std::string& type, Rule rule) {
  constexpr std::uint64_t kPatterns = 2000, kLast = 200;
  constexpr std::size_t kWidth = 8, kClasses = 4;
  mesh::Mesh mesh = build(mesh::NetworkBuilder("classify", GridShape{1, 1, 3, 1})
                              .input("x", kWidth)
                              .layer({0, 0, 0, 0}, type, 24)
                              .layer({0, 0, 1, 0}, type, 24)
                              .dense({0, 0, 2, 0}, kClasses)
                              .output("y", {0, 0, 2, 0})
                              .seed(8)
                              .spec());
  LearningOptions options;
  options.rule = rule;
  options.hold = 4;
  options.optimizer.kind = OptimizerKind::adamw;
  options.horizon = rule == Rule::backprop ? 4 : 0;
  auto learner = Learner::build(mesh, options);
  WEFT_ASSERT(learner, learner.error().text());
  RandomStream random(9, 0, RandomPurpose::test);
  std::vector<float> centres(kClasses * kWidth), x;
  for (float& v : centres) v = random.next_normal();
  std::vector<std::uint32_t> labels;
  for (std::uint64_t s = 0; s < kPatterns; ++s) {
    labels.push_back(random.next_below(kClasses));
    for (std::size_t i = 0; i < kWidth; ++i)
      x.push_back(centres[labels.back() * kWidth + i] + 0.3f * random.next_normal());
  }
  const mesh::RunInput input{"x", x};
  const Target target{"y", labels, {}};
  const Status learned = (*learner)->learn({&input, 1}, {&target, 1}, kPatterns);
  WEFT_ASSERT(learned, learned.error().text());
  std::uint64_t right = 0;
  for (const Score& score : (*learner)->scores().last(kLast)) right += score.prediction == score.label;
  return static_cast<double>(right) / kLast;
}

TEST(RecurrentRules, EveryRuleLearnsThroughEveryLayer) {
  for (const char* type : {"rnn", "lstm", "gru", "swiglu"})
    for (const Rule rule : {Rule::backprop, Rule::gap, Rule::chain, Rule::fw_dtp, Rule::dfa})
      EXPECT_GT(classify(type, rule), 0.95) << type << " by " << name(rule);
}

}  // namespace
}  // namespace weft::learning::recurrent_test
