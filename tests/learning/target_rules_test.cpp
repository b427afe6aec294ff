// SPDX-License-Identifier: Apache-2.0

// Target propagation against a float64 model written from docs/learning.md, not from the code.

#include "learning/learner_snapshot.hpp"
#include "learning/optimizer.hpp"
#include "learning/rules/rule.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace weft::learning::target_rules_test {
namespace {

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

double rms(const Vector& v) {
  double sum = 0;
  for (double each : v) sum += each * each;
  return std::sqrt(sum / static_cast<double>(v.size()));
}

struct Model {
  LearningOptions options;
  std::vector<Vector> weights;   // w, b of the three layers
  std::vector<Vector> feedback;  // dfa: [width][kOut] of each layer; local_ce: [kOut][width]; others: [in][width]
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
  bool is_chain() const { return options.rule == Rule::chain || options.rule == Rule::chain_original; }
  double slope(std::size_t l, std::size_t o) const { return l < 2 ? 1 - a[l + 1][o] * a[l + 1][o] : 1; }

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

  // g(t) of layer l, which has `in` inputs.
  Vector fed_back(std::size_t l, const Vector& t) const {
    Vector back(a[l].size(), 0.0);
    for (std::size_t k = 0; k < back.size(); ++k) {
      for (std::size_t o = 0; o < t.size(); ++o) back[k] += feedback[l][k * t.size() + o] * t[o];
      if (options.feedback == Feedback::tanh) back[k] = std::tanh(back[k]);
    }
    return back;
  }

  // Displacement (target - activation) that layer l wants of its input.
  Vector propagate(std::size_t l, const Vector& d) const {
    const std::size_t in = a[l].size(), out = d.size();
    const Vector& w = weights[2 * l];
    const bool is_gradient = is_chain() || (options.rule == Rule::dtp && l == 2);
    const bool is_mean =
        options.rule == Rule::gap || options.rule == Rule::gap_difference || options.rule == Rule::gap_original;
    Vector back(in, 0.0);
    if (!is_mean && !is_gradient) {
      Vector t = a[l + 1];
      for (std::size_t o = 0; o < out; ++o) t[o] += d[o];
      const Vector wanted = fed_back(l, t), now = fed_back(l, a[l + 1]);
      for (std::size_t k = 0; k < in; ++k) back[k] = wanted[k] - now[k];
      return back;
    }
    for (std::size_t k = 0; k < in; ++k) {
      double weighted = 0, moved = 0, size = 0;
      for (std::size_t o = 0; o < out; ++o) {
        if (is_gradient) back[k] += w[o * in + k] * d[o] * slope(l, o);
        weighted += w[o * in + k] * (a[l + 1][o] + d[o]);
        moved += w[o * in + k] * d[o];
        size += std::abs(w[o * in + k]);
      }
      if (options.rule == Rule::gap) back[k] = size > 0.01 ? weighted / size - a[l][k] : 0;
      if (options.rule == Rule::gap_original) back[k] = (size > 0.01 ? weighted / size : 0) - a[l][k];
      if (options.rule == Rule::gap_difference)
        back[k] = size > 0.01 ? std::sqrt(static_cast<double>(out)) * moved / size : 0;
    }
    return back;
  }

  static Vector loss_gradient(const Vector& logits, std::size_t label) {
    double sum = 0;
    for (double v : logits) sum += std::exp(v);
    Vector error(logits.size());
    for (std::size_t o = 0; o < error.size(); ++o) error[o] = std::exp(logits[o]) / sum - (o == label);
    return error;
  }

