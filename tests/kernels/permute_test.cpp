// SPDX-License-Identifier: Apache-2.0

#include "kernels/permute.hpp"

#include "comparing.hpp"
#include <algorithm>
#include <numeric>

namespace weft::kernels::permute_test {
namespace {

using namespace testing_support;

TEST(Permute, PutsEveryValueWhereItsAxesSayAndBack) {
  RandomStream random(95, 0, RandomPurpose::test);
  const std::vector<std::vector<std::size_t>> shapes = {
      {1},       {7},         {3, 5},       {1, 9},    {33, 18},        {2, 3, 4},
      {5, 1, 6}, {17, 2, 19}, {2, 3, 4, 5}, {1, 1, 1}, {3, 2, 1, 2, 3}, {2, 2, 2, 2, 2, 2, 2, 2}};
  for (const auto& shape : shapes) {
    std::vector<std::size_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0u);
    const std::size_t volume = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
    int left = 200;
    do {
      const Matrix x = random_matrix(random, 2, volume);
      Matrix y(2, volume, 3), back(2, volume, 1);
      permute(x.view(), AxisOrder::make(shape, order), y.view());
      permute(y.view(), AxisOrder::inverse(shape, order), back.view());
      EXPECT_TRUE(y.gaps_intact() && back.gaps_intact());
      expect_same_bits(back.values(), x.values(), "there and back");
      for (std::size_t at = 0; at < volume; ++at) {
        // The coordinates of place `at` in y, and the place they have in x.
        std::vector<std::size_t> where(shape.size());
        for (std::size_t i = shape.size(), rest = at; i-- > 0; rest /= shape[order[i]])
          where[order[i]] = rest % shape[order[i]];
        std::size_t from = 0;
        for (std::size_t i = 0; i < shape.size(); ++i) from = from * shape[i] + where[i];
        for (std::size_t b = 0; b < 2; ++b) ASSERT_EQ(y.at(b, at), x.at(b, from)) << at;
      }
    } while (--left > 0 && std::next_permutation(order.begin(), order.end()));
  }
}

TEST(Permute, MovesBitsOfEveryKind) {
  const std::vector<float>& special = special_values();
  const std::size_t n = special.size() / 2 * 2, shape[] = {2, n / 2}, order[] = {1, 0};
  std::vector<float> y(n);
  permute({special.data(), 1, n, n}, AxisOrder::make(shape, order), {y.data(), 1, n, n});
  for (std::size_t i = 0; i < n; ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(y[i % (n / 2) * 2 + i / (n / 2)]), std::bit_cast<std::uint32_t>(special[i]));
}

}  // namespace
}  // namespace weft::kernels::permute_test
