// SPDX-License-Identifier: Apache-2.0
// Weights that are pulled to those that they began with, or to fresh ones: against weights of a new mesh and of a run
// without, on every machine shape, in blocks of any length, through a file.

#include "learning/weight_pull.hpp"

#include "learning/options.hpp"

#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>
#include <string>
#include <vector>

namespace weft::learning::weight_pull_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

LearningOptions pulled(Pull pull, std::uint32_t every, float share, Schedule schedule = Schedule::settle) {
  LearningOptions options{.schedule = schedule};
  options.plasticity = {pull, every, share, 0.25f};
  return options;
}

/// A run over the first digits, `samples` in blocks of `block`.
struct Digits {
  explicit Digits(const LearningOptions& options, const mesh::MeshOptions& wanted = shape(1),
                  const mesh::NetworkSpec& spec = digits_network(1))
      : run(spec, options, wanted), data(digits()) {}
  void learn(std::uint64_t samples, std::uint64_t block = 1) {
    while (samples > 0) {
      const std::uint64_t now = std::min(block, samples);
      std::vector<float> x;
      std::vector<std::uint32_t> labels;
      for (std::uint64_t s = 0; s < now; ++s, ++seen) {
        const auto at = static_cast<std::ptrdiff_t>(seen * data.features);
        x.insert(x.end(), data.inputs.begin() + at,
                 data.inputs.begin() + at + static_cast<std::ptrdiff_t>(data.features));
        labels.push_back(data.labels[seen]);
      }
      run.train(x, labels, {}, now);
      samples -= now;
    }
  }
  LearningRun run;
  Dataset data;
  std::uint64_t seen = 0;
};

TEST(WeightPull, MovesAShareOfTheWayToTheInitialWeights) {
  const LearningRun created(digits_network(1), LearningOptions{});
  Digits plain(LearningOptions{}), digits(pulled(Pull::initial, 40, 0.125f));
  plain.learn(40);
  digits.learn(39);
  Digits before(LearningOptions{});
  before.learn(39);
  EXPECT_EQ(digits.run.weights(), before.run.weights());
  digits.learn(1);
  const auto initial = created.weights(), free = plain.run.weights(), found = digits.run.weights();
  ASSERT_EQ(found.size(), initial.size());
  std::size_t moved = 0;
  for (std::size_t p = 0; p < found.size(); ++p)
    for (std::size_t i = 0; i < found[p].size(); ++i) {
      const auto w = static_cast<float>(free[p][i]), w0 = static_cast<float>(initial[p][i]);
      ASSERT_EQ(static_cast<float>(found[p][i]), w + 0.125f * (w0 - w)) << p << " " << i;
      moved += w != w0;
    }
  EXPECT_GT(moved, 5000u);
}