  // Displacement of hidden layer l, whose output is a[l + 1].
  Vector arriving(std::size_t l, const Vector& next, const Vector& error, std::size_t label) const {
    const std::size_t width = a[l + 1].size();
    if (options.rule == Rule::dfa) {
      Vector d(width, 0.0);
      for (std::size_t i = 0; i < width; ++i)
        for (std::size_t o = 0; o < kOut; ++o) d[i] -= feedback[l][i * kOut + o] * error[o];
      return d;
    }
    if (options.rule != Rule::local_ce) return propagate(l + 1, next);
    Vector read(kOut, 0.0), d(width, 0.0);
    for (std::size_t o = 0; o < kOut; ++o)
      for (std::size_t i = 0; i < width; ++i) read[o] += feedback[l][o * width + i] * a[l + 1][i];
    const Vector own = loss_gradient(read, label);
    for (std::size_t o = 0; o < kOut; ++o)
      for (std::size_t i = 0; i < width; ++i) d[i] -= options.output_step * feedback[l][o * width + i] * own[o];
    return d;
  }

  void limit(std::size_t l, Vector& d) const {
    const double size = rms(a[l + 1]), most = options.activation_limit;
    const double far = rms(d);
    for (double& v : d)
      if (options.displacement_limit > 0 && far > options.displacement_limit) v *= options.displacement_limit / far;
    for (std::size_t i = 0; l < 2 && most > 0 && size > most && i < d.size(); ++i)
      d[i] += 0.1f * (a[l + 1][i] * most / size - a[l + 1][i]);
  }

  // Gradients of w, b of the three layers for one sample.
  std::vector<Vector> gradients(std::size_t label) const {
    const Vector error = loss_gradient(a[3], label);
    std::vector<Vector> displacements(3);
    displacements[2] = error;
    const bool is_wanted = options.rule == Rule::gap || options.rule == Rule::gap_original;
    for (double& v : displacements[2]) v *= -options.output_step;
    for (std::size_t o = 0; is_wanted && o < kOut; ++o)
      displacements[2][o] = (options.rule == Rule::gap ? 5.0 : 1.0) * (o == label) - a[3][o];
    limit(2, displacements[2]);
    for (std::size_t l = 2; l-- > 0;) {
      displacements[l] = arriving(l, displacements[l + 1], error, label);
      limit(l, displacements[l]);
    }
    std::vector<Vector> out;
    for (std::size_t l = 0; l < 3; ++l) {
      const bool is_tenth = options.rule == Rule::chain;
      Vector aim = displacements[l];
      if (is_tenth || (options.rule == Rule::chain_original && l < 2))
        for (double& v : aim) v *= 0.1;
      if (is_tenth) displacements[l] = aim;
      const double lr = options.optimizer.lr * (is_tenth ? 0.1 : 1.0);
      const double size = lr * static_cast<double>(a[l].size()) * rms(a[l]) * rms(a[l]);
      const double step = options.step_limit > 0 && size > options.step_limit ? options.step_limit / size : 1;
      const double f = factor(a[l + 1], aim) * step;
      Vector w, b;
      for (std::size_t o = 0; o < a[l + 1].size(); ++o) {
        // gap_original takes no slope of an activation.
        const double delta = -f * displacements[l][o] * (options.rule == Rule::gap_original ? 1 : slope(l, o));
        for (double x : a[l]) w.push_back(delta * x);
        b.push_back(delta);
      }
      out.push_back(w);
      out.push_back(b);
    }
    return out;
  }

