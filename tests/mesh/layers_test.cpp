// SPDX-License-Identifier: Apache-2.0

// Layers and options that PyTorch lacks, against a float64 model written apart, and the model's finite differences.
// The others: layer_goldens_test.cpp.

#include "kernels/activation.hpp"

#include "goldens.hpp"
#include "layer_models.hpp"
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

namespace weft::mesh::layers_test {
namespace {

using kernels::Activation;
using models::Model;
using models::Outcome;
using models::Vector;
using namespace testing_support;

struct Case {
  std::string label;
  LayerSpec spec;
  Shape in;
  Model model;
  bool sends_back = true;  // false: it looks, and what it looks at is not to change for that
  bool learns = true;      // false: its parameters are numbers of the network, and stay
};

class Cases {
 public:
  /// A layer as JSON has it, "type" and braces left out.
  Case& add(const std::string& type, const std::string& options, const Shape& in, Model model) {
    const std::string text = R"({"type": ")" + type + '"' + (options.empty() ? "" : ", ") + options + "}";
    return add(goldens::layer(text), in, std::move(model));
  }
  Case& add(LayerSpec spec, const Shape& in, Model model) {
    const std::string label = spec.type + "_" + std::to_string(++counts_[spec.type]);
    return all.emplace_back(Case{label, std::move(spec), in, std::move(model)});
  }
  std::vector<Case> all;

 private:
  std::map<std::string, int> counts_;
};

void add_sparse_softmaxes(Cases& all) {
  for (const auto& [kind, alpha] : {std::pair<std::string, double>{"sparsemax", 2}, {"entmax", 1.5}})
    for (const auto& [width, groups] :
         {std::pair<std::size_t, std::size_t>{12, 1}, {12, 2}, {12, 4}, {13, 13}, {130, 2}})
      for (const double t : {1.0, 2.5})
        all.add("softmax",
                R"("kind": ")" + kind + R"(", "groups": )" + std::to_string(groups) + R"(, "temperature": )" +
                    std::to_string(t),
                {width}, models::in_groups(models::entmax(alpha, t), groups));
  for (const double alpha : {1.1, 1.75, 2.0, 3.0})
    all.add("softmax", R"("kind": "entmax", "temperature": 0.5, "alpha": )" + std::to_string(alpha), {13},
            models::entmax(alpha, 0.5));
  all.add("softmax", R"("kind": "entmax", "alpha": 1)", {13}, models::softmax(1));
}

std::vector<Case> cases() {
  Cases all;
  add_sparse_softmaxes(all);
  for (const std::size_t width : {1, 13, 64, 65, 131}) {
    LayerSpec standardize;
    standardize.type = "standardize";
    standardize.options = {{"mean", std::vector<double>(width, 0.25)}, {"deviation", std::vector<double>(width, 2.0)}};
    all.add(standardize, {width}, models::standardize()).learns = false;
  }
  for (const auto& [in, n] : {std::pair<std::size_t, std::size_t>{1, 1}, {7, 5}, {3, 17}, {13, 13}})
    for (const bool bias : {true, false})
      for (const Activation gate : {Activation::silu, Activation::gelu, Activation::relu2, Activation::gelu_tanh}) {
        const std::string gated = R"("out": )" + std::to_string(n) +
                                  (bias ? R"(, "bias": true)" : R"(, "bias": false)") + R"(, "hidden": 9, "gate": ")" +
                                  std::string(kernels::name(gate)) + '"';
        if (gate == Activation::gelu_tanh) all.add("swiglu", gated, {in}, models::swiglu(9, bias, gate));
        all.add("swiglu", gated + R"(, "inner_norm": "rms", "epsilon": 0.01)", {in},
                models::swiglu(9, bias, gate, 0.01));
      }
  all.add("metacognition", R"("above": 2, "active_above": 0.5)", {13}, models::statistics(1, 0.5)).sends_back = false;
  all.add("metacognition", R"("above": 2, "active_above": 0.5, "action": "swap")", {26}, models::statistics(2, 0.5))
      .sends_back = false;
  // Nobody learns from these rows; dropout_test.cpp has those that are learned from.
  all.add("dropout", R"("rate": 0.25)", {13}, [](const auto&, const Vector& x, const Vector& state) {
    return Outcome{x, state};
  });
  for (const int heads : {1, 4})
    all.add("attention",
            R"("out": 5, "head_dim": 3, "out_norm": "rms", "out_epsilon": 0.1, "heads": )" + std::to_string(heads), {6},
            models::lone_attention(0.1));
  // Of a tick alone; with derivatives of the past: diagonal_test.cpp.
  for (const auto& [in, out] : {std::pair<std::size_t, std::size_t>{1, 2}, {7, 10}, {3, 34}})
    for (const Activation activation : {Activation::linear, Activation::tanh, Activation::gelu})
      for (const bool bends_state : {false, true})
        all.add("diagonal",
                R"("through_time": "backward", "out": )" + std::to_string(out) + R"(, "activation": ")" +
                    std::string(kernels::name(activation)) + R"(", "activation_of": ")" +
                    (bends_state ? "state" : "output") + '"',
                {in}, models::diagonal(activation, bends_state));
  for (const double cap : {0.5, 30.0})
    all.add("soft_cap", R"("cap": )" + std::to_string(cap), {2, 13}, models::soft_cap(cap));
  for (const std::size_t width : {1, 13, 64, 65})
    for (const std::size_t tokens : {1, 3}) all.add("crelu", "", {tokens, width}, models::crelu(tokens));
  all.add("crelu", R"("axis": "first")", {3, 4, 5}, models::crelu(1));
  all.add("crelu", R"("out": 26)", {13}, models::crelu(1));
  all.add("magnitude", "", {2, 13}, models::magnitude());
  all.add("magnitude", "", {6, 2, 3}, models::magnitude());
  all.add("select", R"("first": 1, "count": 3)", {2, 3}, models::select({1, 2, 3}));
  // A run backwards, zeros, a value three times, and the first ones again.
  all.add("select", R"("first": [0, 4, 6, 2, 0], "count": [6, 3, 2, 3, 4], "step": [1, -1, 0, 0, 2])", {6},
          models::select({0, 1, 2, 3, 4, 5, 4, 3, 2, 6, 6, 2, 2, 2, 0, 2, 4, 6}));
  all.add("sign", "", {2, 13}, models::sign(0));
  all.add("sign", R"("zone": 0.4)", {2, 13}, models::sign(0.4));
  all.add("argmax", "", {13}, models::argmax(1));
  all.add("argmax", "", {3, 5}, models::argmax(3));
  for (const std::size_t tokens : {1, 4})
    for (const char* stateful : {"false", "true"})
      all.add("position_embedding", R"("positions": 5, "stateful": )" + std::string(stateful), {tokens, 3},
              models::position_embedding(tokens, 5));
  all.add("embedding", R"("out": 5, "vocabulary": 3, "scale": 2.5)", {4}, models::embedding(3, 2.5));
  return std::move(all.all);
}

