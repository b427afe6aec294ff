// SPDX-License-Identifier: Apache-2.0

// The rule gap_original layer by layer, against float64 loops written from docs/learning.md. A dense layer stands
// before the one in question: its step shows the target that it got.

#include <gtest/gtest.h>

#include "networks.hpp"
#include <cmath>
#include <functional>
#include <map>
#include <string>

namespace weft::learning::gap_original_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using Vector = std::vector<double>;

constexpr std::size_t kIn = 5, kTokens = 3, kWidth = 4;  // of the dense layer before: kTokens * kWidth or kWidth values
constexpr std::uint32_t kHold = 6;
constexpr Coord kFirst{0, 0, 0, 0}, kSecond{0, 0, 1, 0};

struct Case {
  std::string type;
  std::size_t out = 0;  // features; 0: as its input
  bool is_sequence = false;
  double epsilon = 0;  // of the first column of the layer's first matrix, 0: as drawn
};

mesh::NetworkSpec network(const Case& of) {
  mesh::NetworkBuilder builder("two", GridShape{1, 1, 2, 1});
  builder.input("x", kIn).dense(kFirst, of.is_sequence ? kTokens * kWidth : kWidth);
  builder.layer(kSecond, of.type, of.out);
  if (of.is_sequence) builder.view({kTokens, kWidth});
  if (of.type == "attention") builder.option("heads", 2.0);
  if (of.type == "swiglu") builder.option("hidden", 20.0);
  return builder.output("y", kSecond).seed(7).spec();
}

/// Values of a layer after so many ticks, by a mesh that nothing teaches.
Vector values(const LearningRun& run, Coord at, const std::vector<float>& x, std::uint64_t ticks) {
  auto mesh = must(mesh::Mesh::build(run.mesh->spec()));
  auto& from = run.store();
  auto& to = mesh::MeshAccess::weights(mesh);
  for (std::size_t p = 0; p < to.parameters().size(); ++p)
    must(to.write(to.parameters()[p], from.read(from.parameters()[p]), "weights"));
  must(mesh.set_input("x", x));
  must(mesh.tick(ticks));
  const auto y = must(mesh.output(at));
  return {y.begin(), y.end()};
}

double factor(const Vector& a, const Vector& d) {
  double dot = 0, aa = 0, tt = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double t = a[i] + d[i];
    dot += a[i] * t, aa += a[i] * a[i], tt += t * t;
  }
  const double budget = aa == 0 || tt == 0 ? 0.5 : (dot / std::sqrt(aa * tt) + 1) / 2;
  return budget < 0.2 ? 0 : 0.5 + 0.5 * budget;
}

/// Changes of the second layer's parameters, and the target's distance for its input.
struct Expected {
  std::map<std::size_t, Vector> moved;  // by parameter
  Vector dx;
};

using Weights = std::vector<Vector>;

/// sum_o W[o][k] t[o] / S[k] - x[k] with `copies` blocks of W's rows for the same t.
void add_means(Expected& to, const Vector& w, const Vector& x, const Vector& t, std::size_t token, std::size_t copies) {
  const std::size_t in = x.size() / (to.dx.size() / kWidth), out = w.size() / in / copies;
  for (std::size_t k = 0; k < in; ++k) {
    double weighted = 0, size = 0;
    for (std::size_t o = 0; o < copies * out; ++o) {
      weighted += w[o * in + k] * t[token * out + o % out];
      size += std::abs(w[o * in + k]);
    }
    to.dx[token * in + k] = (size > 0.01 ? weighted / size : 0) - x[token * in + k];
  }
}

Expected expected(const Case& of, const Weights& w, const Vector& x, const Vector& y, const Vector& before,
                  const Vector& wanted) {
  Expected result;
  result.dx.assign(x.size(), 0.0);
  Vector gap = wanted;
  for (std::size_t i = 0; i < y.size(); ++i) gap[i] -= y[i];
  const double rate = factor(y, gap);
  const std::size_t tokens = x.size() / kWidth, out = y.size() / tokens;
  const bool is_lstm = of.type == "lstm", is_recurrent = is_lstm || of.type == "rnn";
  const auto add = [&](std::size_t parameter, std::size_t at, double value) {
    Vector& moved = result.moved[parameter];
    moved.resize(w[parameter].size(), 0.0);
    moved[at] += rate * value;
  };
  for (std::size_t t = 0; t < tokens; ++t) {
    const auto g = [&](std::size_t o) { return gap[t * out + o]; };
    for (std::size_t o = 0; o < out; ++o) {
      if (of.type == "dense") {
        for (std::size_t k = 0; k < kWidth; ++k) add(0, o * kWidth + k, x[t * kWidth + k] * g(o));
        add(1, o, g(o));
      }
      for (std::size_t gate = 0; is_recurrent && gate < (is_lstm ? 4 : 1); ++gate) {
        const std::size_t row = gate * out + o;
        for (std::size_t k = 0; k < kWidth; ++k)
          add(0, row * kWidth + k, (is_lstm ? 0.25 : 1) * x[t * kWidth + k] * g(o));
        add(2, row, (is_lstm ? 0.25 : 1) * g(o));
        for (std::size_t k = 0; k < out; ++k) {
          const double h = t > 0 ? y[(t - 1) * out + k] : before.empty() ? 0.0 : before[k];
          add(1, row * out + k, (is_lstm ? 0.1 : 0.5) * h * g(o));
        }
      }
      for (std::size_t k = 0; of.type == "attention" && k < kWidth; ++k)
        add(3, o * kWidth + k, 0.5 * x[t * kWidth + k] * g(o));
      for (std::size_t k = 0; of.type == "swiglu" && k < 20; ++k) add(2, o * 20 + k, 0.1 * g(o));
      if (of.type == "rms_norm" || of.type == "layer_norm") add(0, o, 0.01 * g(o));
    }
    if (of.type == "dense" || is_recurrent) add_means(result, w[0], x, wanted, t, is_lstm ? 4 : 1);
    if (of.type == "attention") add_means(result, w[3], x, wanted, t, 1);
  }
  return result;
}

