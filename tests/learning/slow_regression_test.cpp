// SPDX-License-Identifier: Apache-2.0
// Slowly changing regression, small form of tools/measure_slow_regression.py: units that begin anew do not fall behind
// plain descent, whose error is the larger the longer it has learned.

#include "learning/generators/generator.hpp"
#include "learning/options.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <string>
#include <vector>

namespace weft::learning::slow_regression_test {
namespace {

using namespace test;
using mesh::testing_support::must;

constexpr std::uint64_t kSamples = 60000, kBlock = 500;

/// The mean loss of the last tenth.
double last_loss(std::uint64_t seed, const std::string& options) {
  const mesh::NetworkSpec spec = mesh::NetworkBuilder("small", GridShape{1, 1, 2, 1})
                                     .input("x", 20)
                                     .dense({0, 0, 0, 0}, 5, kernels::Activation::relu)
                                     .from({"x"})
                                     .option("init", std::string("he_uniform"))
                                     .dense({0, 0, 1, 0}, 1)
                                     .output("y", {0, 0, 1, 0})
                                     .seed(seed)
                                     .spec();
  LearningRun run(spec, must(read_learning(R"({"loss": "mse", )" + options + "}")));
  const auto generator = make_generator({.kind = GeneratorKind::slowly_changing, .seed = seed, .change_every = 1000});
  double sum = 0;
  std::vector<float> inputs(kBlock * 20), targets(kBlock);
  for (std::uint64_t done = 0; done < kSamples; done += kBlock) {
    for (std::uint64_t s = 0; s < kBlock; ++s) generator->next(std::span(inputs).subspan(s * 20, 20), targets[s]);
    run.train(inputs, {}, targets, kBlock);
    for (const Score& score : run.learner->scores())
      if (done >= kSamples / 10 * 9) sum += double{score.loss};
    run.learner->clear_scores();
  }
  return sum / (kSamples / 10.0);
}

/// Over some seeds.
double mean_loss(const std::string& rate, const std::string& renew) {
  constexpr std::uint64_t kSeeds = 6;
  double sum = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed)
    sum += last_loss(seed, R"("optimizer": {"type": "sgd", "lr": )" + rate + R"(}, "renew": )" + renew);
  return sum / kSeeds;
}

TEST(SlowRegression, ContinualBackpropEndsBelowTheBestRateWithoutIt) {
  const std::string continual = R"({"method": "continual", "rate": 0.0001})";
  const double renewed = mean_loss("0.01", continual);
  for (const std::string rate : {"0.003", "0.01"}) EXPECT_LT(renewed, mean_loss(rate, "{}")) << rate;
}

}  // namespace
}  // namespace weft::learning::slow_regression_test
