// SPDX-License-Identifier: Apache-2.0
// Anomaly scores before learning: against float64 sums, equal to what is told after, seen where inputs are strange,
// part of hash, file and refusals.

#include "learning/anomaly.hpp"

#include "learning/learner_snapshot.hpp"
#include "learning/one_sample.hpp"

#include "mesh/network/network_json.hpp"

#include "kernels/isa.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace weft::learning::anomaly_test {
namespace {

using namespace test;
using mesh::testing_support::must;

/// Eight values through two: what it has seen it can give back.
mesh::NetworkSpec autoencoder() {
  return mesh::NetworkBuilder("autoencoder", GridShape{1, 1, 2, 1})
      .input("x", 8)
      .dense({0, 0, 0, 0}, 2)
      .from({"x"})
      .dense({0, 0, 1, 0}, 8)
      .output("y", {0, 0, 1, 0})
      .seed(2)
      .spec();
}

LearningOptions with(const std::string& anomaly, const std::string& more = R"(, "loss": "mse")") {
  return must(read_learning(R"({"optimizer": {"type": "sgd", "lr": 0.05}, "anomaly": )" + anomaly + more + "}"));
}

/// Values on a line through the origin, with noise; one of each `strange_every`-th far off it, each time another. 0:
/// none.
std::vector<float> sample(std::uint64_t number, std::uint64_t strange_every) {
  RandomStream random(4, number, RandomPurpose::test);
  const float at = 2.0f * random.next_uniform() - 1.0f;
  std::vector<float> x(8);
  for (float& value : x) value = at + 0.02f * random.next_normal();
  if (strange_every > 0 && number % strange_every == strange_every - 1)
    x[number / strange_every % 8] += random.next_below(2) == 1 ? 2.0f : -2.0f;
  return x;
}

struct Watched {
  explicit Watched(const LearningOptions& options, std::size_t threads = 1)
      : run(autoencoder(), options, shape(threads)) {}
  void learn(std::uint64_t samples, std::uint64_t strange_every = 0) {
    for (std::uint64_t s = 0; s < samples; ++s, ++seen) {
      const std::vector<float> x = sample(seen, strange_every);
      run.train(x, {}, x);
    }
  }
  const AnomalyWatch& anomaly() const { return anomaly_of(*run.learner); }
  LearningRun run;
  std::uint64_t seen = 0;
};

TEST(Anomaly, ScoresByTheLossesBefore) {
  Watched watched(with(R"({"score": "deviation", "decay": 0.9, "threshold": 1e6})"));
  double mean = 0, variance = 0;
  watched.learn(300);
  std::uint64_t n = 0;
  for (const Score& score : watched.run.learner->scores()) {
    const double expected = n == 0 ? 0.0 : (double{score.loss} - mean) / std::sqrt(variance + 1e-12);
    ASSERT_NEAR(score.anomaly, expected, 1e-6 * std::max(1.0, std::fabs(expected))) << n;
    ++n;
    const double share = std::max(1 - double{0.9f}, 1.0 / static_cast<double>(n));
    // By definition, not by steps: the weighted mean, and the weighted mean of squares less its square.
    const double squares = (1 - share) * (variance + mean * mean) + share * double{score.loss} * double{score.loss};
    mean = (1 - share) * mean + share * double{score.loss};
    variance = std::max(squares - mean * mean, 0.0);
  }
  ASSERT_EQ(n, 300u);
  EXPECT_EQ(watched.anomaly().scores(), 300u);
  EXPECT_NEAR(watched.anomaly().mean(), mean, 1e-9);
  EXPECT_NEAR(watched.anomaly().deviation(), std::sqrt(variance), 1e-7);
}

// The bits that the tests of the bindings expect too, of the same network and samples.
TEST(Anomaly, ScoresTheSamplesOfTheBindings) {
  const auto bits = [](const std::string& section, const auto& ask) {
    mesh::Mesh mesh = must(mesh::Mesh::build(must(mesh::read_network(R"({"weft": 2, "seed": 5, "inputs": {"x": [2]},
        "chain": [{"type": "dense", "out": 8, "activation": "tanh"}, {"type": "dense", "out": 2}]})",
                                                                     "test")),
                                             {.threads = 1}));
    const auto learner = must(Learner::build(mesh, must(read_learning(section))));
    return std::bit_cast<std::uint32_t>(static_cast<float>(must(ask(*learner))));
  };
  const std::vector<std::vector<float>> x{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(bits(R"({"optimizer": {"type": "sgd", "lr": 0.1}, "anomaly": {"score": "deviation"}})",
                 [&](Learner& learner) {
                   for (std::size_t i = 0; i < 20; ++i)
                     must(learn_one(learner, x[i % 4], i % 4 == 1 || i % 4 == 2 ? 1u : 0u));
                   return score_one(learner, x[3], 1u);
                 }),
            0x3c6c39d4u);
  const std::vector<float> values{0.25f, -1.5f};
  EXPECT_EQ(bits(R"({"loss": "mse", "anomaly": {"score": "loss"}})",
                 [&](Learner& learner) { return score_one(learner, x[3], values); }),
            0x3fdfecb8u);
}

