// SPDX-License-Identifier: Apache-2.0

// swiglu against PyTorch. Finite differences and single rows of a batch: layers_test.cpp.

#include "goldens.hpp"

namespace weft::mesh::swiglu_test {
namespace {

using testing_support::must;

LayerSpec spec_of(std::size_t out, Options options = {}) {
  LayerSpec spec;
  spec.type = "swiglu";
  spec.out = out;
  spec.options = std::move(options);
  return spec;
}

TEST(SwiGlu, ComputesAndSendsBackWhatPyTorchDoes) {
  const auto rows = goldens::read("swiglu");
  ASSERT_GE(rows.size(), 12u);
  for (const goldens::Golden& golden : rows) goldens::expect_as_pytorch(golden);
}

// The original took the down projection's gradient of the gate alone.
TEST(SwiGlu, DownLearnsFromTheGatedProduct) {
  goldens::Sequence run(spec_of(1, {{"hidden", 2.0}}), 1, 1, 1);
  run.forward(0, 1);
  run.backward();
  // gate, up [2, 1] and down [1, 2] are the streams 10 to 12, each times 0.5.
  const auto gate = goldens::draw(10, 2, 0.5f), up = goldens::draw(11, 2, 0.5f);
  for (std::size_t j = 0; j < 2; ++j) {
    const double z = double{gate[j]} * run.x[0];
    EXPECT_NEAR(run.gradient(2)[j], run.dy[0] * z / (1 + std::exp(-z)) * up[j] * run.x[0], 1e-8) << j;
  }
}

TEST(SwiGlu, TakesItsWidthsFromItsInput) {
  for (const auto& [in, hidden] : {std::pair<std::size_t, std::size_t>{1, 16}, {6, 16}, {7, 32}, {12, 32}, {96, 256}}) {
    const auto layer = must(make_layer(spec_of(0), in, "layer"));
    EXPECT_EQ(layer->out(), in);
    EXPECT_EQ(layer->parameters()[0].out, hidden) << in;
    EXPECT_EQ(layer->multiply_adds(), 3.0 * static_cast<double>(in * hidden));
    EXPECT_EQ(layer->parameters().size(), 3u);
    EXPECT_EQ(layer->mixing_matrix(), -1);
  }
}

TEST(SwiGlu, RefusesOptionsThatAreWrong) {
  goldens::expect_refused("swiglu", {{"hidden", 2.5, Errc::out_of_range, "2.5"},
                                     {"hidden", -1.0, Errc::out_of_range, "-1"},
                                     {"hidden", 1e9, Errc::out_of_range, "16777216"},
                                     {"hidden", std::string("wide"), Errc::parse_failed, "a whole number"},
                                     {"gate", std::string("tanh"), Errc::unknown_name, "silu, gelu, relu2"},
                                     {"gate", true, Errc::parse_failed, "a text"},
                                     {"bias", 1.0, Errc::parse_failed, "true or false"},
                                     {"init", std::string("glorot"), Errc::unknown_name, "xavier, he"},
                                     {"hiden", 4.0, Errc::unknown_name, "did you mean 'hidden'"}});
}

}  // namespace
}  // namespace weft::mesh::swiglu_test
