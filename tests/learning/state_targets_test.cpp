// SPDX-License-Identifier: Apache-2.0

// Targets of hidden states from tick to tick, against float64 cells written from docs/learning.md and PyTorch's
// formulas, whose derivatives are differences.

#include "learning/optimizer.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <cmath>

namespace weft::learning::state_targets_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using Vector = std::vector<double>;

constexpr std::size_t kIn = 4, kHidden = 5, kOut = 3, kHold = 5, kSeed = 5;

double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

struct Cell {
  std::string type;
  std::size_t gates() const { return type == "rnn" ? 1 : type == "gru" ? 3 : 4; }
  std::size_t states() const { return type == "lstm" ? 2 * kHidden : kHidden; }
  /// The next state from a = W_ih x + b_ih, b = W_hh h + b_hh and the state before; its first values are the output.
  Vector step(const Vector& a, const Vector& b, const Vector& state) const {
    Vector next(states());
    for (std::size_t j = 0; j < kHidden; ++j) {
      const auto at = [&](std::size_t gate) { return gate * kHidden + j; };
      if (type == "rnn") {
        next[j] = std::tanh(a[j] + b[j]);
      } else if (type == "gru") {
        const double r = sigmoid(a[at(0)] + b[at(0)]), z = sigmoid(a[at(1)] + b[at(1)]);
        const double n = std::tanh(a[at(2)] + r * b[at(2)]);
        next[j] = (1 - z) * n + z * state[j];
      } else {
        const double i = sigmoid(a[at(0)] + b[at(0)]), f = sigmoid(a[at(1)] + b[at(1)]);
        const double g = std::tanh(a[at(2)] + b[at(2)]), o = sigmoid(a[at(3)] + b[at(3)]);
        const double c = f * state[kHidden + j] + i * g;
        next[j] = o * std::tanh(c);
        next[kHidden + j] = c;
      }
    }
    return next;
  }
};

/// Derivatives of `cotangent` . f by one of its arguments.
template <class Function>
Vector slopes(Vector& argument, const Vector& cotangent, const Function& f) {
  constexpr double kStep = 1e-6;
  Vector result;
  for (double& v : argument) {
    const double before = v;
    double sum = 0;
    for (const double sign : {1.0, -1.0}) {
      v = before + sign * kStep;
      const Vector made = f();
      for (std::size_t i = 0; i < made.size(); ++i) sum += sign * cotangent[i] * made[i];
    }
    v = before;
    result.push_back(sum / (2 * kStep));
  }
  return result;
}

Vector times(const Vector& w, const Vector& x, const Vector& bias) {
  Vector y = bias;
  for (std::size_t o = 0; o < y.size(); ++o)
    for (std::size_t k = 0; k < x.size(); ++k) y[o] += w[o * x.size() + k] * x[k];
  return y;
}
Vector times_transposed(const Vector& w, const Vector& d, std::size_t in) {
  Vector x(in, 0.0);
  for (std::size_t o = 0; o < d.size(); ++o)
    for (std::size_t k = 0; k < in; ++k) x[k] += w[o * in + k] * d[o];
  return x;
}
void limit(Vector& d, double most) {
  double squares = 0;
  for (const double v : d) squares += v * v;
  const double rms = std::sqrt(squares / static_cast<double>(d.size()));
  for (double& v : d) v *= rms > most ? most / rms : 1;
}
double factor(const Vector& a, const Vector& d) {
  double dot = 0, aa = 0, tt = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double t = a[i] + d[i];
    dot += a[i] * t, aa += a[i] * a[i], tt += t * t;
  }
  const double budget = (dot / std::sqrt(aa * tt) + 1) / 2;
  return budget < 0.2 ? 0 : 0.5 + 0.5 * budget;
}

struct Variant {
  std::string type;
  Rule rule;
  double limit;
};