/// A layer of a case with random parameters, inputs and gradients of its outputs, over one tick.
struct Bench : goldens::Sequence {
  Bench(const Case& tested, std::size_t row_count) : Sequence(tested.spec, tested.in, 1, row_count), rows(row_count) {
    x = noise(x.size(), 1);
    const auto states = noise(dstate.size(), 2);
    std::copy(states.begin(), states.end(), state.begin());
    dy = noise(dy.size(), 3);
    dstate = dnext = noise(dstate.size(), 4);
    for (std::size_t i = 0; i < layer->parameters().size(); ++i) {
      const ParameterSpec& p = layer->parameters()[i];
      set_parameter(i, noise(values_of(p), 10 + i, p.is_matrix() ? 0.3f : 1.0f));
      parameters.push_back(wide(parameter(i), 0, values_of(p)));
    }
  }
  static Vector wide(const std::vector<float>& values, std::size_t row, std::size_t width) {
    return {values.begin() + static_cast<std::ptrdiff_t>(row * width),
            values.begin() + static_cast<std::ptrdiff_t>((row + 1) * width)};
  }
  Vector input(std::size_t b) const { return wide(x, b, layer->in()); }
  Vector hidden(std::size_t b) const { return wide(state, b, layer->state_size()); }
  /// The loss whose gradients backward gives: sum of dy y + dnext next.
  double loss(const Case& tested, std::size_t b, const Vector& x_of, const Vector& state_of) const {
    const Outcome outcome = tested.model(parameters, x_of, state_of);
    double sum = 0;
    for (std::size_t j = 0; j < outcome.y.size(); ++j) sum += dy[b * outcome.y.size() + j] * outcome.y[j];
    for (std::size_t j = 0; j < outcome.next.size(); ++j) sum += dnext[b * outcome.next.size() + j] * outcome.next[j];
    return sum;
  }
  std::size_t rows;
  std::vector<float> dnext;
  std::vector<Vector> parameters;
};

double slope(double& value, const std::function<double()>& f) {
  const double kept = value, step = 1e-5;
  value = kept + step;
  const double above = f();
  value = kept - step;
  const double below = f();
  value = kept;
  return (above - below) / (2 * step);
}

