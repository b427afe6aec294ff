// SPDX-License-Identifier: Apache-2.0

// cross_entropy over the tokens of an output [tokens, classes].

#include "learning/learner.hpp"

#include "networks.hpp"
#include <cmath>

namespace weft::learning::token_loss_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

constexpr std::size_t kTokens = 3, kIn = 4, kClasses = 5, kSessions = 2;

struct Net : LearningRun {
  explicit Net(Rule rule = Rule::backprop, float lr = 0.5f)
      : LearningRun(mesh::NetworkBuilder("tokens", {1, 1, 1, 1})
                        .input("x", Shape{kTokens, kIn})
                        .dense({0, 0, 0, 0}, kClasses)
                        .output("y", {0, 0, 0, 0})
                        .seed(4)
                        .spec(),
                    options(rule, lr), shape(1, kSessions)) {}
  static LearningOptions options(Rule rule, float lr) {
    return {.rule = rule, .optimizer = {.kind = OptimizerKind::sgd, .lr = lr}, .learners = kSessions};
  }
};

TEST(TokenLoss, IsTheMeanOverTheTokensThatHaveLabels) {
  Net net;
  const auto x = noise(kSessions * kTokens * kIn, 5);
  const auto weight = net.weights()[0];
  const std::vector<std::uint32_t> labels{4, kNoLabel, 0, kNoLabel, kNoLabel, 2};
  // A mesh's first sample is too young to be learned from.
  for (int i = 0; i < 2; ++i) net.train(x, std::vector<std::uint32_t>(labels.size(), kNoLabel));
  net.learner->clear_scores();
  net.train(x, labels);

  std::vector<double> slope(weight.size());
  std::vector<double> losses;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::vector<double> z(kClasses);
    double sum = 0;
    for (std::size_t c = 0; c < kClasses; ++c) {
      for (std::size_t k = 0; k < kIn; ++k) z[c] += weight[c * kIn + k] * x[i * kIn + k];
      sum += std::exp(z[c]);
    }
    losses.push_back(labels[i] == kNoLabel ? 0 : std::log(sum) - z[labels[i]]);
    if (labels[i] == kNoLabel) continue;
    const double share = (i < kTokens ? 0.5 : 1.0) / kSessions;  // two labelled tokens, one; the mean of two learners
    for (std::size_t c = 0; c < kClasses; ++c)
      for (std::size_t k = 0; k < kIn; ++k)
        slope[c * kIn + k] += share * (std::exp(z[c]) / sum - (c == labels[i])) * x[i * kIn + k];
  }
  const auto after = net.weights()[0];
  for (std::size_t i = 0; i < weight.size(); ++i) EXPECT_NEAR(after[i], weight[i] - 0.5 * slope[i], 2e-6) << i;
  const auto scores = net.learner->scores();
  ASSERT_EQ(scores.size(), labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    EXPECT_EQ(scores[i].sample, 2u);
    EXPECT_EQ(scores[i].learner, i / kTokens);
    EXPECT_EQ(scores[i].token, i % kTokens);
    EXPECT_EQ(scores[i].label, labels[i]);
    EXPECT_NEAR(scores[i].loss, losses[i], 1e-5);
  }
}

TEST(TokenLoss, MovesTowardsTheLabelsUnderTargetPropagationToo) {
  for (const Rule rule : test::target_rules()) {
    if (rule == Rule::gap_original) continue;  // moves towards outputs of 1 at the labels, no slope of the loss
    const bool takes_a_tenth = rule == Rule::chain || rule == Rule::chain_original;
    Net net(rule, takes_a_tenth ? 0.5f : 0.05f);
    const auto x = noise(kSessions * kTokens * kIn, 5);
    const std::vector<std::uint32_t> labels{4, 1, 0, 3, kNoLabel, 2};
    float first = 0, last = 0;
    for (int i = 0; i < 60; ++i) {
      net.learner->clear_scores();
      net.train(x, labels);
      last = 0;
      for (const Score& score : net.learner->scores()) last += score.loss;
      if (i == 2) first = last;
    }
    EXPECT_LT(last, 0.7f * first) << static_cast<int>(rule);
  }
}