/// Gradients of W_ih, W_hh, b_ih, b_hh by errors of `ticks` ticks, after one sample that was held.
std::vector<Vector> expected(const Variant& variant, const std::vector<Vector>& w, const std::vector<Vector>& back,
                             const Vector& feedback, const Vector& x, std::size_t label, std::size_t ticks) {
  const Cell cell{variant.type};
  std::vector<Vector> states{Vector(cell.states(), 0.0)}, as, bs;
  for (std::size_t t = 0; t < kHold; ++t) {
    const Vector h(states[t].begin(), states[t].begin() + kHidden);
    as.push_back(times(w[0], x, w[2]));
    bs.push_back(times(w[1], h, w[3]));
    states.push_back(cell.step(as[t], bs[t], states[t]));
  }
  // The output of the last tick reads the state of the one before.
  const Vector h(states[kHold - 1].begin(), states[kHold - 1].begin() + kHidden);
  Vector d = times(w[4], h, w[5]);
  double sum = 0;
  for (const double v : d) sum += std::exp(v);
  for (std::size_t o = 0; o < kOut; ++o) d[o] = (o == label) - std::exp(d[o]) / sum;
  limit(d, variant.limit);
  Vector arriving =
      variant.rule == Rule::fw_dtp ? times(feedback, d, Vector(kHidden, 0.0)) : times_transposed(w[4], d, kHidden);
  limit(arriving, variant.limit);
  std::vector<Vector> gradients{Vector(w[0].size()), Vector(w[1].size()), Vector(w[2].size()), Vector(w[3].size())};
  const double share = variant.rule == Rule::chain ? 0.1 : 1.0;
  Vector from_next(cell.states(), 0.0);
  for (std::size_t r = 0; r < ticks; ++r) {
    const std::size_t t = kHold - 2 - r;  // made states[t + 1]
    Vector a = as[t], b = bs[t], state = states[t];
    const auto step = [&] { return cell.step(a, b, state); };
    Vector whole = from_next;
    for (std::size_t j = 0; j < kHidden; ++j) whole[j] += arriving[j];
    const Vector db = slopes(b, whole, step), direct = slopes(state, whole, step);
    Vector published(states[t + 1].begin(), states[t + 1].begin() + kHidden), scaled = arriving;
    for (double& v : scaled) v *= share;
    const double f = factor(published, scaled) * share;
    Vector own = whole;
    for (double& v : own) v *= -f;
    const Vector da_own = slopes(a, own, step), db_own = slopes(b, own, step);
    for (std::size_t o = 0; o < da_own.size(); ++o) {
      for (std::size_t k = 0; k < kIn; ++k) gradients[0][o * kIn + k] += da_own[o] * x[k];
      for (std::size_t k = 0; k < kHidden; ++k) gradients[1][o * kHidden + k] += db_own[o] * states[t][k];
      gradients[2][o] += da_own[o];
      gradients[3][o] += db_own[o];
    }
    const Vector through = times_transposed(variant.rule == Rule::fw_dtp ? back[1] : w[1], db, kHidden);
    from_next = direct;
    // `direct` has the way past W_hh.
    for (std::size_t j = 0; j < kHidden; ++j) from_next[j] += through[j];
    limit(from_next, variant.limit);
    arriving.assign(kHidden, 0.0);
  }
  return gradients;
}

class StateTargets : public ::testing::TestWithParam<Variant> {};

