// SPDX-License-Identifier: Apache-2.0

// sequential and parallel. PyTorch: layer_goldens_test.cpp; what they refuse: layer_tables_test.cpp; weights shared
// with the grid: tests/learning/sharing_test.cpp.

#include "mesh/layers/container.hpp"

#include "goldens.hpp"

namespace weft::mesh::container_test {
namespace {

using namespace testing_support;

using goldens::layer;

// Loom dropped the skip's gradient.
TEST(Sequential, SendsAResidualsErrorDownBothBranches) {
  goldens::Sequence run(layer(R"({"type": "sequential", "layers": [
      {"type": "activation", "activation": "tanh", "name": "f"}, {"type": "residual", "from": ["input", "f"]}]})"),
                        Shape{3}, 1, 2);
  run.forward(0, 2);
  run.backward();
  for (std::size_t i = 0; i < run.dx.size(); ++i) {
    const double t = std::tanh(double{run.x[i]});
    EXPECT_NEAR(run.y[i], run.x[i] + t, 1e-6);
    EXPECT_NEAR(run.dx[i], run.dy[i] * (1 + 1 - t * t), 1e-6);
  }
}

TEST(Sequential, KeepsItsLayersHiddenStatesApart) {
  const LayerSpec two = layer(R"({"type": "sequential", "layers": [
      {"type": "leaky_integrator", "rate": 0.5}, {"type": "leaky_integrator", "rate": 0.25}]})");
  goldens::Sequence run(two, Shape{2}, 6, 3);
  EXPECT_EQ(run.layer->state_size(), 4u);
  std::vector<double> first(run.state.begin(), run.state.begin() + 12);
  run.forward(0, 3);
  for (std::size_t t = 0; t < 6; ++t)
    for (std::size_t row = 0; row < 3; ++row)
      for (std::size_t j = 0; j < 2; ++j) {
        double* h = &first[row * 4 + j];
        h[0] += 0.5 * (run.x[(t * 3 + row) * 2 + j] - h[0]);
        h[2] += 0.25 * (h[0] - h[2]);
        EXPECT_NEAR(run.y[(t * 3 + row) * 2 + j], h[2], 1e-6) << t;
      }
}

// Each sample's gate decides for that sample alone, and a gate takes its gradient through all experts' outputs.
TEST(Parallel, GatesEverySampleByItself) {
  const LayerSpec experts = layer(R"({"type": "parallel", "merge": "filter", "top_k": 1, "layers": [
      {"type": "activation", "activation": "tanh"}, {"type": "identity"}, {"type": "activation", "activation": "relu"}]})");
  goldens::Sequence run(experts, Shape{4}, 1, 32);
  run.forward(0, 32);
  std::array<std::size_t, 3> chosen{};
  for (std::size_t row = 0; row < 32; ++row) {
    std::size_t matches = 0;
    for (std::size_t e = 0; e < 3; ++e) {
      bool is_it = true;
      for (std::size_t j = 0; j < 4; ++j) {
        const double x = run.x[row * 4 + j];
        const double y = e == 0 ? std::tanh(x) : e == 1 ? x : std::max(x, 0.0);
        is_it = is_it && std::fabs(run.y[row * 4 + j] - y) < 1e-6;
      }
      chosen[e] += is_it;
      matches += is_it;
    }
    EXPECT_GE(matches, 1u) << row;
  }
  EXPECT_GT(std::count_if(chosen.begin(), chosen.end(), [](std::size_t n) { return n > 0; }), 1) << "all alike";
}

