// SPDX-License-Identifier: Apache-2.0

#include "kernels/finite.hpp"

#include "comparing.hpp"

namespace weft::kernels::finite_test {
namespace {

using namespace testing_support;

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
