// SPDX-License-Identifier: Apache-2.0

// Every row of mesh/layers/layers.def against a float64 model written apart, and the model's finite differences.

#include "kernels/unary.hpp"

#include "convolution_models.hpp"
#include "goldens.hpp"
#include "layer_models.hpp"
#include <algorithm>
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
  /// A layer of windows over `slide`, options as the slide says.
  void add_windows(const std::string& type, const models::Slide& s, Model model, Options options = {}) {
    const bool is_transposed = type.starts_with("conv_transposed"), is_pool = type.ends_with("_pool");
    // A layer of one or two axes is that of three with extents of 1.
    const int axes = is_pool ? 3 : type[type.size() - 2] - '0';
    const auto list = [&](const int(&numbers)[3]) { return std::vector<double>(numbers + 3 - axes, numbers + 3); };
    LayerSpec spec;
    spec.type = type;
    spec.options = std::move(options);
    spec.options["kernel"] = list(s.kernel);
    spec.options["stride"] = list(s.stride);
    spec.options["padding"] = list(s.padding);
    if (type != "avg_pool") spec.options["dilation"] = list(s.dilation);
    if (is_transposed) spec.options["output_padding"] = list(s.output_padding);
    if (!is_pool) spec.options["groups"] = static_cast<double>(s.groups), spec.out = static_cast<std::size_t>(s.out);
    Shape in{static_cast<std::size_t>(s.in[0])};
    for (int a = 4 - axes; a < 4; ++a) in.push_back(static_cast<std::size_t>(s.in[a]));
    add(std::move(spec), in, std::move(model));
  }
  std::vector<Case> all;

 private:
  std::map<std::string, int> counts_;
};

void add_all_windows(Cases& all) {
  using models::Slide;
  const Slide row{{2, 1, 1, 9}, 3, {1, 1, 4}, {1, 1, 2}, {0, 0, 2}, {1, 1, 2}, {0, 0, 1}, 1};
  const Slide plane{{4, 1, 4, 5}, 6, {1, 3, 2}, {1, 1, 2}, {0, 1, 1}, {1, 1, 1}, {0, 0, 1}, 2};
  const Slide dense{{3, 1, 5, 4}, 5, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, {0, 0, 0}, 1};
  const Slide depthwise{{3, 1, 5, 4}, 3, {1, 3, 2}, {1, 1, 1}, {0, 1, 0}, {1, 1, 1}, {0, 0, 0}, 3};
  const Slide solid{{2, 3, 4, 3}, 2, {2, 3, 2}, {1, 2, 1}, {1, 1, 0}, {1, 1, 1}, {0, 1, 0}, 1};
  const std::pair<const char*, Slide> slides[] = {
      {"1d", row}, {"2d", plane}, {"2d", dense}, {"2d", depthwise}, {"3d", solid}};
  for (const auto& [axes, slide] : slides)
    for (const bool is_transposed : {false, true})
      for (const auto& [activation, bias] : {std::pair{Activation::linear, false}, {Activation::silu, true}})
        all.add_windows(std::string(is_transposed ? "conv_transposed" : "conv") + axes, slide,
                        models::convolution(slide, is_transposed, bias, activation),
                        {{"bias", bias}, {"activation", std::string(kernels::name(activation))}});
  const Slide pools[] = {{{2, 1, 4, 6}, 0, {1, 2, 2}, {1, 2, 2}},
                         {{3, 1, 5, 7}, 0, {1, 3, 3}, {1, 2, 1}, {0, 1, 1}},
                         {{2, 3, 4, 5}, 0, {2, 2, 3}, {1, 2, 2}, {1, 1, 0}}};
  for (const Slide& slide : pools) {
    all.add_windows("max_pool", slide, models::pool(slide, models::Pooled::largest));
    all.add_windows("avg_pool", slide, models::pool(slide, models::Pooled::mean_of_kernel));
    all.add_windows("avg_pool", slide, models::pool(slide, models::Pooled::mean_of_elements),
                    {{"count_include_pad", false}});
  }
  for (const bool largest : {true, false})
    all.add(largest ? "adaptive_max_pool" : "adaptive_avg_pool", R"("size": [3, 4])", {2, 5, 7},
            models::adaptive_pool(2, 5, 7, 3, 4, largest));
}