// y = p_0 x + p_1 tanh x, p = softmax(MLP(x)), in float64; the gradients by differences of that.
TEST(Parallel, TakesItsGateFromItsFirstLayer) {
  goldens::Sequence run(
      layer(R"({"type": "parallel", "merge": "filter", "gate": "first", "temperature": 0.5, "layers": [
      {"type": "sequential", "layers": [{"type": "dense", "out": 3, "activation": "tanh"}, {"type": "dense", "out": 2}]},
      {"type": "identity"}, {"type": "activation", "activation": "tanh"}]})"),
      Shape{4}, 1, 5);
  ASSERT_EQ(run.layer->parameters().size(), 4u);
  EXPECT_EQ(run.layer->parameters()[0].name, "layers[0].layers[0].weight");
  std::vector<std::vector<double>> weights;
  for (std::size_t p = 0; p < 4; ++p) {
    const std::vector<float> own = run.parameter(p);
    weights.emplace_back(own.begin(), own.end());
  }
  const auto value = [&](const std::vector<double>& x) {
    std::vector<double> hidden(3), logits(2), y(4);
    for (std::size_t o = 0; o < 3; ++o) {
      hidden[o] = weights[1][o];
      for (std::size_t j = 0; j < 4; ++j) hidden[o] += weights[0][o * 4 + j] * x[j];
      hidden[o] = std::tanh(hidden[o]);
    }
    for (std::size_t e = 0; e < 2; ++e) {
      logits[e] = weights[3][e];
      for (std::size_t o = 0; o < 3; ++o) logits[e] += weights[2][e * 3 + o] * hidden[o];
    }
    const double p = 1 / (1 + std::exp((logits[1] - logits[0]) / 0.5));
    for (std::size_t j = 0; j < 4; ++j) y[j] = p * x[j] + (1 - p) * std::tanh(x[j]);
    return y;
  };
  run.forward(0, 5);
  run.backward();
  const auto loss = [&] {  // whose gradient by y is dy
    double sum = 0;
    for (std::size_t row = 0; row < 5; ++row) {
      const auto y = value({run.x.begin() + static_cast<std::ptrdiff_t>(row * 4),
                            run.x.begin() + static_cast<std::ptrdiff_t>(row * 4 + 4)});
      for (std::size_t j = 0; j < 4; ++j) sum += y[j] * run.dy[row * 4 + j];
    }
    return sum;
  };
  for (std::size_t row = 0; row < 5; ++row) {
    const auto y = value({run.x.begin() + static_cast<std::ptrdiff_t>(row * 4),
                          run.x.begin() + static_cast<std::ptrdiff_t>(row * 4 + 4)});
    for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(run.y[row * 4 + j], y[j], 1e-6);
  }
  for (std::size_t p = 0; p < 4; ++p) {
    const auto gradient = run.gradient(p);
    for (std::size_t i = 0; i < weights[p].size(); ++i) {
      const double step = 1e-5, at = weights[p][i];
      weights[p][i] = at + step;
      const double above = loss();
      weights[p][i] = at - step;
      const double below = loss();
      weights[p][i] = at;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 2e-5) << p << ", " << i;
    }
  }
}

TEST(Parallel, BalancesTheLoadOfItsExperts) {
  // With no other error, the balance's slope alone moves the gate away from an expert that had more than its share.
  goldens::Sequence run(layer(R"({"type": "parallel", "merge": "filter", "balance": 1.0, "layers": [
      {"type": "identity"}, {"type": "identity"}]})"),
                        Shape{2}, 1, 1);
  run.state = {0.9f, 0.1f, 0, 0};
  run.dy = {0, 0};
  run.forward(0, 1);
  run.backward();
  const auto gradient = run.gradient(0);
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_GT(gradient[j] * run.x[j], 0) << "the busy expert's weights";
    EXPECT_LT(gradient[2 + j] * run.x[j], 0) << "the idle one's";
  }
}

TEST(Container, NestsToItsLimitAndNoDeeper) {
  const auto nested = [](unsigned depth) {
    std::string text = R"({"type": "identity"})";
    for (unsigned i = 0; i < depth; ++i) text = R"({"type": "sequential", "layers": [)" + text + "]}";
    return layer(text);
  };
  EXPECT_EQ(must(make_layer(nested(kMaxContainerDepth), 3, "deep"))->out(), 3u);
  expect_error(make_layer(nested(kMaxContainerDepth + 1), 3, "deep"), Errc::too_large, {"deep.layers[0]", "16"});
}

}  // namespace
}  // namespace weft::mesh::container_test
