// SPDX-License-Identifier: Apache-2.0

#include "goldens.hpp"
#include "testing.hpp"

namespace weft::mesh::standardize_test {
namespace {

using testing_support::bits;
using testing_support::expect_error;
using testing_support::must;

Result<std::unique_ptr<Layer>> make(Options options, const Shape& in) {
  LayerSpec spec;
  spec.type = "standardize";
  spec.options = std::move(options);
  return make_layer(spec, in, "layer");
}

using Numbers = std::vector<double>;

TEST(Standardize, IsOneSubtractionAndOneProductEachRounded) {
  const Numbers mean{5.8433, 3.05, -1e-3}, deviation{0.8253, 0.4344, 7};
  for (const Shape& shape : {Shape{3}, Shape{4, 3}})
    for (const std::size_t rows : {1, 3}) {
      const auto layer = must(make({{"mean", mean}, {"deviation", deviation}}, shape));
      const kernels::FlushSubnormals exact;
      kernels::CpuStream stream;
      const std::size_t n = layer->in();
      ASSERT_EQ(layer->out_shape(), shape);
      std::vector<std::vector<float>> stored(2, std::vector<float>(3));
      std::vector<kernels::ConstWeight> weights(2);
      RandomStream unused(0, 0, RandomPurpose::shuffle);
      for (std::size_t p = 0; p < 2; ++p) {
        layer->parameters()[p].init(unused, stored[p]);
        weights[p].codes = stored[p].data();
      }
      auto x = goldens::draw(goldens::kX, rows * n), dy = goldens::draw(goldens::kDy, rows * n);
      std::vector<float> y(rows * n), dx(rows * n), want(rows * n), want_dx(rows * n);
      for (std::size_t i = 0; i < rows * n; ++i) {
        const float factor = static_cast<float>(1.0 / deviation[i % 3]);
        want[i] = (x[i] - static_cast<float>(mean[i % 3])) * factor;
        want_dx[i] = dy[i] * factor;
      }
      const auto view = [&](std::vector<float>& v) { return kernels::MatrixView{v.data(), rows, n, n}; };
      ForwardArgs forward;
      forward.weights = {weights.data()};
      forward.x = view(x), forward.y = view(y);
      layer->forward(stream, forward);
      EXPECT_EQ(bits(y), bits(want));
      BackwardArgs backward;
      backward.weights = {weights.data()};
      backward.x = view(x), backward.y = view(y), backward.dy = view(dy), backward.dx = view(dx);
      layer->backward(stream, backward);
      EXPECT_EQ(bits(dx), bits(want_dx));
    }
}

TEST(Standardize, RefusesNumbersThatItCannotUse) {
  const Numbers two{1, 2};
  expect_error(make({{"mean", two}, {"deviation", two}}, {3}), Errc::shape_mismatch, {"layer.mean", "2", "3"});
  expect_error(make({{"mean", two}, {"deviation", Numbers{1}}}, {2}), Errc::shape_mismatch, {"layer.deviation", "1"});
  expect_error(make({{"mean", two}}, {2}), Errc::parse_failed, {"layer.deviation: needed"});
  for (const double d : {0.0, -1.0, 1e-50})
    expect_error(make({{"mean", two}, {"deviation", Numbers{1, d}}}, {2}), Errc::out_of_range,
                 {"layer.deviation", "above 0"});
  expect_error(make({{"mean", Numbers{1, 1e39}}, {"deviation", two}}, {2}), Errc::out_of_range, {"layer.mean"});
}

}  // namespace
}  // namespace weft::mesh::standardize_test