void add_all_softmaxes(Cases& all) {
  for (const auto& [kind, alpha] : {std::pair<std::string, double>{"standard", 1}, {"sparsemax", 2}, {"entmax", 1.5}})
    for (const auto& [width, groups] :
         {std::pair<std::size_t, std::size_t>{12, 1}, {12, 2}, {12, 4}, {13, 13}, {130, 2}})
      for (const double t : {1.0, 2.5})
        all.add("softmax",
                R"("kind": ")" + kind + R"(", "groups": )" + std::to_string(groups) + R"(, "temperature": )" +
                    std::to_string(t),
                {width}, models::in_groups(alpha == 1 ? models::softmax(t) : models::entmax(alpha, t), groups));
  for (const double alpha : {1.1, 1.75, 2.0, 3.0})
    all.add("softmax", R"("kind": "entmax", "temperature": 0.5, "alpha": )" + std::to_string(alpha), {13},
            models::entmax(alpha, 0.5));
  all.add("softmax", R"("kind": "entmax", "alpha": 1)", {13}, models::softmax(1));
  all.add("softmax", R"("temperature": 3)", {13}, models::softmax(3));
  all.add("softmax", R"("temperature": 0.5)", {13}, models::softmax(0.5));
  // Axes 0 and 2 of [2, 3, 2]: an entry's part is its index along axis 1.
  all.add("softmax", R"("kind": "grid", "axes": [0, 2], "temperature": 0.7)", {2, 3, 2},
          models::softmax_of_parts({0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}, 0.7));
  all.add("softmax", R"("kind": "masked", "mask": [1, 0, 1, 1, 0], "temperature": 2)", {2, 5},
          models::softmax_of_parts({0, -1, 0, 0, -1, 1, -1, 1, 1, -1}, 2.0));
  all.add("softmax", R"("kind": "hierarchical", "branches": [3, 4])", {15}, models::softmax_tree(3, 4));
  for (const bool is_euclidean : {false, true})
    for (const std::string output : {"probabilities", "features", "both"})
      all.add("kmeans",
              R"("clusters": 5, "temperature": 2.5, "output": ")" + output + R"(", "distance": ")" +
                  (is_euclidean ? "euclidean\"" : "squared\""),
              {7}, models::kmeans(5, 2.5, is_euclidean, output != "features", output != "probabilities"));
  for (const char* bias : {"false", "true"})
    for (const char* output : {"probabilities", "log_probabilities"}) {
      const bool has_bias = *bias == 't', is_log = *output == 'l';
      const std::string rest = R"(, "output": ")" + std::string(output) + '"';
      all.add("adaptive_softmax",
              R"("out": 21, "cutoffs": [3, 8], "div_value": 2, "head_bias": )" + std::string(bias) + rest, {9},
              models::adaptive_softmax(3, has_bias, is_log));
      all.add("mixture_of_softmaxes", R"("out": 11, "components": 3, "hidden": 5, "bias": )" + std::string(bias) + rest,
              {6}, models::mixture_of_softmaxes(5, has_bias, is_log));
    }
}