  // The inverse of layer l after it learned from this sample without noise: its matrix [in][width], then its bias.
  std::pair<Vector, Vector> inverse(std::size_t l) const {
    const Vector now = fed_back(l, a[l + 1]);
    Vector v = feedback[l], c(a[l].size(), 0.0);
    double squares = 0;
    for (double each : a[l + 1]) squares += each * each;
    const double rate = options.inverse_lr * std::min(1.0, 1 / (options.inverse_lr * squares));
    for (std::size_t k = 0; k < c.size(); ++k) {
      const bool is_tanh = options.feedback == Feedback::tanh;
      const double error = rate * (a[l][k] - now[k]) * (is_tanh ? 1 - now[k] * now[k] : 1);
      for (std::size_t o = 0; o < a[l + 1].size(); ++o) v[k * a[l + 1].size() + o] += error * a[l + 1][o];
      if (is_tanh) c[k] = error;
    }
    return {v, c};
  }
};

Vector random_feedback(std::uint64_t seed, std::size_t place, std::size_t rows, std::size_t columns, double scale) {
  RandomStream random(seed, place * 16, RandomPurpose::feedback);
  Vector out;
  for (std::size_t i = 0; i < rows * columns; ++i)
    out.push_back(random.next_normal() * scale / std::sqrt(static_cast<double>(columns)));
  return out;
}

/// A learner of `chain_network`, and the model of it before its first sample.
struct Pair {
  std::unique_ptr<mesh::Mesh> mesh;
  std::unique_ptr<Learner> learner;
  Model model;
};

Pair make_pair(LearningOptions options) {
  auto mesh = mesh::Mesh::build(chain_network(), {});
  WEFT_ASSERT(mesh, mesh.error().text());
  Pair pair{std::make_unique<mesh::Mesh>(*std::move(mesh)), nullptr, {}};
  auto learner = Learner::build(*pair.mesh, options);
  WEFT_ASSERT(learner, learner.error().text());
  pair.learner = *std::move(learner);
  pair.model.options = pair.learner->options();
  for (const auto& parameter : mesh::MeshAccess::weights(*pair.mesh).parameters()) {
    const auto values = mesh::MeshAccess::weights(*pair.mesh).read(parameter);
    pair.model.weights.emplace_back(values.begin(), values.end());
  }
  const std::size_t widths[] = {kIn, kA, kB, kOut};
  for (std::size_t l = 0; l < 3; ++l) {
    const double scale = options.feedback_scale;
    pair.model.feedback.push_back(options.rule == Rule::dfa ? random_feedback(21, l, widths[l + 1], kOut, scale)
                                  : options.rule == Rule::local_ce
                                      ? random_feedback(21, l, kOut, widths[l + 1], scale)
                                      : random_feedback(21, l, widths[l], widths[l + 1], scale));
  }
  return pair;
}

const std::vector<float> kX{0.5f, -1.25f, 0.75f, 0.3f, -0.1f};

void learn_one(Learner& learner) {
  const std::vector<std::uint32_t> label{2};
  const mesh::RunInput input{"x", kX};
  const Target target{"y", label, {}};
  const Status learned = learner.learn({&input, 1}, {&target, 1}, 1);
  WEFT_ASSERT(learned, learned.error().text());
  const Status drained = learner.drain();
  WEFT_ASSERT(drained, drained.error().text());
}

struct Kind {
  Rule rule;
  Feedback feedback = Feedback::linear;
  bool is_tight = false;  // every limit takes effect
  LearningOptions options(Schedule schedule) const {
    LearningOptions o;
    o.rule = rule;
    o.schedule = schedule;
    o.feedback = feedback;
    o.feedback_scale = 0.7f;
    o.optimizer.lr = 0.25f;
    o.inverse_noise = 0.0f;
    if (is_tight) o.step_limit = 0.05f, o.displacement_limit = 0.04f, o.activation_limit = 0.1f;
    return o;
  }
  std::string text() const {
    return std::string(name(rule)) + (feedback == Feedback::tanh ? "_tanh" : "") + (is_tight ? "_tight" : "");
  }
};

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (std::size_t i = 0; i < rule_names().size(); ++i) {
    const Rule rule = static_cast<Rule>(i);
    if (rule_of(rule).path == ErrorPath::gradients) continue;
    for (const bool is_tight : {false, true}) {
      all.push_back({rule, Feedback::linear, is_tight});
      if (is_per_layer(rule_of(rule).feedback)) all.push_back({rule, Feedback::tanh, is_tight});
    }
  }
  return all;
}

class TargetRules : public ::testing::TestWithParam<std::tuple<Kind, Schedule>> {};

