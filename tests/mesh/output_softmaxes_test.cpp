// SPDX-License-Identifier: Apache-2.0

// The softmaxes that have weights. PyTorch: layer_goldens_test.cpp; finite differences: layers_test.cpp.

#include "goldens.hpp"

namespace weft::mesh::output_softmaxes_test {
namespace {

using namespace testing_support;

// Purpose of the mixture: the logarithms of its outputs over many contexts have a higher rank than a context has
// values.
TEST(MixtureOfSoftmaxes, IsNotBoundToTheRankOfItsContexts) {
  const auto second_difference = [](std::size_t components) {
    goldens::Sequence run(goldens::layer(R"({"type": "mixture_of_softmaxes", "out": 3, "hidden": 1, "bias": false,
                                             "components": )" +
                                         std::to_string(components) + "}"),
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
  goldens::Sequence run(goldens::layer(R"({"type": "mixture_of_softmaxes", "out": 2, "components": 2, "hidden": 1})"),
                        1, 1, 1);
  run.set_parameter(2, {1000.0f, -1000.0f});
  run.set_parameter(3, {5.0f, 5.0f});
  run.forward(0, 1);
  run.backward();
  EXPECT_NEAR(run.y[0], 0.0f, 1e-6f);
  EXPECT_NEAR(run.y[1], std::log(0x1p-126), 1e-4);
  for (const float v : run.dx) EXPECT_TRUE(std::isfinite(v));
}

}  // namespace
}  // namespace weft::mesh::output_softmaxes_test