std::vector<Case> cases() {
  Cases all;
  add_all_windows(all);
  add_all_softmaxes(all);
  const auto out = [](std::size_t n) { return R"("out": )" + std::to_string(n); };
  for (int i = 0; i < kernels::kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    const std::string option = R"("activation": ")" + std::string(kernels::name(activation)) + '"';
    all.add("dense", R"("out": 17, )" + option, {19}, models::dense(activation));
    all.add("activation", option, {21}, models::elementwise(activation));
  }
  all.add("dense", R"("out": 65, "activation": "tanh")", {131}, models::dense(Activation::tanh));
  all.add("dense", R"("out": 1)", {1}, models::dense(Activation::linear));
  all.add("dense", R"("out": 16, "bias": false)", {16}, models::dense(Activation::linear));
  all.add("activation", "", {8}, models::elementwise(Activation::relu));
  for (const std::size_t width : {1, 13, 64, 65, 131}) {
    all.add("identity", "", {width}, models::elementwise(Activation::linear));
    all.add("residual", "", {width}, models::elementwise(Activation::linear));
    LayerSpec standardize;
    standardize.type = "standardize";
    standardize.options = {{"mean", std::vector<double>(width, 0.25)}, {"deviation", std::vector<double>(width, 2.0)}};
    all.add(standardize, {width}, models::standardize()).learns = false;
    all.add("rms_norm", "", {width}, models::rms_norm(1e-5));
    all.add("softmax", "", {width}, models::softmax(1.0));
    all.add("leaky_integrator", "", {width}, models::leaky_integrator(0.5));
    // One value less its mean is nothing: with a width of 1 only the bias is left.
    all.add("layer_norm", "", {width}, models::layer_norm(1e-5));
  }
  for (const auto& [in, n] : {std::pair<std::size_t, std::size_t>{1, 1}, {7, 5}, {3, 17}, {13, 13}})
    for (const bool bias : {true, false}) {
      const std::string options = out(n) + (bias ? R"(, "bias": true)" : R"(, "bias": false)");
      all.add("rnn", options, {in}, models::rnn(n, bias, Activation::tanh));
      all.add("lstm", options, {in}, models::lstm(n, bias));
      all.add("gru", options, {in}, models::gru(n, bias));
      for (const Activation gate : {Activation::silu, Activation::gelu, Activation::relu2, Activation::gelu_tanh}) {
        const std::string gated = options + R"(, "hidden": 9, "gate": ")" + std::string(kernels::name(gate)) + '"';
        all.add("swiglu", gated, {in}, models::swiglu(9, bias, gate));
        all.add("swiglu", gated + R"(, "inner_norm": "rms", "epsilon": 0.01)", {in},
                models::swiglu(9, bias, gate, 0.01));
      }
    }
  all.add("rnn", R"("out": 9, "activation": "relu")", {6}, models::rnn(9, true, Activation::relu));
  all.add("swiglu", "", {7}, models::swiglu(32, false, Activation::silu));
  all.add("rms_norm", R"("epsilon": 0.25)", {13}, models::rms_norm(0.25));
  all.add("layer_norm", R"("epsilon": 0.25)", {13}, models::layer_norm(0.25));
  all.add("leaky_integrator", R"("rate": 0.125)", {13}, models::leaky_integrator(0.125));
  all.add("leaky_integrator", R"("rate": 1)", {13}, models::leaky_integrator(1.0));
  all.add("sequential", R"("layers": [{"type": "dense", "out": 7, "activation": "tanh"},
                                      {"type": "dense", "out": 3, "activation": "silu"}])",
          {5}, models::two_dense(Activation::tanh, Activation::silu, false));
  all.add("parallel", R"("merge": "add", "layers": [{"type": "dense", "out": 3, "activation": "tanh"},
                                                    {"type": "dense", "out": 3, "activation": "sigmoid"}])",
          {5}, models::two_dense(Activation::tanh, Activation::sigmoid, true));
  all.add("metacognition", R"("above": 2, "active_above": 0.5)", {13}, models::statistics(1, 0.5)).sends_back = false;
  all.add("metacognition", R"("above": 2, "active_above": 0.5, "action": "swap")", {26}, models::statistics(2, 0.5))
      .sends_back = false;
  // Nobody learns from these rows; dropout_test.cpp has those that are learned from.
  all.add("dropout", R"("rate": 0.25)", {13}, [](const auto&, const Vector& x, const Vector& state) {
    return Outcome{x, state};
  });
  for (const int heads : {1, 2, 6})
    all.add("attention", R"("out": 5, "head_dim": 3, "heads": )" + std::to_string(heads), {6},
            models::lone_attention());
  for (const int heads : {1, 4})
    all.add("attention",
            R"("out": 5, "head_dim": 3, "out_norm": "rms", "out_epsilon": 0.1, "heads": )" + std::to_string(heads), {6},
            models::lone_attention(0.1));
  for (const double cap : {0.5, 30.0})
    all.add("soft_cap", R"("cap": )" + std::to_string(cap), {2, 13}, models::soft_cap(cap));
  for (const std::size_t tokens : {1, 4})
    for (const char* stateful : {"false", "true"})
      all.add("position_embedding", R"("positions": 5, "stateful": )" + std::string(stateful), {tokens, 3},
              models::position_embedding(tokens, 5));
  all.add("embedding", R"("out": 5, "vocabulary": 3, "scale": 2.5)", {4}, models::embedding(3, 2.5));
  for (const std::size_t tokens : {1, 4})
    all.add("embedding", R"("out": 5, "vocabulary": 3)", {tokens}, models::embedding(3));
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

TEST(Layers, AreAllTestedHere) {
  std::set<std::string> tested;
  for (const Case& each : cases()) tested.insert(each.spec.type);
  const auto types = layer_types();
  EXPECT_EQ(tested, std::set<std::string>(types.begin(), types.end()));
}

}  // namespace
}  // namespace weft::mesh::layers_test