TEST(WeightPull, ShrinksAndAddsFreshOnesThatAreOthersEachTime) {
  Digits plain(LearningOptions{}), digits(pulled(Pull::fresh, 10, 0.5f));
  plain.learn(10);
  digits.learn(10);
  const auto fresh = [&](const Digits& with, const Digits& without) {
    std::vector<double> values;
    const auto a = with.run.weights(Coord{0, 0, 0, 0})[0], b = without.run.weights(Coord{0, 0, 0, 0})[0];
    for (std::size_t i = 0; i < a.size(); ++i) values.push_back((a[i] - 0.5 * b[i]) / 0.25);
    return values;
  };
  const std::vector<double> first = fresh(digits, plain);
  // Xavier: uniform within sqrt(6 / (in + out)).
  const double bound = std::sqrt(6.0 / (80 + 64));
  double sum = 0, squares = 0;
  for (const double value : first) {
    EXPECT_LE(std::fabs(value), bound * 1.0001);
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(first.size());
  EXPECT_NEAR(sum / count, 0, 4 * bound / std::sqrt(3 * count));
  EXPECT_NEAR(squares / count, bound * bound / 3, 0.05 * bound * bound / 3);
  // No others than before: a new run.
  Digits again(pulled(Pull::fresh, 10, 0.5f));
  again.learn(10, 7);
  EXPECT_EQ(again.run.weights(), digits.run.weights());
  // And others the next time: twenty samples at a rate of zero.
  LearningOptions still = pulled(Pull::fresh, 10, 1.0f);
  still.optimizer.lr = 1e-30f;
  Digits one(still), two(still);
  one.learn(10);
  two.learn(20);
  EXPECT_NE(one.run.weights(), two.run.weights());
}

TEST(WeightPull, LeavesFrozenLayersAsTheyAre) {
  auto spec = digits_network(1);
  spec.layers[1].is_frozen = true;
  const LearningRun created(spec, LearningOptions{});
  Digits digits(pulled(Pull::fresh, 5, 0.5f), shape(1), spec);
  digits.learn(20);
  const Coord frozen = spec.layers[1].at;
  EXPECT_EQ(digits.run.weights(frozen), created.weights(frozen));
  EXPECT_NE(digits.run.weights(spec.layers[0].at), created.weights(spec.layers[0].at));
}

TEST(WeightPull, HasTheSameBitsOnEveryMachineShapeInBlocksOfAnyLengthAndThroughAFile) {
  for (const Pull pull : {Pull::initial, Pull::fresh})
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined}) {
      const LearningOptions options = pulled(pull, 16, 0.25f, schedule);
      Digits whole(options);
      whole.learn(100);
      for (const kernels::Isa isa : kernels::available_isas()) {
        const ForIsa scope(isa);
        for (const std::size_t threads : {1, 2, 7}) {
          Digits other(options, shape(threads));
          other.learn(100, threads * 9);
          EXPECT_EQ(other.run.hash(), whole.run.hash()) << name(pull) << name(schedule) << name(isa) << threads;
        }
      }
      Digits first(options);
      first.learn(33);
      Digits second(options);
      second.run.learner.reset();  // before its mesh
      second.run = LearningRun(first.run.file(), options);
      second.seen = 33;
      second.learn(67, 67);
      EXPECT_EQ(second.run.hash(), whole.run.hash());
    }
}

// All of the way: answers are those of a new mesh, whose weights are stored as int8.
TEST(WeightPull, QuantizesWhatIsStoredAnew) {
  auto spec = digits_network(1);
  for (auto& layer : spec.layers) layer.dtype = Dtype::int8;
  Digits digits(pulled(Pull::initial, 20, 1.0f), shape(1), spec);
  const LearningRun fresh(spec, LearningOptions{});
  const auto answer = [](const LearningRun& run) {
    const std::vector<float> x(64, 0.5f);
    std::vector<float> y(10);
    const mesh::RunInput input{"pixels", x};
    const mesh::RunOutput output{"digit", y};
    must(run.learner->predict({&input, 1}, 1, {&output, 1}));
    return y;
  };
  const auto farthest = [&] {
    const auto a = answer(digits.run), b = answer(fresh);
    float most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
    return most;
  };
  digits.learn(19);
  EXPECT_GT(farthest(), 0.01f);
  digits.learn(1);
  EXPECT_LT(farthest(), 1e-4f);  // w + (w0 - w) is w0 but for roundings
}

TEST(WeightPull, RefusesOptionsThatItCannotKeep) {
  const auto read = read_learning(R"({"late": "again", "plasticity": {"pull": "initial"}})");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().text(),
            "learning.plasticity.pull: 'initial' with learning.late 'again', whose samples are learned from at other "
            "times; give 'none', or 'meet' with the schedule 'settle'");
  EXPECT_FALSE(read_learning(R"({"late": "meet", "schedule": "pipelined", "plasticity": {"pull": "initial"}})"));
  EXPECT_TRUE(read_learning(R"({"late": "meet", "plasticity": {"pull": "initial"}})"));
  EXPECT_FALSE(read_learning(R"({"plasticity": {"pull": "initial", "scale": 0.5}})"));
  EXPECT_TRUE(read_learning(R"({"plasticity": {"pull": "fresh", "scale": 0.5, "share": 0.1, "every": 7}})"));
}

}  // namespace
}  // namespace weft::learning::weight_pull_test
