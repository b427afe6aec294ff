// SPDX-License-Identifier: Apache-2.0

#include "kernels/target.hpp"

#include "comparing.hpp"

namespace weft::kernels::target_test {
namespace {

using namespace testing_support;

TEST(Target, CosineFollowsTheFormula) {
  const FlushSubnormals flush;
  RandomStream random(91, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes) {
    const Matrix a = random_matrix(random, 4, cols), b = random_matrix(random, 4, cols, 100.0f);
    float c[4];
    row_cosine(a.view(), b.view(), c);
    for (std::size_t i = 0; i < 4; ++i) {
      double ab = 0, aa = 0, bb = 0;
      for (std::size_t j = 0; j < cols; ++j) {
        const double x = static_cast<double>(a.at(i, j)), y = static_cast<double>(b.at(i, j));
        ab += x * y, aa += x * x, bb += y * y;
      }
      EXPECT_NEAR(static_cast<double>(c[i]), ab / std::sqrt(aa * bb), 1e-6) << cols;
    }
  }
}

TEST(Target, CosineGivesTheScalarBitsOnEveryIsa) {
  RandomStream random(92, 0, RandomPurpose::test);
  for (const std::size_t cols : kSizes)
    for (const std::uint32_t one_in : {3u, 40u, 100000u}) {
      const Matrix a = special_matrix(random, 6, cols, one_in), b = special_matrix(random, 6, cols, one_in);
      expect_one_result_on_every_isa("cosine of " + std::to_string(cols), [&] {
        std::vector<float> c(6);
        row_cosine(a.view(), b.view(), c.data());
        return c;
      });
    }
}

TEST(Target, CosineOfAZeroRowIsZero) {
  const FlushSubnormals flush;
  const float zero[3] = {}, tiny[3] = {0x1p-80f, 0, 0}, x[3] = {1, 2, 3}, opposite[3] = {-1, -2, -3};
  float c = 5;
  row_cosine({zero, 1, 3, 3}, {x, 1, 3, 3}, &c);
  EXPECT_EQ(c, 0.0f);
  c = 5;
  row_cosine({x, 1, 3, 3}, {tiny, 1, 3, 3}, &c);  // its squares are flushed
  EXPECT_EQ(c, 0.0f);
  row_cosine({x, 1, 3, 3}, {opposite, 1, 3, 3}, &c);
  EXPECT_NEAR(c, -1.0f, 2e-7f);
}

}  // namespace
}  // namespace weft::kernels::target_test