TEST_P(TargetRules, MoveEveryWeightAsTheEquationsSay) {
  const auto& [kind, schedule] = GetParam();
  Pair pair = make_pair(kind.options(schedule));
  pair.model.forward({kX.begin(), kX.end()});
  const auto gradients = pair.model.gradients(2);
  learn_one(*pair.learner);
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const auto& weights = mesh::MeshAccess::weights(*pair.mesh);
    const auto after = weights.read(weights.parameters()[p]);
    for (std::size_t i = 0; i < after.size(); ++i) {
      // velocity = 0.9 velocity + 0.1 step, from velocity 0.
      const double wanted = pair.model.weights[p][i] - 0.25 * 0.1 * gradients[p][i];
      EXPECT_NEAR(after[i], wanted, 2e-7 + 1e-6 * std::abs(gradients[p][i])) << "parameter " << p << ", value " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, TargetRules,
                         ::testing::Combine(::testing::ValuesIn(kinds()),
                                            ::testing::Values(Schedule::settle, Schedule::pipelined)),
                         [](const auto& row) {
                           return std::get<0>(row.param).text() + "_" + std::string(name(std::get<1>(row.param)));
                         });

TEST(LearnedInverses, MoveAsTheEquationsSay) {
  for (const Rule rule : {Rule::dtp, Rule::sdtp})
    for (const Feedback feedback : {Feedback::linear, Feedback::tanh}) {
      Pair pair = make_pair(Kind{rule, feedback}.options(Schedule::settle));
      pair.model.forward({kX.begin(), kX.end()});
      learn_one(*pair.learner);
      for (const std::size_t l : {std::size_t{1}, std::size_t{2}}) {
        const auto [v, c] = pair.model.inverse(l);
        const auto tensors = learner_tensors(*pair.learner);
        const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const formats::Tensor& tensor) {
          return tensor.name == "learning/inverse/" + std::to_string(1 + l);  // the port is node 0
        });
        ASSERT_NE(found, tensors.end());
        const auto* const values = reinterpret_cast<const float*>(found->bytes.data());
        const std::size_t in = pair.model.a[l].size(), width = pair.model.a[l + 1].size();
        for (std::size_t k = 0; k < in; ++k) {
          for (std::size_t o = 0; o < width; ++o)
            EXPECT_NEAR(values[kernels::panel_index(width, k, o)], v[k * width + o], 1e-6)
                << l << ": " << k << ", " << o;
          EXPECT_NEAR(values[kernels::panels_size(in, width) + k], c[k], 1e-6) << l << ": " << k;
        }
      }
    }
}

// A target far on the other side of the activation has a budget below 0.2: the layer stays as it is.
TEST(TargetRules, LeaveALayerAloneWhoseTargetPointsAway) {
  auto mesh = mesh::Mesh::build(chain_network(), {});
  LearningOptions options;
  options.rule = Rule::dfa;
  options.displacement_limit = 1e20f;
  options.output_step = 1000.0f;  // target = activation - 1000 gradient: cosine near that of -gradient
  options.optimizer.lr = 1e-4f;
  auto learner = Learner::build(*mesh, options);
  const std::vector<float> x{0.5f, -1.25f, 0.75f, 0.3f, -0.1f};
  // With the label at the largest output the gradient is along the activation and the target against it, or the other
  // way round: of the four labels at least one leaves some layer alone and at least one moves it.
  std::vector<std::uint64_t> moved;
  for (std::uint32_t label = 0; label < kOut; ++label) {
    const auto before = (*learner)->optimizer().updates()[3];
    const std::vector<std::uint32_t> labels{label};
    const mesh::RunInput input{"x", x};
    const Target target{"y", labels, {}};
    ASSERT_TRUE((*learner)->learn({&input, 1}, {&target, 1}, 1));
    moved.push_back((*learner)->optimizer().updates()[3] - before);
  }
  EXPECT_GT(std::count(moved.begin(), moved.end(), 0u), 0);
  EXPECT_GT(std::count(moved.begin(), moved.end(), 1u), 0);
}

}  // namespace
}  // namespace weft::learning::target_rules_test
