// SPDX-License-Identifier: Apache-2.0

// The softmaxes that have weights: adaptive_softmax against torch.nn.AdaptiveLogSoftmaxWithLoss, mixture_of_softmaxes
// against autograd.

#include "goldens.hpp"

namespace weft::mesh::output_softmaxes_test {
namespace {

using testing_support::expect_error;
using testing_support::must;
using List = std::vector<double>;

LayerSpec spec_of(std::string type, std::size_t out, Options options) {
  LayerSpec spec;
  spec.type = std::move(type);
  spec.out = out;
  spec.options = std::move(options);
  return spec;
}

TEST(AdaptiveSoftmax, ComputesAndSendsBackWhatPyTorchDoes) {
  const auto rows = goldens::read("adaptive_softmax");
  ASSERT_GE(rows.size(), 12u);
  for (const goldens::Golden& golden : rows) goldens::expect_as_pytorch(golden);
}

TEST(MixtureOfSoftmaxes, ComputesAndSendsBackWhatPyTorchDoes) {
  const auto rows = goldens::read("mixture_of_softmaxes");
  ASSERT_GE(rows.size(), 12u);
  for (const goldens::Golden& golden : rows) goldens::expect_as_pytorch(golden);
}

TEST(AdaptiveSoftmax, GivesEveryClassAProbability) {
  for (const bool is_log : {true, false}) {
    goldens::Sequence run(spec_of("adaptive_softmax", 30,
                                  {{"cutoffs", List{4, 9, 20}},
                                   {"div_value", 2.0},
                                   {"output", std::string(is_log ? "log_probabilities" : "probabilities")}}),
                          16, 1, 3);
    run.forward(0, 3);
    for (std::size_t b = 0; b < 3; ++b) {
      double sum = 0;
      for (std::size_t j = 0; j < 30; ++j) sum += is_log ? std::exp(double{run.y[b * 30 + j]}) : run.y[b * 30 + j];
      EXPECT_NEAR(sum, 1.0, 1e-6);
    }
  }
}

TEST(AdaptiveSoftmax, HasTheMatricesOfThePaper) {
  const auto layer =
      must(make_layer(spec_of("adaptive_softmax", 100, {{"cutoffs", List{10, 40}}, {"head_bias", true}}), 64, "layer"));
  std::vector<std::string> found;
  for (const ParameterSpec& p : layer->parameters())
    found.push_back(p.name + " " + std::to_string(p.out) + "x" + std::to_string(p.in));
  EXPECT_EQ(found, std::vector<std::string>({"head 12x64", "head_bias 12x0", "project_0 16x64", "classes_0 30x16",
                                             "project_1 4x64", "classes_1 60x4"}));
  EXPECT_EQ(layer->multiply_adds(), 12.0 * 64 + 16 * 64 + 30 * 16 + 4 * 64 + 60 * 4);
}

// Purpose of the mixture: the logarithms of its outputs over many contexts have a higher rank than a context has
// values.
TEST(MixtureOfSoftmaxes, IsNotBoundToTheRankOfItsContexts) {
  const auto second_difference = [](std::size_t components) {
    goldens::Sequence run(spec_of("mixture_of_softmaxes", 3,
                                  {{"components", static_cast<double>(components)}, {"hidden", 1.0}, {"bias", false}}),
                          1, 1, 3);
    for (float& v : run.x) v *= 8;
    run.forward(0, 3);
    // log(y_0 / y_1) and log(y_0 / y_2) are proportional to the one context value in one softmax.
    std::vector<double> ratio;
    for (std::size_t b = 0; b < 3; ++b)
      ratio.push_back((double{run.y[3 * b]} - run.y[3 * b + 1]) / (double{run.y[3 * b]} - run.y[3 * b + 2]));
    return std::max(std::fabs(ratio[0] - ratio[1]), std::fabs(ratio[1] - ratio[2]));
  };
  EXPECT_LT(second_difference(1), 1e-3);
  EXPECT_GT(second_difference(3), 1e-2);
}

TEST(MixtureOfSoftmaxes, StaysFiniteWhereNoComponentGivesAClassAnything) {
  goldens::Sequence run(spec_of("mixture_of_softmaxes", 2, {{"components", 2.0}, {"hidden", 1.0}}), 1, 1, 1);
  run.set_parameter(2, {1000.0f, -1000.0f});
  run.set_parameter(3, {5.0f, 5.0f});
  run.forward(0, 1);
  run.backward();
  EXPECT_NEAR(run.y[0], 0.0f, 1e-6f);
  EXPECT_NEAR(run.y[1], std::log(0x1p-126), 1e-4);
  for (const float v : run.dx) EXPECT_TRUE(std::isfinite(v));
}

TEST(AdaptiveSoftmax, RefusesOptionsThatAreWrong) {
  const auto refuse = [](std::size_t out, Options options, Errc code, std::string_view text) {
    SCOPED_TRACE(std::string(text));
    expect_error(make_layer(spec_of("adaptive_softmax", out, std::move(options)), Shape{3, 4}, "layers[3]"), code,
                 {"layers[3].", text});
  };
  refuse(0, {{"cutoffs", List{2}}}, Errc::parse_failed, "layers[3].out");
  refuse(9, {}, Errc::parse_failed, "layers[3].cutoffs");
  refuse(9, {{"cutoffs", List{9}}}, Errc::out_of_range, "[9] of 9 classes");
  refuse(9, {{"cutoffs", List{4, 4}}, {"div_value", 1.0}}, Errc::out_of_range, "must ascend");
  refuse(9, {{"cutoffs", List{4, 2}}, {"div_value", 1.0}}, Errc::out_of_range, "must ascend");
  refuse(9, {{"cutoffs", List{0, 2}}}, Errc::out_of_range, "cutoffs[0]");
  refuse(9, {{"cutoffs", List{2, 4}}}, Errc::out_of_range, "div_value: cluster 1");
  refuse(9, {{"cutoffs", List{2}}, {"div_value", 0.5}}, Errc::out_of_range, "div_value");
  refuse(9, {{"cutoffs", List{2}}, {"output", std::string("logits")}}, Errc::unknown_name, "log_probabilities");
  refuse(9, {{"cutoffs", List{2}}, {"init", std::string("big")}}, Errc::unknown_name, "layers[3].init");
  refuse(9, {{"cutoffs", List{2}}, {"bias", true}}, Errc::unknown_name, "head_bias");
}

TEST(MixtureOfSoftmaxes, RefusesOptionsThatAreWrong) {
  const auto refuse = [](std::size_t out, Options options, Errc code, std::string_view text) {
    SCOPED_TRACE(std::string(text));
    expect_error(make_layer(spec_of("mixture_of_softmaxes", out, std::move(options)), Shape{3, 4}, "layers[3]"), code,
                 {"layers[3].", text});
  };
  refuse(0, {}, Errc::parse_failed, "layers[3].out");
  refuse(5, {{"components", 0.0}}, Errc::out_of_range, "components");
  refuse(5, {{"components", 1.5}}, Errc::out_of_range, "1.5");
  refuse(5, {{"hidden", 0.0}}, Errc::out_of_range, "hidden");
  refuse(5, {{"components", 65536.0}, {"hidden", 65536.0}}, Errc::too_large, "components");
  refuse(5, {{"output", std::string("both")}}, Errc::unknown_name, "probabilities");
  refuse(5, {{"experts", 3.0}}, Errc::unknown_name, "components");
}

}  // namespace
}  // namespace weft::mesh::output_softmaxes_test
