// SPDX-License-Identifier: Apache-2.0

// embedding against PyTorch, and what it starts from. The kernels' own: tests/kernels/embedding_test.cpp.

#include "goldens.hpp"

namespace weft::mesh::embedding_test {
namespace {

using testing_support::bits;
using testing_support::expect_error;
using testing_support::must;

LayerSpec spec_of(std::size_t out, Options options) {
  LayerSpec spec;
  spec.type = "embedding";
  spec.out = out;
  spec.options = std::move(options);
  return spec;
}

TEST(Embedding, ComputesAndSendsBackWhatPyTorchDoes) {
  const auto rows = goldens::read("embedding");
  ASSERT_GE(rows.size(), 12u);
  for (const goldens::Golden& golden : rows) {
    SCOPED_TRACE(weft::to_string(golden.in) + " to " + std::to_string(golden.out));
    goldens::Sequence run(golden.spec, golden.in, golden.ticks, golden.rows);
    goldens::Sequence alone(golden.spec, golden.in, golden.ticks, golden.rows);
    const double vocabulary = std::get<double>(golden.spec.options.at("vocabulary"));
    for (float& x : run.x) x = static_cast<float>(std::floor((double{x} + 1) / 2 * vocabulary));
    alone.x = run.x;
    run.forward(0, golden.rows);
    goldens::expect_equal(run.y, golden.y, "y");
    run.backward();
    goldens::expect_equal(run.dx, golden.dx, "dx");
    goldens::expect_equal(run.gradient(0), golden.gradients[0], "table");
    for (std::size_t b = golden.rows; b-- > 0;) alone.forward(b, 1);
    EXPECT_EQ(bits(alone.y), bits(run.y)) << "rows one at a time";
  }
}

TEST(Embedding, KnowsItsShapesAndTheLimitOfItsIndices) {
  const Options options{{"vocabulary", 300.0}};
  const auto one = must(make_layer(spec_of(7, options), Shape{1}, "layer"));
  EXPECT_EQ(one->out_shape(), Shape{7});
  EXPECT_EQ(one->vocabulary_size(), 300u);
  EXPECT_EQ(one->parameters()[0].out, 7u);
  EXPECT_EQ(one->parameters()[0].in, 300u);
  EXPECT_EQ(must(make_layer(spec_of(7, options), Shape{5}, "layer"))->out_shape(), (Shape{5, 7}));
}

TEST(Embedding, StartsFromUnitNormalsAndAPaddingOfZeros) {
  // 64 x 300 draws of variance 1; bounds of 5 standard errors.
  const auto layer = must(make_layer(spec_of(64, {{"vocabulary", 300.0}, {"padding_index", 17.0}}), Shape{1}, "layer"));
  std::vector<float> values(64 * 300, NAN);
  RandomStream random(3, 0, RandomPurpose::init);
  layer->parameters()[0].init(random, values);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 300 == 17) {
      EXPECT_EQ(values[i], 0.0f);
    }
    sum += values[i];
    squares += double{values[i]} * values[i];
  }
  const double n = 64.0 * 299;
  EXPECT_LE(std::fabs(sum / n), 5 / std::sqrt(n));
  EXPECT_LE(std::fabs(squares / n - 1), 5 * std::sqrt(2 / n));
}

TEST(Embedding, RefusesOptionsThatAreWrong) {
  const auto refuse = [](std::size_t out, const Options& options, const Shape& in, Errc code, const std::string& text) {
    expect_error(make_layer(spec_of(out, options), in, "layers[3]"), code, {"layers[3]", text});
  };
  refuse(0, {{"vocabulary", 5.0}}, {1}, Errc::parse_failed, ".out");
  refuse(4, {}, {1}, Errc::parse_failed, ".vocabulary");
  refuse(4, {{"vocabulary", 0.0}}, {1}, Errc::out_of_range, ".vocabulary");
  refuse(4, {{"vocabulary", 2.5}}, {1}, Errc::out_of_range, "2.5");
  refuse(4, {{"vocabulary", 16777217.0}}, {1}, Errc::out_of_range, "16777216");
  refuse(4, {{"vocabulary", 5.0}, {"padding_index", 5.0}}, {1}, Errc::out_of_range, ".padding_index");
  refuse(4, {{"vocabulary", 5.0}, {"init", std::string("ones")}}, {1}, Errc::unknown_name, "xavier, he");
  refuse(4, {{"vocabulary", 5.0}, {"bias", true}}, {1}, Errc::unknown_name, "no such option");
  refuse(4, {{"vocabulary", 5.0}}, {2, 3}, Errc::shape_mismatch, "[2, 3]");
}

}  // namespace
}  // namespace weft::mesh::embedding_test
