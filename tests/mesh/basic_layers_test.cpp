// SPDX-License-Identifier: Apache-2.0

// dense, activation, the norms, residual, identity and leaky_integrator against PyTorch's autograd in float64
// (tools/make_basic_goldens.py). Finite differences: layers_test.cpp; residuals of several sources: container_test.cpp.

#include "goldens.hpp"
#include <set>

namespace weft::mesh::basic_layers_test {
namespace {

using goldens::Golden;
using testing_support::must;

std::vector<Golden> goldens_of(const std::string& type) {
  auto rows = goldens::read(type);
  EXPECT_GE(rows.size(), 12u) << type;
  std::size_t with_tokens = 0, with_three_axes = 0;
  for (Golden& golden : rows) {
    with_tokens += golden.in.size() == 2;
    with_three_axes += golden.in.size() == 3;
  }
  if (type != "leaky_integrator") {
    EXPECT_GE(with_tokens, 3u) << type;
    EXPECT_GE(with_three_axes, 3u) << type;
  }
  return rows;
}

void expect_all_as_pytorch(const std::string& type) {
  for (const Golden& golden : goldens_of(type)) goldens::expect_as_pytorch(golden);
}

/// The activations among the goldens, of vectors or of tokens.
std::set<std::string> activations_of(const std::string& type, bool is_vector) {
  std::set<std::string> names;
  for (const Golden& golden : goldens::read(type)) {
    const auto option = golden.spec.options.find("activation");
    if (option != golden.spec.options.end() && (golden.in.size() == 1) == is_vector)
      names.insert(std::get<std::string>(option->second));
  }
  return names;
}

TEST(BasicLayers, DenseComputesAndSendsBackWhatPyTorchDoes) { expect_all_as_pytorch("dense"); }
TEST(BasicLayers, ActivationComputesAndSendsBackWhatPyTorchDoes) { expect_all_as_pytorch("activation"); }
TEST(BasicLayers, IdentityIsWhatItReads) { expect_all_as_pytorch("identity"); }
TEST(BasicLayers, ResidualIsTheSumThatItReads) { expect_all_as_pytorch("residual"); }
TEST(BasicLayers, LeakyIntegratorFollowsItsClosedForm) { expect_all_as_pytorch("leaky_integrator"); }
TEST(Norms, LayerNormComputesAndSendsBackWhatPyTorchDoes) { expect_all_as_pytorch("layer_norm"); }
TEST(Norms, RmsNormComputesAndSendsBackWhatPyTorchDoes) { expect_all_as_pytorch("rms_norm"); }

TEST(BasicLayers, MeetEveryActivationOnVectorsAndOnTokens) {
  std::set<std::string> all;
  for (int i = 0; i < kernels::kActivationCount; ++i) all.emplace(name(static_cast<kernels::Activation>(i)));
  for (const char* type : {"dense", "activation"})
    for (const bool is_vector : {true, false}) EXPECT_EQ(activations_of(type, is_vector), all) << type << is_vector;
}

// The original's norms took the statistics of a 3-D input over all of its axes, and its gains by the wrong one.
TEST(Norms, TakeTheLastAxisOfAThreeDimensionalInput) {
  const Shape in{2, 3, 5};
  for (const char* type : {"layer_norm", "rms_norm"}) {
    SCOPED_TRACE(type);
    LayerSpec spec;
    spec.type = type;
    goldens::Sequence run(spec, in, 1, 2);
    ASSERT_EQ(run.layer->out_shape(), in);
    ASSERT_EQ(run.layer->parameters()[0].out, 5u);
    run.set_parameter(0, std::vector<float>(5, 1.0f));
    if (run.layer->parameters().size() > 1) run.set_parameter(1, std::vector<float>(5, 0.0f));
    // Each token on a scale and around a centre of its own: statistics over more than its five values would show.
    for (std::size_t token = 0; token < 2 * 6; ++token)
      for (std::size_t i = 0; i < 5; ++i)
        run.x[token * 5 + i] = run.x[token * 5 + i] * static_cast<float>(1 << token) + static_cast<float>(token);
    run.forward(0, 2);
    for (std::size_t token = 0; token < 2 * 6; ++token) {
      double mean = 0, square = 0;
      for (std::size_t i = 0; i < 5; ++i) mean += run.y[token * 5 + i] / 5.0;
      for (std::size_t i = 0; i < 5; ++i) square += run.y[token * 5 + i] * run.y[token * 5 + i] / 5.0;
      if (std::string(type) == "rms_norm") mean = 0;
      EXPECT_NEAR(mean, 0, 1e-6) << token;
      EXPECT_NEAR(square, 1, 2e-4) << token;
    }
    // And no error crosses from one token to another.
    std::fill(run.dy.begin(), run.dy.end(), 0.0f);
    run.dy[7] = 1.0f;
    run.backward();
    for (std::size_t k = 0; k < run.dx.size(); k += k == 4 ? 6 : 1) EXPECT_EQ(run.dx[k], 0.0f) << k;
    EXPECT_NE(run.dx[7], 0.0f);
  }
}

}  // namespace
}  // namespace weft::mesh::basic_layers_test
