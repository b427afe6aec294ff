// SPDX-License-Identifier: Apache-2.0

// kmeans where its values are known. PyTorch: layer_goldens_test.cpp; finite differences: layers_test.cpp.

#include "goldens.hpp"

namespace weft::mesh::kmeans_test {
namespace {

using namespace testing_support;

// Loom took the distances of the whole batch together, and its gradients lacked the 1/T.
TEST(KMeans, AssignsEachSampleByItselfAndItsSlopeHasOneOverTheTemperature) {
  // Two centres on a line at -1 and 1: d_0 - d_1 = 4 x, so p_1 = sigmoid(4 x / T) and its slope is 4/T p_1 (1 - p_1).
  for (const double temperature : {0.5, 1.0, 4.0}) {
    goldens::Sequence run(
        goldens::layer("kmeans",
                       {{"clusters", 2.0}, {"temperature", temperature}, {"centres", std::vector<double>{-1, 1}}}),
        1, 1, 5);
    run.set_parameter(0, {-1.0f, 1.0f});
    run.forward(0, 5);
    for (std::size_t b = 0; b < 5; ++b) run.dy[2 * b] = 0.0f, run.dy[2 * b + 1] = 1.0f;
    run.backward();
    for (std::size_t b = 0; b < 5; ++b) {
      const double p = 1 / (1 + std::exp(-4 * double{run.x[b]} / temperature));
      EXPECT_NEAR(run.y[2 * b + 1], p, 3e-7 / std::min(temperature, 1.0));
      EXPECT_NEAR(run.y[2 * b], 1 - p, 3e-7 / std::min(temperature, 1.0));
      EXPECT_NEAR(run.dx[b], 4 / temperature * p * (1 - p), 2e-6 / temperature);
    }
  }
}

// |x|^2 - 2 x c + |c|^2 in float32 would give nothing but noise here.
TEST(KMeans, TellsCentresApartThatAreFarFromZero) {
  goldens::Sequence run(goldens::layer("kmeans", {{"clusters", 3.0}}), 2, 1, 1);
  run.set_parameter(0, {10000.0f, 10000.0f, 10000.5f, 10000.0f, 10000.0f, 10001.0f});
  run.x = {10000.25f, 10000.0f};
  run.forward(0, 1);
  const double far = std::exp(-(0.0625 + 1 - 0.0625));
  EXPECT_NEAR(run.y[0], 1 / (2 + far), 1e-7);
  EXPECT_NEAR(run.y[1], 1 / (2 + far), 1e-7);
  EXPECT_NEAR(run.y[2], far / (2 + far), 1e-7);
}

TEST(KMeans, AtACentreTheEuclideanSlopeIsFinite) {
  goldens::Sequence run(goldens::layer("kmeans", {{"clusters", 2.0}, {"distance", std::string("euclidean")}}), 2, 1, 1);
  run.set_parameter(0, {0.5f, -0.25f, 3.0f, 4.0f});
  run.x = {0.5f, -0.25f};
  run.forward(0, 1);
  run.backward();
  for (const float v : run.dx) EXPECT_TRUE(std::isfinite(v));
  for (const float v : run.gradient(0)) EXPECT_TRUE(std::isfinite(v));
  EXPECT_EQ(run.gradient(0)[0], 0.0f);
  EXPECT_NE(run.gradient(0)[2], 0.0f);
}

TEST(KMeans, BeginsAtTheGivenCentres) {
  const std::vector<double> centres{1, 2, 3, 4, 5, 6};
  const auto layer = must(make_layer(goldens::layer("kmeans", {{"clusters", 3.0}, {"centres", centres}}), 2, "layer"));
  std::vector<float> values(6);
  RandomStream random(1, 0, RandomPurpose::init);
  layer->parameters()[0].init(random, values);
  EXPECT_EQ(values, std::vector<float>({1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace weft::mesh::kmeans_test
