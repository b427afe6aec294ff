// SPDX-License-Identifier: Apache-2.0

// Backprop through ticks against a float64 model of the same mesh, written apart, and its finite differences.

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>
#include <functional>

namespace weft::learning::gradient_test {
namespace {

using kernels::Activation;
using Vector = std::vector<double>;

/// Three tanh layers in a loop and a linear output, ticked in float64: h0 <- x, h2; h1 <- h0; h2 <- h1; y <- h1.
struct Reference {
  static constexpr std::size_t kIn = 4, kA = 6, kB = 5, kC = 3, kOut = 3;
  std::vector<Vector>
      weights;  // h0.w, h0.b, h1.w, h1.b, y.w, y.b, h2.w, h2.b: grid order [0,0,0,0] [0,0,1,0] [0,1,0,0] [0,1,1,0]
  Vector h0 = Vector(kA), h1 = Vector(kB), y = Vector(kOut), h2 = Vector(kC);

  static Vector dense(const Vector& w, const Vector& b, const Vector& x, bool is_tanh) {
    Vector out(b);
    for (std::size_t o = 0; o < b.size(); ++o) {
      for (std::size_t k = 0; k < x.size(); ++k) out[o] += w[o * x.size() + k] * x[k];
      if (is_tanh) out[o] = std::tanh(out[o]);
    }
    return out;
  }
  void tick(const Vector& x) {
    Vector joined(x);
    joined.insert(joined.end(), h2.begin(), h2.end());
    Vector n0 = dense(weights[0], weights[1], joined, true), n1 = dense(weights[2], weights[3], h0, true),
           ny = dense(weights[4], weights[5], h1, false), n2 = dense(weights[6], weights[7], h1, true);
    h0 = n0, h1 = n1, y = ny, h2 = n2;
  }
  double loss(const Vector& x, std::size_t ticks, std::size_t label) {
    for (std::size_t t = 0; t < ticks; ++t) tick(x);
    double sum = 0;
    for (double v : y) sum += std::exp(v);
    return std::log(sum) - y[label];
  }
};

mesh::NetworkSpec loop_network() {
  return mesh::NetworkBuilder("loop", GridShape{1, 2, 2, 1})
      .input("x", Reference::kIn)
      .dense({0, 0, 0, 0}, Reference::kA, Activation::tanh)
      .from({"x", Coord{0, 1, 1, 0}})
      .dense({0, 0, 1, 0}, Reference::kB, Activation::tanh)
      .dense({0, 1, 0, 0}, Reference::kOut)
      .from({Coord{0, 0, 1, 0}})
      .dense({0, 1, 1, 0}, Reference::kC, Activation::tanh)
      .from({Coord{0, 0, 1, 0}})
      .output("y", {0, 1, 0, 0})
      .seed(5)
      .spec();
}

std::vector<Vector> weights_of(const mesh::Mesh& mesh) {
  std::vector<Vector> all;
  for (const auto& parameter : mesh::MeshAccess::weights(mesh).parameters()) {
    const auto values = mesh::MeshAccess::weights(mesh).read(parameter);
    all.emplace_back(values.begin(), values.end());
  }
  return all;
}

TEST(Backprop, ThroughALoopOfTicksEqualsFiniteDifferencesInFloat64) {
  constexpr std::uint32_t kHold = 9;  // the error runs round the loop of three twice
  auto mesh = mesh::Mesh::build(loop_network(), {});
  ASSERT_TRUE(mesh);
  LearningOptions options;
  options.horizon = kHold;
  options.hold = kHold;
  options.optimizer.kind = OptimizerKind::sgd;
  options.optimizer.lr = 1.0f;
  auto learner = Learner::build(*mesh, options);
  ASSERT_TRUE(learner);

  Reference model;
  model.weights = weights_of(*mesh);
  const std::vector<float> x{0.5f, -1.25f, 0.75f, 0.3f};
  const Vector xd(x.begin(), x.end());
  const std::vector<std::uint32_t> label{1};
  const mesh::RunInput input{"x", x};
  const Target target{"y", label, {}};
  ASSERT_TRUE((*learner)->learn({&input, 1}, {&target, 1}, 1));
  ASSERT_EQ((*learner)->scores().size(), 1u);
  EXPECT_NEAR((*learner)->scores()[0].loss, Reference(model).loss(xd, kHold, 1), 1e-5);

  const auto after = weights_of(*mesh);
  for (std::size_t p = 0; p < after.size(); ++p)
    for (std::size_t i = 0; i < after[p].size(); ++i) {
      const double step = 1e-5;
      Reference up(model), down(model);
      up.weights[p][i] += step;
      down.weights[p][i] -= step;
      const double wanted = (up.loss(xd, kHold, 1) - down.loss(xd, kHold, 1)) / (2 * step);
      // One float32 rounding of a weight below 2 bounds what the difference of weights can show.
      EXPECT_NEAR(model.weights[p][i] - after[p][i], wanted, 1e-5 * std::abs(wanted) + 2.5e-7) << p << " " << i;
    }
}

TEST(Backprop, TruncatedAtTheHorizonLeavesFartherPathsOut) {
  // With horizon 2 the error reaches y and h1; h0 and h2 stay as they were.
  auto mesh = mesh::Mesh::build(loop_network(), {});
  LearningOptions options;
  options.horizon = 2;
  options.optimizer.kind = OptimizerKind::sgd;
  options.optimizer.lr = 0.5f;
  auto learner = Learner::build(*mesh, options);
  const auto before = weights_of(*mesh);
  const std::vector<float> x{0.5f, -1.25f, 0.75f, 0.3f};
  const std::vector<std::uint32_t> label{1};
  const mesh::RunInput input{"x", x};
  const Target target{"y", label, {}};
  ASSERT_TRUE((*learner)->learn({&input, 1}, {&target, 1}, 1));
  const auto after = weights_of(*mesh);
  const bool moves[] = {false, false, true, true, true, true, false, false};
  for (std::size_t p = 0; p < after.size(); ++p) EXPECT_EQ(before[p] != after[p], moves[p]) << p;
}

// Pipelined: with a learning rate too small to matter, the sum of the updates is the sum of the samples' own gradients,
// each taken with its own activations, although samples follow each other tick by tick.
TEST(Backprop, PipelinedMeetsEverySampleWithItsOwnActivations) {
  const auto build = [](Schedule schedule, float lr) {
    auto spec = mesh::NetworkBuilder("chain", GridShape{1, 1, 3, 1})
                    .input("x", 4)
                    .dense({0, 0, 0, 0}, 6, Activation::tanh)
                    .dense({0, 0, 1, 0}, 5, Activation::tanh)
                    .dense({0, 0, 2, 0}, 3)
                    .output("y", {0, 0, 2, 0})
                    .seed(9)
                    .spec();
    auto mesh = std::make_unique<mesh::Mesh>(*mesh::Mesh::build(spec, {}));
    LearningOptions options;
    options.schedule = schedule;
    options.optimizer.kind = OptimizerKind::sgd;
    options.optimizer.lr = lr;
    auto learner = *Learner::build(*mesh, options);
    return std::pair(std::move(mesh), std::move(learner));
  };
  constexpr std::uint64_t kSamples = 40;
  std::vector<float> x(kSamples * 4);
  std::vector<std::uint32_t> labels(kSamples);
  RandomStream random(1, 1, RandomPurpose::test);
  for (float& v : x) v = random.next_normal();
  for (auto& l : labels) l = random.next_below(3);
  const auto sum_of_gradients = [&](Schedule schedule) {
    // 2^-14: a power of two, so the division below is exact; weights move by about 1e-3 in all.
    auto [mesh, learner] = build(schedule, 0x1p-14f);
    const auto before = weights_of(*mesh);
    const mesh::RunInput input{"x", x};
    const Target target{"y", labels, {}};
    EXPECT_TRUE(learner->learn({&input, 1}, {&target, 1}, kSamples));
    EXPECT_TRUE(learner->drain());
    EXPECT_EQ(learner->scores().size(), kSamples);
    for (std::uint64_t s = 0; s < kSamples; ++s) EXPECT_EQ(learner->scores()[s].sample, s);
    auto after = weights_of(*mesh);
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