// Rounding of float32 sums of at most 131 terms of magnitude about `scale`; finite differences err by 1e-9.
void expect_near(const std::vector<float>& got, const Vector& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double scale = 1.0;
  for (const double v : want) scale = std::max(scale, std::fabs(v));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 4e-6 * scale) << what << ", element " << i;
}

class EveryLayer : public testing::TestWithParam<Case> {};

TEST_P(EveryLayer, ComputesWhatTheFloat64ModelDoes) {
  for (const std::size_t rows : {1, 3}) {
    Bench bench(GetParam(), rows);
    bench.forward(0, rows);
    Vector y, next;
    for (std::size_t b = 0; b < rows; ++b) {
      const Outcome outcome = GetParam().model(bench.parameters, bench.input(b), bench.hidden(b));
      y.insert(y.end(), outcome.y.begin(), outcome.y.end());
      next.insert(next.end(), outcome.next.begin(), outcome.next.end());
    }
    expect_near(bench.y, y, "y");
    expect_near(bench.last_state(), next, "next state");
  }
}

TEST_P(EveryLayer, SendsBackTheModelsFiniteDifferences) {
  for (const std::size_t rows : {1, 3}) {
    Bench bench(GetParam(), rows);
    bench.forward(0, rows);
    bench.backward();
    Vector dx, dstate;
    for (std::size_t b = 0; b < rows; ++b) {
      Vector x = bench.input(b), state = bench.hidden(b);
      const auto f = [&] { return bench.loss(GetParam(), b, x, state); };
      for (double& v : x) dx.push_back(GetParam().sends_back ? slope(v, f) : 0.0);
      for (double& v : state) dstate.push_back(slope(v, f));
    }
    expect_near(bench.dx, dx, "dx");
    expect_near(bench.dstate, dstate, "dstate");
    for (std::size_t i = 0; i < bench.parameters.size(); ++i) {
      Vector want;
      for (double& v : bench.parameters[i])
        want.push_back(slope(v, [&] {
          double sum = 0;
          for (std::size_t b = 0; b < rows; ++b) sum += bench.loss(GetParam(), b, bench.input(b), bench.hidden(b));
          return sum;
        }));
      expect_near(bench.gradient(i), GetParam().learns ? want : Vector(want.size(), 0.0),
                  bench.layer->parameters()[i].name);
    }
  }
}

TEST_P(EveryLayer, AddsToGradientsAndComputesOnlyWhatIsWanted) {
  const auto run = [](bool wants_dx, bool wants_gradients, float before = 0.0f) {
    auto bench = std::make_unique<Bench>(GetParam(), 3);
    for (std::size_t i = 0; i < bench->parameters.size(); ++i)
      bench->set_gradient(i, std::vector<float>(bench->parameters[i].size(), before));
    bench->forward(0, 3);
    bench->backward(wants_dx, wants_gradients);
    return bench;
  };
  const auto whole = run(true, true), on_top = run(true, true, 1.0f), without_dx = run(false, true);
  EXPECT_EQ(bits(run(true, false)->dx), bits(whole->dx));
  EXPECT_EQ(bits(without_dx->dstate), bits(whole->dstate));
  for (std::size_t i = 0; i < whole->parameters.size(); ++i) {
    const auto alone = whole->gradient(i), sums = on_top->gradient(i);
    EXPECT_EQ(bits(without_dx->gradient(i)), bits(alone));
    for (std::size_t k = 0; k < alone.size(); ++k) EXPECT_NEAR(sums[k], alone[k] + 1.0f, 2e-5f);
  }
}

TEST_P(EveryLayer, GivesARowTheSameBitsWhoeverElseIsInTheBatch) {
  Bench together(GetParam(), 3), alone(GetParam(), 3);
  together.forward(0, 3);
  for (const std::size_t b : {2, 0, 1}) alone.forward(b, 1);
  for (const auto values : {&Bench::y, &Bench::z, &Bench::cache, &Bench::state})
    EXPECT_EQ(bits(together.*values), bits(alone.*values));
}

INSTANTIATE_TEST_SUITE_P(Layers, EveryLayer, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.label; });

TEST(Layers, HaveAModelHereOrValuesOfPyTorch) {
  std::set<std::string> tested;
  for (const Case& each : cases()) tested.insert(each.spec.type);
  for (const std::string& type : layer_types()) {
    // Other tests add types of their own.
    if (!layer_declaration(type)->is_own) continue;
    EXPECT_TRUE(tested.count(type) || std::filesystem::exists(source_path("tests/data/layers/") + type + ".json"))
        << type;
  }
}

}  // namespace
}  // namespace weft::mesh::layers_test
