// SPDX-License-Identifier: Apache-2.0

// Target propagation against a float64 model written from docs/learning.md, not from the code.

#include "learning/optimizer.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <cmath>

namespace weft::learning::target_rules_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using kernels::Activation;
using Vector = std::vector<double>;

constexpr std::size_t kIn = 5, kA = 8, kB = 6, kOut = 4;

mesh::NetworkSpec chain_network() {
  return mesh::NetworkBuilder("chain", GridShape{1, 1, 3, 1})
      .input("x", kIn)
      .dense({0, 0, 0, 0}, kA, Activation::tanh)
      .dense({0, 0, 1, 0}, kB, Activation::tanh)
      .dense({0, 0, 2, 0}, kOut)
      .output("y", {0, 0, 2, 0})
      .seed(21)
      .spec();
}

struct Model {
  Rule rule;
  std::vector<Vector> weights;   // w, b of the three layers
  std::vector<Vector> feedback;  // fw_dtp: [in][out] of each layer; dfa: [width][kOut] of each layer
  std::vector<Vector> a{4};      // x, h0, h1, y

  void forward(const Vector& x) {
    a[0] = x;
    for (std::size_t l = 0; l < 3; ++l) {
      const Vector &w = weights[2 * l], &b = weights[2 * l + 1];
      a[l + 1] = b;
      for (std::size_t o = 0; o < b.size(); ++o) {
        for (std::size_t k = 0; k < a[l].size(); ++k) a[l + 1][o] += w[o * a[l].size() + k] * a[l][k];
        if (l < 2) a[l + 1][o] = std::tanh(a[l + 1][o]);
      }
    }
  }

  static double factor(const Vector& activation, const Vector& displacement) {
    double dot = 0, aa = 0, tt = 0;
    for (std::size_t i = 0; i < activation.size(); ++i) {
      const double t = activation[i] + displacement[i];
      dot += activation[i] * t;
      aa += activation[i] * activation[i];
      tt += t * t;
    }
    const double budget = (dot / std::sqrt(aa * tt) + 1) / 2;
    return budget < 0.2 ? 0 : 0.5 + 0.5 * budget;
  }

  // Displacement (target - activation) that layer l asks of its input.
  Vector propagate(std::size_t l, const Vector& d) const {
    const std::size_t in = a[l].size(), out = d.size();
    const Vector& w = weights[2 * l];
    Vector back(in, 0.0);
    for (std::size_t k = 0; k < in; ++k) {
      double weighted = 0, size = 0;
      for (std::size_t o = 0; o < out; ++o) {
        const double slope = l < 2 ? 1 - a[l + 1][o] * a[l + 1][o] : 1;
        if (rule == Rule::fw_dtp) back[k] += feedback[l][k * out + o] * d[o];
        if (rule == Rule::chain) back[k] += 0.1 * w[o * in + k] * d[o] * slope;
        weighted += w[o * in + k] * (a[l + 1][o] + d[o]);
        size += std::abs(w[o * in + k]);
      }
      if (rule == Rule::gap) back[k] = size > 0.01 ? weighted / size - a[l][k] : 0;
    }
    return back;
  }

  // Gradients of w, b of the three layers for one sample.
  std::vector<Vector> gradients(std::size_t label) const {
    double sum = 0;
    for (double v : a[3]) sum += std::exp(v);
    Vector error(kOut);
    for (std::size_t o = 0; o < kOut; ++o) error[o] = std::exp(a[3][o]) / sum - (o == label);
    std::vector<Vector> displacements(3);
    displacements[2] = error;
    for (double& v : displacements[2]) v = -v;
    for (std::size_t o = 0; rule == Rule::gap && o < kOut; ++o) displacements[2][o] = 5.0 * (o == label) - a[3][o];
    for (std::size_t l = 2; l-- > 0;) {
      if (rule != Rule::dfa) {
        displacements[l] = propagate(l + 1, displacements[l + 1]);
        continue;
      }
      displacements[l].assign(a[l + 1].size(), 0.0);
      for (std::size_t i = 0; i < a[l + 1].size(); ++i)
        for (std::size_t o = 0; o < kOut; ++o) displacements[l][i] -= feedback[l][i * kOut + o] * error[o];
    }
    std::vector<Vector> out;
    for (std::size_t l = 0; l < 3; ++l) {
      const double f = factor(a[l + 1], displacements[l]);
      Vector w, b;
      for (std::size_t o = 0; o < a[l + 1].size(); ++o) {
        const double slope = l < 2 ? 1 - a[l + 1][o] * a[l + 1][o] : 1;
        const double delta = -f * displacements[l][o] * slope;
        for (double x : a[l]) w.push_back(delta * x);
        b.push_back(delta);
      }
      out.push_back(w);
      out.push_back(b);
    }
    return out;
  }
};