class GapOriginal : public ::testing::TestWithParam<std::tuple<Case, Schedule>> {};

TEST_P(GapOriginal, MovesEachTypeAndSendsItsTargetAsTheEquationsSay) {
  const auto& [of, schedule] = GetParam();
  const bool is_pipelined = schedule == Schedule::pipelined;
  LearningOptions options{.rule = Rule::gap_original, .schedule = schedule, .loss = Loss::mse, .hold = kHold};
  options.optimizer = {.kind = OptimizerKind::sgd, .lr = 1.0f};
  LearningRun run(network(of), options);
  if (of.epsilon > 0) {
    auto& store = run.store();
    const std::size_t parameter = store.first(run.node(kSecond));
    auto w = store.read(store.parameters()[parameter]);
    for (std::size_t o = 0; o < w.size() / kWidth; ++o) w[o * kWidth] = 0;
    must(store.write(store.parameters()[parameter], w, "weights"));
  }
  const std::vector<float> x = noise(kIn, 4);
  // Fed once, a pipelined network answers two ticks later, of which its state is one old.
  const std::uint64_t ticks = is_pipelined ? 2 : kHold;
  const Vector a = values(run, kFirst, x, ticks), y = values(run, kSecond, x, ticks);
  const bool has_state = !of.is_sequence && (of.type == "rnn" || of.type == "lstm");
  const Vector before = has_state ? values(run, kSecond, x, ticks - 1) : Vector();
  // Near enough that no link budget stops the layer.
  std::vector<float> target = noise(y.size(), 9);
  for (std::size_t i = 0; i < y.size(); ++i) target[i] = static_cast<float>(y[i]) + 0.2f * target[i];
  const auto weights = run.weights();
  const Weights second(weights.begin() + 2, weights.end());
  const Expected wanted = expected(of, second, a, y, before, {target.begin(), target.end()});
  run.train(x, {}, target);
  must(run.learner->drain());
  const auto after = run.weights();
  double largest = 0;
  for (std::size_t p = 0; p < second.size(); ++p)
    for (std::size_t i = 0; i < second[p].size(); ++i) {
      const auto found = wanted.moved.find(p);
      const double move = found == wanted.moved.end() ? 0 : found->second[i];
      EXPECT_NEAR(after[2 + p][i] - second[p][i], move, 1e-6 + 2e-6 * std::abs(move)) << p << ", " << i;
      largest = std::max(largest, std::abs(move));
    }
  const bool has_step = of.type != "gru" && of.type != "activation";
  EXPECT_EQ(largest > 1e-4, has_step);
  const double rate = factor(a, wanted.dx);
  for (std::size_t o = 0; o < a.size(); ++o) {
    for (std::size_t k = 0; k < kIn; ++k)
      EXPECT_NEAR(after[0][o * kIn + k] - weights[0][o * kIn + k], rate * wanted.dx[o] * x[k], 2e-6) << o << ", " << k;
    EXPECT_NEAR(after[1][o] - weights[1][o], rate * wanted.dx[o], 2e-6) << o;
  }
}

std::vector<Case> cases() {
  return {{"dense", 6},    {"dense", 6, true},      {"dense", 6, false, 1}, {"rnn", 6},      {"rnn", 6, true},
          {"lstm", 6},     {"lstm", 6, true},       {"attention", 0, true}, {"swiglu", 0},   {"swiglu", 6, true},
          {"rms_norm", 0}, {"layer_norm", 0, true}, {"activation", 0},      {"gru", 6, true}};
}

INSTANTIATE_TEST_SUITE_P(Types, GapOriginal,
                         ::testing::Combine(::testing::ValuesIn(cases()),
                                            ::testing::Values(Schedule::settle, Schedule::pipelined)),
                         [](const auto& row) {
                           const Case& of = std::get<0>(row.param);
                           return of.type + (of.is_sequence ? "_tokens" : "") + (of.epsilon > 0 ? "_without" : "") +
                                  "_" + std::string(name(std::get<1>(row.param)));
                         });

}  // namespace
}  // namespace weft::learning::gap_original_test