TEST_P(StateTargets, TeachEachTickOfThePastAsTheEquationsSay) {
  const Variant& variant = GetParam();
  for (const std::uint32_t ticks : {1u, 3u}) {
    LearningOptions options{.rule = variant.rule, .horizon = ticks + 1, .hold = kHold};
    options.optimizer = {.kind = OptimizerKind::sgd, .lr = 1.0f};
    options.step_limit = options.activation_limit = options.gradient_limit = 1e20f;
    options.displacement_limit = static_cast<float>(variant.limit);
    LearningRun run(mesh::NetworkBuilder("small", GridShape{1, 1, 2, 1})
                        .input("x", kIn)
                        .layer({0, 0, 0, 0}, variant.type, kHidden)
                        .dense({0, 0, 1, 0}, kOut)
                        .output("y", {0, 0, 1, 0})
                        .seed(kSeed)
                        .spec(),
                    options);
    const auto before = run.weights();
    // The draws of the feedback: of the layer's parameters, and of the dense layer's matrix.
    std::vector<Vector> back;
    const auto& parameters = run.mesh->graph().nodes()[1].layer->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      RandomStream random(kSeed, i, RandomPurpose::feedback);
      std::vector<float> drawn(parameters[i].out * std::max<std::size_t>(parameters[i].in, 1));
      parameters[i].init(random, drawn);
      back.emplace_back(drawn.begin(), drawn.end());
    }
    Vector feedback;
    RandomStream random(kSeed, 16, RandomPurpose::feedback);
    for (std::size_t i = 0; i < kHidden * kOut; ++i) feedback.push_back(random.next_normal() / std::sqrt(double{kOut}));
    const std::vector<float> x = noise(kIn, 4);
    run.train(x, {2});
    const auto after = run.weights();
    const auto gradients =
        expected(variant, {before.begin(), before.end()}, back, feedback, {x.begin(), x.end()}, 2, ticks);
    double moved = 0;
    for (std::size_t p = 0; p < gradients.size(); ++p)
      for (std::size_t i = 0; i < gradients[p].size(); ++i) {
        EXPECT_NEAR(before[p][i] - after[p][i], gradients[p][i], 2e-7 + 2e-6 * std::abs(gradients[p][i]))
            << ticks << " ticks, parameter " << p << ", value " << i;
        moved = std::max(moved, std::abs(gradients[p][i]));
      }
    EXPECT_GT(moved, 1e-4);
  }
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const char* type : {"rnn", "gru", "lstm"})
    for (const Rule rule : {Rule::fw_dtp, Rule::chain})
      for (const double limit : {1e20, 0.02}) all.push_back({type, rule, limit});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Of, StateTargets, ::testing::ValuesIn(variants()), [](const auto& row) {
  return row.param.type + "_" + std::string(name(row.param.rule)) + (row.param.limit < 1 ? "_limited" : "");
});

// A layer of one value that was -0.76 in the samples before, which had no labels, and is 0.76 in this one, with a
// target far above. Errors about this sample have a link budget of 1; those about the ones before point away from what
// it gave and have none.
TEST(StateTargets, LearnFromTheNearTicksWhereTheFarOnesTeachNothing) {
  const mesh::NetworkSpec spec = mesh::NetworkBuilder("one", GridShape{1, 1, 3, 1})
                                     .input("x", 1)
                                     .dense({0, 0, 0, 0}, 1, kernels::Activation::tanh)
                                     .layer({0, 0, 1, 0}, "leaky_integrator")
                                     .dense({0, 0, 2, 0}, 2)
                                     .output("y", {0, 0, 2, 0})
                                     .spec();
  std::vector<std::vector<std::vector<double>>> ends;
  // Of a sample's six ticks the layer gives 0.76 in those 2 to 5 links before the output's last.
  for (const std::uint32_t horizon : {6u, 0u}) {
    LearningOptions options{.rule = Rule::chain};
    options.hold = 6;
    options.horizon = horizon;
    options.optimizer.lr = 1e-6f;
    options.output_step = 1e5f;
    options.displacement_limit = options.step_limit = 1e20f;
    LearningRun run(spec, with_defaults(options));
    for (auto& parameter : run.store().parameters()) {
      std::vector<float> values(parameter.spec->out * std::max<std::size_t>(parameter.spec->in, 1), 0.0f);
      if (parameter.spec->is_matrix()) values[0] = 1.0f;
      if (values.size() > 1 && parameter.spec->is_matrix()) values[1] = -1.0f;
      must(run.store().write(parameter, values, "set"));
    }
    for (int sample = 0; sample < 10; ++sample) run.train({-1.0f}, {kNoLabel});
    run.train({1.0f}, {0});
    EXPECT_EQ(std::as_const(*run.learner).optimizer().updates()[1], 1u) << horizon;
    ends.push_back(run.weights());
  }
  EXPECT_GT(ends[0][0][0], 1.0);
  EXPECT_EQ(ends[1], ends[0]);
}

}  // namespace
}  // namespace weft::learning::state_targets_test
