// SPDX-License-Identifier: Apache-2.0

#include "kernels/finite.hpp"

#include "comparing.hpp"

namespace weft::kernels::finite_test {
namespace {

using namespace testing_support;
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Finite, FindsOneBadElementAnywhere) {
  RandomStream random(41, 0, RandomPurpose::test);
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const std::size_t cols : kSizes) {
      Matrix x = random_matrix(random, 2, cols, 0x1p120f);
      x.at(0, 0) = 0x1.fffffep127f;
      x.at(1, cols - 1) = -0x1p-149f;
      EXPECT_TRUE(is_finite(x.view()));
      EXPECT_EQ(last_isa_run(), general_isa(isa));
      for (const float bad : {kInf, -kInf, kNan, -kNan})
        for (std::size_t i = 0; i < 2; ++i)
          for (const std::size_t j : {std::size_t{0}, cols / 2, cols - 1}) {
            const float was = x.at(i, j);
            x.at(i, j) = bad;
            EXPECT_FALSE(is_finite(x.view())) << bad << " at " << i << ", " << j << " of " << cols;
            x.at(i, j) = was;
          }
    }
    EXPECT_TRUE(is_finite({nullptr, 0, 0, 0}));
  }
}

TEST(Finite, DoesNotLookIntoTheGaps) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    const float x[6] = {1, 2, kNan, 3, 4, kInf};
    EXPECT_TRUE(is_finite({x, 2, 2, 3}));
  }
}

TEST(Finite, CanonicalNansHaveOnePatternAndTheRestStays) {
  RandomStream random(42, 0, RandomPurpose::test);
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    const Matrix x = special_matrix(random, 3, 129, 2);
    Matrix y(x);
    y.at(2, 128) = std::bit_cast<float>(0xffc12345u);
    canonicalize_nan(y.view());
    EXPECT_TRUE(y.gaps_intact());
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 129; ++j) {
        const auto bits = std::bit_cast<std::uint32_t>(y.at(i, j));
        if (std::isnan(x.at(i, j)) || (i == 2 && j == 128))
          EXPECT_EQ(bits, 0x7fc00000u);
        else
          EXPECT_EQ(bits, std::bit_cast<std::uint32_t>(x.at(i, j)));
      }
  }
}

}  // namespace
}  // namespace weft::kernels::finite_test
