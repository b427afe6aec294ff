// SPDX-License-Identifier: Apache-2.0

#include "goldens.hpp"
#include "testing.hpp"

namespace weft::mesh::standardize_test {
namespace {

using namespace testing_support;

using Numbers = std::vector<double>;

TEST(Standardize, IsOneSubtractionAndOneProductEachRounded) {
  const Numbers mean{5.8433, 3.05, -1e-3}, deviation{0.8253, 0.4344, 7};
  for (const Shape& shape : {Shape{3}, Shape{4, 3}})
    for (const std::size_t rows : {1, 3}) {
      LayerSpec spec;
      spec.type = "standardize";
      spec.options = {{"mean", mean}, {"deviation", deviation}};
      goldens::Sequence run(spec, shape, 1, rows);
      ASSERT_EQ(run.layer->out_shape(), shape);
      RandomStream unused(0, 0, RandomPurpose::shuffle);
      for (std::size_t p = 0; p < 2; ++p) {
        std::vector<float> values(3);
        run.layer->parameters()[p].init(unused, values);
        run.set_parameter(p, values);
      }
      run.forward(0, rows);
      run.backward();
      std::vector<float> want, want_dx;
      for (std::size_t i = 0; i < run.x.size(); ++i) {
        const float factor = static_cast<float>(1.0 / deviation[i % 3]);
        want.push_back((run.x[i] - static_cast<float>(mean[i % 3])) * factor);
        want_dx.push_back(run.dy[i] * factor);
      }
      EXPECT_EQ(bits(run.y), bits(want));
      EXPECT_EQ(bits(run.dx), bits(want_dx));
    }
}

}  // namespace
}  // namespace weft::mesh::standardize_test
