// SPDX-License-Identifier: Apache-2.0

// sequential and parallel against PyTorch, and what they refuse. Weights shared with the grid: sharing_test.cpp.

#include "mesh/layers/container.hpp"

#include "goldens.hpp"

namespace weft::mesh::container_test {
namespace {

using testing_support::expect_error;
using testing_support::must;

LayerSpec layer(const std::string& json) { return goldens::layer_of(must(parse_json(json, "layer"))); }

std::vector<goldens::Golden> goldens_of(const std::string& type, std::size_t rows) {
  auto goldens = goldens::read(type);
  EXPECT_GE(goldens.size(), rows);
  return goldens;
}

TEST(Sequential, ComputesAndSendsBackWhatPyTorchDoes) {
  for (const goldens::Golden& golden : goldens_of("sequential", 12)) {
    SCOPED_TRACE(golden.spec.layers.size());
    goldens::expect_as_pytorch(golden);
  }
}

// The original's gradients of concat and filter were right for one sample only; the rows here are up to three.
TEST(Parallel, ComputesAndSendsBackWhatPyTorchDoesForBatchesAboveOne) {
  for (const goldens::Golden& golden : goldens_of("parallel", 15)) {
    const auto merge = golden.spec.options.find("merge");
    SCOPED_TRACE(merge == golden.spec.options.end() ? "concat" : std::get<std::string>(merge->second));
    goldens::expect_as_pytorch(golden);
  }
}

// The original dropped the skip's gradient.
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

struct Refused {
  std::string json;
  Errc code;
  std::vector<std::string> fragments;
};

TEST(Container, RefusesWhatCannotBeBuilt) {
  const std::vector<Refused> table{
      {R"({"type": "sequential"})", Errc::parse_failed, {"layers[3].layers", "needed"}},
      {R"({"type": "sequential", "out": 4, "layers": [{"type": "identity"}]})",
       Errc::shape_mismatch,
       {"layers[3].out"}},
      {R"({"type": "dense", "out": 4, "layers": [{"type": "identity"}]})", Errc::unknown_name, {"layers[3].layers"}},
      {R"({"type": "sequential", "layers": [{"type": "identity", "from": ["b"]}, {"type": "identity", "name": "b"}]})",
       Errc::unknown_name,
       {"layers[3].layers[0].from[0]", "'b'", "before"}},
      {R"({"type": "sequential", "layers": [{"type": "identity", "name": "b", "from": ["b"]}]})",
       Errc::unknown_name,
       {"layers[3].layers[0].from[0]", "'b'"}},
      {R"({"type": "sequential", "layers": [{"type": "identity", "from": [[0,0,0,0]]}]})",
       Errc::unsupported,
       {"layers[3].layers[0].from[0]", "[0,0,0,0]"}},
      {R"({"type": "sequential", "layers": [{"type": "identity", "name": "a"}, {"type": "identity", "name": "a"}]})",
       Errc::duplicate_name,
       {"layers[3].layers[1].name", "'a'"}},
      {R"({"type": "sequential", "layers": [{"type": "identity", "name": "input"}]})",
       Errc::duplicate_name,
       {"layers[3].layers[0].name"}},
      {R"({"type": "sequential", "layers": [{"type": "dense", "out": 2}, {"type": "identity", "from": ["input"]}]})",
       Errc::shape_mismatch,
       {"layers[3].layers[0]", "no layer after it reads it"}},
      {R"({"type": "sequential", "layers": [{"type": "dense", "out": 2}, {"type": "residual"}]})",
       Errc::shape_mismatch,
       {"layers[3].layers[1].from", "at least two"}},
      {R"({"type": "sequential", "layers": [{"type": "dense", "out": 2, "name": "a"},
          {"type": "residual", "from": ["a", "input"]}]})",
       Errc::shape_mismatch,
       {"layers[3].layers[1].combine", "2", "6"}},
      {R"({"type": "sequential", "layers": [{"type": "identity", "view": [4, 2]}]})",
       Errc::shape_mismatch,
       {"layers[3].layers[0].view", "8", "6"}},
      {R"({"type": "sequential", "layers": [{"type": "dense", "out": 2, "dtype": "int8"}]})",
       Errc::unsupported,
       {"layers[3].layers[0].dtype", "container"}},
      {R"({"type": "sequential", "layers": [{"type": "dense", "out": 2, "activaton": "tanh"}]})",
       Errc::unknown_name,
       {"layers[3].layers[0].activaton", "activation"}},
      {R"({"type": "sequential", "layers": [{"type": "shared", "at": [0,0,0,0]}]})",
       Errc::unsupported,
       {"layers[3].layers[0]", "grid"}},
      {R"({"type": "sequential", "layers": [{"type": "metacognition", "above": 1.0}]})",
       Errc::unsupported,
       {"layers[3].layers[0]", "watches"}},
      {R"({"type": "parallel", "merge": "sum", "layers": [{"type": "identity"}]})",
       Errc::unknown_name,
       {"layers[3].merge", "'sum'", "filter"}},
      {R"({"type": "parallel", "merge": "add", "layers": [{"type": "identity"}, {"type": "dense", "out": 2}]})",
       Errc::shape_mismatch,
       {"merge", "6", "2"}},
      {R"({"type": "parallel", "merge": "filter", "top_k": 3, "layers": [{"type": "identity"}, {"type": "identity"}]})",
       Errc::out_of_range,
       {"layers[3].top_k", "3", "2"}},
      {R"({"type": "parallel", "merge": "grid_scatter", "layers": [{"type": "identity"}]})",
       Errc::parse_failed,
       {"layers[3].grid"}},
      {R"({"type": "parallel", "merge": "grid_scatter", "grid": [1,2,2], "layers": [{"type": "identity"}]})",
       Errc::parse_failed,
       {"layers[3].places"}},
      {R"({"type": "parallel", "merge": "grid_scatter", "grid": [1,2,2], "places": [0,2,0],
          "layers": [{"type": "identity"}]})",
       Errc::out_of_range,
       {"layers[3].places", "[0, 2, 0]", "[1, 2, 2]"}},
      {R"({"type": "parallel", "merge": "grid_scatter", "grid": [1,2,2], "places": [0,1,0,0,1,0],
          "layers": [{"type": "identity"}, {"type": "identity"}]})",
       Errc::duplicate_name,
       {"layers[3].places", "[0, 1, 0]"}},
      {R"({"type": "parallel", "top_k": 1, "layers": [{"type": "identity"}, {"type": "identity"}]})",
       Errc::unknown_name,
       {"layers[3].top_k"}},
  };
  for (const Refused& refused : table) {
    SCOPED_TRACE(refused.json);
    const auto made = make_layer(layer(refused.json), 6, "layers[3]");
    expect_error(made, refused.code, {});
    for (const std::string& fragment : refused.fragments) expect_error(made, refused.code, {fragment});
  }
}

}  // namespace
}  // namespace weft::mesh::container_test
