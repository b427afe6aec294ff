// SPDX-License-Identifier: Apache-2.0

// Every layer type against PyTorch's autograd in float64, or its closed form (tools/make_*_goldens.py), on every
// instruction set, rows together and alone. What PyTorch lacks:
// layers_test.cpp.

#include "goldens.hpp"
#include <set>

namespace weft::mesh::layer_goldens_test {
namespace {

using namespace testing_support;
using goldens::Golden;

class Goldens : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Types, Goldens,
                         testing::Values("activation", "adaptive_avg_pool", "adaptive_max_pool", "adaptive_softmax",
                                         "attention", "avg_pool", "conv1d", "conv2d", "conv3d", "conv_transposed1d",
                                         "conv_transposed2d", "conv_transposed3d", "dense", "embedding", "gru",
                                         "identity", "kmeans", "layer_norm", "leaky_integrator", "lstm", "max_pool",
                                         "mixture_of_softmaxes", "parallel", "residual", "rms_norm", "rnn",
                                         "sequential", "softmax", "swiglu"),
                         [](const auto& type) { return type.param; });

/// A bias of keys shifts all scores of a query alike, and a softmax does not see that: its gradient is 0, and both
/// sides have but rounding errors to show. (Not where keys are turned or normalised after it.)
bool is_in_vain(const Golden& golden, const std::string& parameter) {
  return parameter == "key_bias" && !golden.spec.options.contains("rope") && !golden.spec.options.contains("qk_norm");
}

std::unique_ptr<goldens::Sequence> sequence(const Golden& golden) {
  auto run = std::make_unique<goldens::Sequence>(golden.spec, golden.in, golden.ticks, golden.rows);
  if (const std::size_t vocabulary = run->layer->vocabulary_size(); golden.spec.type == "embedding")
    for (float& x : run->x) x = static_cast<float>(std::floor((double{x} + 1) / 2 * static_cast<double>(vocabulary)));
  // The random state of an attention stands at position 0, so nobody looks at its keys.
  if (golden.spec.type == "attention") std::fill(run->dstate.begin(), run->dstate.end(), 0.0f);
  return run;
}

/// Outputs, states, errors and gradients, as bits.
std::vector<std::uint32_t> all_bits(const goldens::Sequence& run) {
  std::vector<std::uint32_t> all;
  const auto add = [&](const std::vector<float>& values) {
    for (const std::uint32_t word : bits(values)) all.push_back(word);
  };
  for (const auto* values : {&run.y, &run.state, &run.dx, &run.dstate}) add(*values);
  for (std::size_t i = 0; i < run.layer->parameters().size(); ++i) add(run.gradient(i));
  return all;
}

void expect_as_pytorch(const Golden& golden, const goldens::Sequence& run) {
  goldens::expect_equal(run.y, golden.y, "y");
  goldens::expect_equal(run.dx, golden.dx, "dx");
  if (golden.spec.type == "attention") {
    for (const float v : run.dstate) ASSERT_EQ(v, 0.0f) << "keys that nobody saw";
  } else {
    goldens::expect_equal(run.last_state(), golden.state, "state");
    goldens::expect_equal(run.dstate, golden.dstate, "dstate");
  }
  ASSERT_EQ(run.layer->parameters().size(), golden.gradients.size());
  for (std::size_t i = 0; i < golden.gradients.size(); ++i) {
    const std::string& name = run.layer->parameters()[i].name;
    if (!is_in_vain(golden, name)) {
      goldens::expect_equal(run.gradient(i), golden.gradients[i], name);
      continue;
    }
    // 1e-5 of the gradient of the queries' bias, which is made of the same sums.
    double scale = 0;
    for (const double v : golden.gradients[i - 1]) scale = std::max(scale, std::fabs(v));
    for (const double v : golden.gradients[i]) ASSERT_LE(std::fabs(v), 1e-15);
    for (const float v : run.gradient(i)) ASSERT_LE(std::fabs(v), 1e-5 * scale);
  }
}

TEST_P(Goldens, AreWhatEveryInstructionSetComputesAndSendsBack) {
  const auto rows = goldens::read(GetParam());
  ASSERT_GE(rows.size(), 12u);
  for (const Golden& golden : rows) {
    std::string label = weft::to_string(golden.in) + " to " + std::to_string(golden.out) + ", " +
                        std::to_string(golden.ticks) + " ticks of " + std::to_string(golden.rows) + " rows:";
    for (const auto& option : golden.spec.options) label += " " + option.first;
    SCOPED_TRACE(label);
    std::vector<std::uint32_t> scalar;
    for (const kernels::Isa isa : kernels::available_isas()) {
      const ForIsa scope(isa);
      const auto run = sequence(golden), alone = sequence(golden);
      run->forward(0, golden.rows);
      for (std::size_t b = golden.rows; b-- > 0;) alone->forward(b, 1);
      EXPECT_EQ(bits(alone->y), bits(run->y)) << "rows one at a time";
      EXPECT_EQ(bits(alone->state), bits(run->state)) << "rows one at a time";
      EXPECT_EQ(bits(alone->z), bits(run->z)) << "rows one at a time";
      EXPECT_EQ(bits(alone->cache), bits(run->cache)) << "rows one at a time";
      run->backward();
      if (scalar.empty()) {
        expect_as_pytorch(golden, *run);
        scalar = all_bits(*run);
      }
      EXPECT_EQ(all_bits(*run), scalar) << name(isa);
    }
  }
}

TEST_P(Goldens, AddToGradientsAndComputeOnlyWhatIsWanted) {
  for (const Golden& golden : goldens::read(GetParam())) {
    SCOPED_TRACE(weft::to_string(golden.in) + " to " + std::to_string(golden.out));
    const auto run = [&](bool wants_dx, bool wants_gradients, float before = 0.0f) {
      auto made = sequence(golden);
      for (std::size_t i = 0; i < golden.gradients.size(); ++i)
        made->set_gradient(i, std::vector<float>(golden.gradients[i].size(), before));
      made->forward(0, golden.rows);
      made->backward(wants_dx, wants_gradients);
      return made;
    };
    const auto whole = run(true, true), on_top = run(true, true, 1.0f), without_dx = run(false, true);
    EXPECT_EQ(bits(run(true, false)->dx), bits(whole->dx));
    EXPECT_EQ(bits(without_dx->dstate), bits(whole->dstate));
    for (std::size_t i = 0; i < golden.gradients.size(); ++i) {
      const auto alone = whole->gradient(i), sums = on_top->gradient(i);
      EXPECT_EQ(bits(without_dx->gradient(i)), bits(alone));
      float scale = 1.0f;
      for (const float v : alone) scale = std::max(scale, std::fabs(v));
      for (std::size_t k = 0; k < alone.size(); ++k) ASSERT_NEAR(sums[k], alone[k] + 1.0f, 2e-5f * scale);
    }
  }
}

TEST(GoldensOfBasicLayers, MeetVectorsTokensImagesAndEveryActivation) {
  std::set<std::string> all;
  for (int i = 0; i < kernels::kActivationCount; ++i) all.emplace(name(static_cast<kernels::Activation>(i)));
  for (const char* type : {"dense", "activation", "layer_norm", "rms_norm", "residual", "identity"}) {
    std::size_t of_axes[4] = {};
    std::set<std::string> met[2];  // on vectors, on more axes
    for (const Golden& golden : goldens::read(type)) {
      ++of_axes[golden.in.size()];
      if (const auto option = golden.spec.options.find("activation"); option != golden.spec.options.end())
        met[golden.in.size() > 1].insert(std::get<std::string>(option->second));
    }
    EXPECT_GE(of_axes[2], 3u) << type;
    EXPECT_GE(of_axes[3], 3u) << type;
    if (std::string(type) == "dense" || std::string(type) == "activation") {
      for (const auto& names : met) EXPECT_EQ(names, all) << type;
    }
  }
}

}  // namespace
}  // namespace weft::mesh::layer_goldens_test
