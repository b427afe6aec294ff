// SPDX-License-Identifier: Apache-2.0

#include "kernels/max_backward.hpp"

#include <gtest/gtest.h>

namespace weft::kernels::max_backward_test {
namespace {

TEST(MaxBackward, GivesTheGradientToTheFirstSourceThatHoldsTheMaximum) {
  const float a[] = {1, 5, 2, 3}, b[] = {4, 5, 1, 3}, x[] = {4, 5, 2, 3};
  float left[] = {10, 20, 30, 40}, da[4], db[4];
  max_backward({a, 1, 4, 4}, {x, 1, 4, 4}, {left, 1, 4, 4}, {da, 1, 4, 4});
  max_backward({b, 1, 4, 4}, {x, 1, 4, 4}, {left, 1, 4, 4}, {db, 1, 4, 4});
  const float want_a[] = {0, 20, 30, 40}, want_b[] = {10, 0, 0, 0};
  for (int j = 0; j < 4; ++j) {
    EXPECT_EQ(da[j], want_a[j]);
    EXPECT_EQ(db[j], want_b[j]);
    EXPECT_EQ(left[j], 0.0f);
  }
}

}  // namespace
}  // namespace weft::kernels::max_backward_test