TEST(Anomaly, SeesStrangeSamplesAndFewOthers) {
  Watched watched(with(R"({"score": "deviation", "threshold": 5, "decay": 0.99, "warmup": 500})"));
  watched.learn(500);
  watched.learn(1500, 100);
  std::size_t right = 0, wrong = 0;
  for (const AnomalyEvent& event : watched.anomaly().events()) (event.sample % 100 == 99 ? right : wrong)++;
  EXPECT_EQ(right, 15u);
  EXPECT_LE(wrong, 15u);  // a percent
  EXPECT_EQ(watched.anomaly().anomalies(), right + wrong);
  watched.run.learner->clear_scores();
  EXPECT_TRUE(watched.anomaly().events().empty());
}

// The loss that enters mean and variance is bounded: a jump is an anomaly until they have followed it.
TEST(Anomaly, TakesAnAnomalyAsALossAtTheThreshold) {
  AnomalyWatch watch({.score = AnomalyScore::deviation, .threshold = 3, .decay = 0.9f, .warmup = 10});
  const auto add = [&](float loss) {
    Score score{.label = 0, .loss = loss};
    watch.add(score);
    return score.anomaly;
  };
  for (int i = 0; i < 50; ++i) add(i % 2 == 0 ? 1.0f : 2.0f);
  const double mean = watch.mean(), deviation = watch.deviation();
  EXPECT_NEAR(add(1000.0f), (1000 - mean) / deviation, 1e-3);
  EXPECT_NEAR(watch.mean(), mean + 0.1 * 3 * deviation, 1e-6);
  std::size_t seen = 0;
  for (int i = 0; i < 60; ++i) seen += add(10.0f) > 3.0f;
  EXPECT_GT(seen, 3u);
  EXPECT_LT(seen, 40u);
  EXPECT_EQ(watch.anomalies(), seen + 1);
}

TEST(Anomaly, ScoreOneIsWhatLearnOneThenTells) {
  Watched watched(with(R"({"score": "deviation"})"));
  for (std::uint64_t n = 0; n < 40; ++n) {
    const std::vector<float> x = sample(n, 0);
    const std::string before = watched.run.hash();
    const float score = must(score_one(*watched.run.learner, x, std::span<const float>(x)));
    EXPECT_EQ(watched.run.hash(), before);
    must(learn_one(*watched.run.learner, x, std::span<const float>(x)));
    ASSERT_EQ(watched.run.learner->scores().back().anomaly, score) << n;
  }
}

TEST(Anomaly, OfALabelTheLossIsTheScore) {
  Watched watched(with(R"({"score": "loss", "threshold": 3, "warmup": 0})", ""));
  for (std::uint64_t n = 0; n < 40; ++n) {
    const std::vector<float> x = sample(n, 0);
    const auto label = static_cast<std::uint32_t>(n % 2);
    const float score = must(score_one(*watched.run.learner, x, label));
    std::vector<float> y(8);
    must(predict_one(*watched.run.learner, x, y));
    double sum = 0;
    for (const float value : y) sum += std::exp(double{value});
    ASSERT_NEAR(score, std::log(sum) - double{y[label]}, 1e-5);
    must(learn_one(*watched.run.learner, x, label));
    ASSERT_EQ(watched.run.learner->scores().back().anomaly, score);
  }
  EXPECT_EQ(score_one(*watched.run.learner, std::vector<float>(8), 8u).error().code(), Errc::shape_mismatch);
  Watched plain(with("{}", ""));
  EXPECT_EQ(score_one(*plain.run.learner, std::vector<float>(8), 1u).error().code(), Errc::invalid_argument);
}

TEST(Anomaly, HasTheSameBitsOnEveryMachineShapeAndThroughAFile) {
  const LearningOptions options = with(R"({"score": "deviation", "decay": 0.95, "threshold": 2})");
  Watched whole(options);
  whole.learn(250, 50);
  ASSERT_GT(whole.anomaly().anomalies(), 0u);
  for (const kernels::Isa isa : kernels::available_isas()) {
    const ForIsa scope(isa);
    Watched other(options, 3);
    other.learn(250, 50);
    ASSERT_EQ(other.run.told(), whole.run.told()) << name(isa);
    EXPECT_EQ(other.anomaly().anomalies(), whole.anomaly().anomalies());
  }
  Watched first(options), second(options);
  first.learn(120, 50);
  second.run.learner.reset();  // before its mesh
  second.run = LearningRun(first.run.file(), options);
  second.seen = 120;
  EXPECT_EQ(second.run.hash(), first.run.hash());
  EXPECT_EQ(second.anomaly().anomalies(), first.anomaly().anomalies());
  second.learn(130, 50);
  EXPECT_EQ(second.run.hash(), whole.run.hash());
}

TEST(Anomaly, ChangesNothingButTheHash) {
  Watched plain(with("{}")), scored(with(R"({"score": "loss"})"));
  plain.learn(30);
  scored.learn(30);
  EXPECT_EQ(plain.run.weights(), scored.run.weights());
  EXPECT_NE(plain.run.hash(), scored.run.hash());
  EXPECT_TRUE(keeps_meaning(with(R"({"score": "loss"})"), with(R"({"score": "deviation", "threshold": 2})")));
  EXPECT_FALSE(keeps_meaning(with("{}"), with(R"({"score": "loss"})")));
}

TEST(Anomaly, RefusesNumbersOutOfBounds) {
  EXPECT_FALSE(read_learning(R"({"anomaly": {"threshold": 2}})"));
  EXPECT_FALSE(read_learning(R"({"anomaly": {"score": "loss", "decay": 1}})"));
  LearningOptions options;
  options.anomaly.decay = -1;
  EXPECT_EQ(check_options(options).error().text(), "learning.anomaly.decay: -1 is not within [0, 1]");
}

}  // namespace
}  // namespace weft::learning::anomaly_test
