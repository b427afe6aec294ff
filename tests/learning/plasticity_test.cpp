// SPDX-License-Identifier: Apache-2.0

// Figures of plasticity against matrices whose singular values and dormant units are known.

#include "learning/plasticity.hpp"

#include "kernels/isa.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace weft::learning::plasticity_test {
namespace {

using namespace mesh::testing_support;
using namespace test;

kernels::ConstMatrixView view(const std::vector<float>& values, std::size_t rows) {
  return {values.data(), rows, values.size() / rows, values.size() / rows};
}

/// U S V^T with reflections for U and V: singular values are those given.
std::vector<float> with_singular_values(const std::vector<double>& sizes, std::size_t rows, std::size_t width) {
  const auto reflection = [](std::size_t n, std::size_t seed) {
    std::vector<double> v(n);
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) v[i] = 1 + static_cast<double>((i * 7 + seed) % 5), squares += v[i] * v[i];
    std::vector<double> all(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) all[i * n + j] = (i == j ? 1.0 : 0.0) - 2 * v[i] * v[j] / squares;
    return all;
  };
  const auto u = reflection(rows, 1), v = reflection(width, 3);
  std::vector<float> y(rows * width);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < width; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < sizes.size(); ++k) sum += u[i * rows + k] * sizes[k] * v[j * width + k];
      y[i * width + j] = static_cast<float>(sum);
    }
  return y;
}

TEST(EffectiveRank, CountsTheSingularValuesThatMakeUpNearlyAll) {
  std::vector<double> halves(20), even(30, 2.0);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = std::ldexp(1.0, -static_cast<int>(i));
  for (const auto& [rows, width] : {std::pair<std::size_t, std::size_t>{30, 30}, {64, 30}, {30, 77}, {40, 33}}) {
    // Of halves 1 - 2^-k of the sum are in the first k: 0.984 in six, 0.992 in seven.
    EXPECT_EQ(effective_rank(view(with_singular_values(halves, rows, width), rows)), 7u) << rows << "x" << width;
    // 29 of 30 are 0.967 of the sum.
    EXPECT_EQ(effective_rank(view(with_singular_values(even, rows, width), rows)), 30u);
    EXPECT_EQ(effective_rank(view(with_singular_values({5, 4, 3}, rows, width), rows)), 3u);
    EXPECT_EQ(effective_rank(view(with_singular_values({1000, 4}, rows, width), rows)), 1u);
  }
  EXPECT_EQ(effective_rank(view(std::vector<float>(12, 0.0f), 3)), 0u);
  EXPECT_EQ(effective_rank(view(std::vector<float>(12, 0.5f), 3)), 1u);
  EXPECT_EQ(effective_rank(view({7.0f}, 1)), 1u);
}

TEST(DormantShare, IsOfUnitsWhoseMeanIsATenthOfTheLayersOrLess) {
  // Means of |y| by unit: 1, 1, 0.12, 0; a tenth of their mean is 0.053.
  EXPECT_EQ(dormant_share(view({1, -2, 0.24f, 0, -1, 0, 0, 0}, 2)), 0.25);
  // 1, 1, 1, 0.05: below a tenth of 0.7625.
  EXPECT_EQ(dormant_share(view({1, 1, 1, 0.05f}, 1)), 0.25);
  EXPECT_EQ(dormant_share(view({1, 1, 1, 0.1f}, 1)), 0.0);
  EXPECT_EQ(dormant_share(view({0, 0, 0, 0}, 2)), 1.0);
  EXPECT_EQ(dormant_share(view({3, -3}, 1)), 0.0);
}

/// A network with three units that no input wakes.
struct Dead : LearningRun {
  explicit Dead(std::size_t threads = 1)
      : LearningRun(mesh::NetworkBuilder("dead", GridShape{1, 1, 3, 1})
                        .input("x", 6)
                        .dense({0, 0, 0, 0}, 12, kernels::Activation::relu)
                        .layer({0, 0, 1, 0}, "running_standardize")
                        .dense({0, 0, 2, 0}, 4)
                        .output("y", {0, 0, 2, 0})
                        .seed(4)
                        .spec(),
                    slowly(), shape(threads)) {
    auto to = store().of(node({0, 0, 0, 0}));
    std::vector<float> bias = store().read(to[1]);
    for (const std::size_t unit : {2, 3, 7}) bias[unit] = -1000;
    must(store().write(to[1], bias, "bias"));
    data.train(*learner, 0, 20);
  }
  std::vector<LayerPlasticity> measure(std::size_t rows, bool with_ranks = true) const {
    const std::vector<float> x = noise(rows * 6, 21);
    const mesh::RunInput input{"x", x};
    return must(measure_plasticity(*learner, {&input, 1}, rows, with_ranks));
  }
  static LearningOptions slowly() {
    LearningOptions options{.rule = Rule::backprop};
    options.optimizer.lr = 0.001f;
    return options;
  }
  Samples data{mesh->spec(), {}, 20};
};

TEST(Plasticity, MeasuresEachLayerByWhatItAnswers) {
  Dead run;
  const std::string before = run.hash();
  const auto found = run.measure(50);
  ASSERT_EQ(found.size(), 3u);
  for (std::uint32_t x = 0; x < 3; ++x) EXPECT_EQ(found[x].at, (Coord{0, 0, x, 0}));
  EXPECT_EQ(found[0].dormant, 0.25);
  EXPECT_EQ(found[2].dormant, 0.0);
  EXPECT_GE(*found[0].effective_rank, 5u);
  EXPECT_LE(*found[0].effective_rank, 9u);
  EXPECT_EQ(*found[2].effective_rank, 4u);
  EXPECT_EQ(found[1].weight_norm, 0.0);
  double squares = 0;
  for (const auto& parameter : run.weights({0, 0, 2, 0}))
    for (const float w : parameter) squares += double{w} * double{w};
  EXPECT_NEAR(found[2].weight_norm, std::sqrt(squares), 1e-12);
  EXPECT_EQ(run.hash(), before);
  EXPECT_FALSE(run.measure(50, false)[0].effective_rank);
}