TEST(TokenLoss, RefusesLabelsThatDoNotFit) {
  Net net;
  const auto x = noise(kSessions * kTokens * kIn, 5);
  const mesh::RunInput input{"x", x};
  const std::vector<std::uint32_t> one_each{1, 2}, too_high{0, 1, 2, 3, 5, 0};
  const Target few{"y", one_each, {}}, high{"y", too_high, {}};
  expect_error(net.learner->learn({&input, 1}, {&few, 1}, 1), Errc::shape_mismatch, {"'y'", "2 labels", "6"});
  expect_error(net.learner->learn({&input, 1}, {&high, 1}, 1), Errc::out_of_range, {"'y'", "label 5", "5"});
}

// A transformer of one block, each sequence a sample of its own, until it makes no mistake on sequences that it has
// never seen: a few hundred of 8^16.
void learns_to(bool reverse, std::size_t enough) {
  constexpr std::size_t kLength = 16, kVocabulary = 8, kBatch = 16;
  // The order of tokens depends on absolute positions, so these are embedded too.
  const auto spec = must(mesh::read_network(R"({"weft": 2, "seed": 1, "grid": {"x": 4},
   "inputs": {"x": [16], "place": [16]}, "layers": [
    {"at": [0,0,0,0], "type": "embedding", "vocabulary": 8, "out": 32, "from": ["x"]},
    {"at": [0,0,1,0], "type": "embedding", "vocabulary": 16, "out": 32, "from": ["place"]},
    {"at": [0,0,2,0], "type": "sequential", "from": [[0,0,0,0], [0,0,1,0]], "combine": "add", "layers": [
      {"type": "rms_norm"}, {"type": "attention", "heads": 4, "causal": false, "name": "a"},
      {"type": "residual", "from": ["input", "a"], "name": "b"},
      {"type": "rms_norm"}, {"type": "swiglu", "hidden": 64, "name": "c"}, {"type": "residual", "from": ["b", "c"]}]},
    {"at": [0,0,3,0], "type": "dense", "out": 8}], "outputs": {"y": [0,0,3,0]}})",
                                            "transformer"));
  const LearningOptions options{.optimizer = {.kind = OptimizerKind::adamw, .lr = 3e-3f}, .learners = kBatch};
  mesh::MeshOptions wanted;
  wanted.sessions = kBatch;
  LearningRun run(spec, options, wanted);
  RandomStream random(7, 0, RandomPurpose::test);
  std::vector<float> x(kBatch * kLength);
  std::vector<float> places(x.size());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<float>(i % kLength);
  std::vector<std::uint32_t> labels(x.size());
  std::size_t faultless = 0;
  for (std::size_t step = 0; step < 4000 && faultless < enough; ++step) {
    for (std::size_t b = 0; b < kBatch; ++b)
      for (std::size_t t = 0; t < kLength; ++t) {
        const std::uint32_t token = random.next_below(kVocabulary);
        x[b * kLength + t] = static_cast<float>(token);
        labels[b * kLength + (reverse ? kLength - 1 - t : t)] = token;
      }
    const mesh::RunInput inputs[] = {{"x", x}, {"place", places}};
    const Target target{"y", labels, {}};
    run.learner->clear_scores();
    must(run.learner->learn(inputs, {&target, 1}, 1));
    const auto scores = run.learner->scores();
    const bool is_right =
        std::all_of(scores.begin(), scores.end(), [](const Score& s) { return s.prediction == s.label; });
    faultless = is_right ? faultless + kBatch : 0;
  }
  EXPECT_GE(faultless, enough) << "sequences without a fault";
}

TEST(Transformer, LearnsToCopySequencesOfSixteenExactly) { learns_to(false, 320); }
TEST(Transformer, LearnsToReverseSequencesOfSixteenExactly) { learns_to(true, 320); }

}  // namespace
}  // namespace weft::learning::token_loss_test