Vector random_feedback(std::uint64_t seed, std::size_t place, std::size_t rows, std::size_t columns, double scale) {
  RandomStream random(seed, place * 16, RandomPurpose::feedback);
  Vector out;
  for (std::size_t i = 0; i < rows * columns; ++i)
    out.push_back(random.next_normal() * scale / std::sqrt(static_cast<double>(columns)));
  return out;
}

class TargetRules : public ::testing::TestWithParam<std::tuple<Rule, Schedule>> {};

TEST_P(TargetRules, MoveEveryWeightAsTheEquationsSay) {
  const auto [rule, schedule] = GetParam();
  LearningOptions options{.rule = rule, .schedule = schedule, .feedback_scale = 0.7f};
  options.optimizer.lr = 0.25f;
  LearningRun run(chain_network(), options);
  Model model{rule, run.weights(), {}};
  const std::size_t widths[] = {kIn, kA, kB, kOut};
  for (std::size_t l = 0; l < 3; ++l)
    model.feedback.push_back(rule == Rule::dfa ? random_feedback(21, l, widths[l + 1], kOut, 0.7f)
                                               : random_feedback(21, l, widths[l], widths[l + 1], 0.7f));
  const std::vector<float> x{0.5f, -1.25f, 0.75f, 0.3f, -0.1f};
  model.forward({x.begin(), x.end()});
  const auto gradients = model.gradients(2);
  run.train(x, {2});
  must(run.learner->drain());
  const auto weights = run.weights();
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const auto& after = weights[p];
    for (std::size_t i = 0; i < after.size(); ++i) {
      // velocity = 0.9 velocity + 0.1 step, from velocity 0.
      const double wanted = model.weights[p][i] - 0.25 * 0.1 * gradients[p][i];
      EXPECT_NEAR(after[i], wanted, 2e-7 + 1e-6 * std::abs(gradients[p][i])) << "parameter " << p << ", value " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, TargetRules,
                         ::testing::Combine(::testing::Values(Rule::gap, Rule::chain, Rule::fw_dtp, Rule::dfa),
                                            ::testing::Values(Schedule::settle, Schedule::pipelined)),
                         [](const auto& row) {
                           return std::string(name(std::get<0>(row.param))) + "_" +
                                  std::string(name(std::get<1>(row.param)));
                         });

// A target far on the other side of the activation has a budget below 0.2: the layer stays as it is.
TEST(TargetRules, LeaveALayerAloneWhoseTargetPointsAway) {
  // target = activation - 1000 gradient: cosine near that of -gradient
  LearningOptions options{.rule = Rule::dfa, .output_step = 1000.0f};
  options.optimizer.lr = 1e-4f;
  LearningRun run(chain_network(), options);
  const auto updates = [&] { return std::as_const(*run.learner).optimizer().updates()[3]; };
  const std::vector<float> x{0.5f, -1.25f, 0.75f, 0.3f, -0.1f};
  // With the label at the largest output the gradient is along the activation and the target against it, or the other
  // way round: of the four labels at least one leaves some layer alone and at least one moves it.
  std::vector<std::uint64_t> moved;
  for (std::uint32_t label = 0; label < kOut; ++label) {
    const auto before = updates();
    run.train(x, {label});
    moved.push_back(updates() - before);
  }
  EXPECT_GT(std::count(moved.begin(), moved.end(), 0u), 0);
  EXPECT_GT(std::count(moved.begin(), moved.end(), 1u), 0);
}

}  // namespace
}  // namespace weft::learning::target_rules_test