/// The same layers in the grid, one a tick, and in one `sequential` with another inside.
struct Inside : LearningRun {
  explicit Inside(const std::string& layers)
      : LearningRun(must(mesh::read_network(R"({"weft": 2, "seed": 6, "grid": {"x": 4}, "inputs": {"x": [6]},
                                                "layers": [)" +
                                                layers + R"(], "outputs": {"y": [0, 0, 3, 0]}})",
                                            "inside")),
                    {}, shape()) {}
};

// Reference: the outputs of the same layers as cells of their own, with the same weights.
TEST(Plasticity, MeasuresTheLayersInsideContainers) {
  Inside grid(R"({"at": [0, 0, 0, 0], "type": "dense", "out": 12, "activation": "relu", "from": ["x"]},
                 {"at": [0, 0, 1, 0], "type": "layer_norm"}, {"at": [0, 0, 2, 0], "type": "dense", "out": 9},
                 {"at": [0, 0, 3, 0], "type": "dense", "out": 4})"),
      chain(R"({"at": [0, 0, 3, 0], "type": "sequential", "from": ["x"], "layers": [
                  {"type": "dense", "out": 12, "activation": "relu"},
                  {"type": "sequential", "layers": [{"type": "layer_norm"}, {"type": "dense", "out": 9}]},
                  {"type": "dense", "out": 4}]})");
  {
    const auto first = grid.store().of(grid.node({0, 0, 0, 0}));
    std::vector<float> bias = grid.store().read(first[1]);
    for (const std::size_t unit : {2, 3, 7}) bias[unit] = -1000;
    must(grid.store().write(first[1], bias, "bias"));
  }
  auto to = chain.store().of(chain.node({0, 0, 3, 0}));
  std::size_t parameter = 0;
  for (std::uint32_t x = 0; x < 4; ++x)
    for (const auto& from : grid.store().of(grid.node({0, 0, x, 0})))
      must(chain.store().write(to[parameter++], grid.store().read(from), "copy"));
  ASSERT_EQ(parameter, to.size());
  const std::string before = chain.hash();
  const std::vector<float> x = noise(150 * 6, 21);
  const mesh::RunInput input{"x", x};
  auto wanted = must(measure_plasticity(*grid.learner, {&input, 1}, 150, true));
  const auto found = must(measure_plasticity(*chain.learner, {&input, 1}, 150, true));
  EXPECT_EQ(wanted[0].dormant, 0.25);
  const char* const places[] = {"layers[0]", "layers[1].layers[0]", "layers[1].layers[1]", "layers[2]"};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    wanted[i].at = {0, 0, 3, 0};
    wanted[i].inside = places[i];
  }
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(chain.hash(), before);
}

// Values of layers beside a hidden state follow from the past too.
TEST(Plasticity, MeasuresAContainerWithAHiddenStateAsOneLayer) {
  Inside run(R"({"at": [0, 0, 3, 0], "type": "sequential", "from": ["x"], "layers": [
                   {"type": "gru", "out": 5}, {"type": "dense", "out": 4}]})");
  const std::vector<float> x = noise(20 * 6, 21);
  const mesh::RunInput input{"x", x};
  const auto found = must(measure_plasticity(*run.learner, {&input, 1}, 20, true));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].inside, "");
  double squares = 0;
  for (const auto& parameter : run.weights({0, 0, 3, 0}))
    for (const float w : parameter) squares += double{w} * double{w};
  EXPECT_NEAR(found[0].weight_norm, std::sqrt(squares), 1e-12);
}

TEST(Plasticity, IsTheSameOnEveryInstructionSetAndThreadCount) {
  const auto first = Dead().measure(33);
  for (const kernels::Isa isa : kernels::available_isas()) {
    const ForIsa scope(isa);
    for (const std::size_t threads : {1, 3}) EXPECT_EQ(Dead(threads).measure(33), first) << name(isa);
  }
}

TEST(Plasticity, IsMeasuredWithHeldOutSamplesOfAStream) {
  mesh::Mesh mesh = must(mesh::Mesh::build(digits_network(2), shape()));
  const auto learner = must(Learner::build(mesh, {}));
  StreamOptions options;
  options.held_out = 0.1;
  options.drift = Drift::pixels;
  SampleStream stream = must(SampleStream::build(*learner, digits(), options));
  must(stream.advance(100));
  const auto found = must(measure_plasticity(stream, 64, true));
  ASSERT_EQ(found.size(), 4u);
  for (const LayerPlasticity& layer : found) {
    EXPECT_GT(*layer.effective_rank, 5u);
    EXPECT_GT(layer.weight_norm, 1.0);
  }
  EXPECT_EQ(must(measure_plasticity(stream, 64, true)), found);
  // A pass over all of the rest, and of fewer samples than were asked for.
  EXPECT_EQ(must(measure_plasticity(stream, 100000, false)), must(measure_plasticity(stream, 4096, false)));
}

TEST(Plasticity, RefusesMoreValuesThanItHolds) {
  const Dead run;
  const std::vector<float> x(6);
  const mesh::RunInput input{"x", x};
  const auto refused = measure_plasticity(*run.learner, {&input, 1}, 1 << 24, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::too_large);
}

}  // namespace
}  // namespace weft::learning::plasticity_test
