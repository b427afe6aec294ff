// SPDX-License-Identifier: Apache-2.0

#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/linear_testing.hpp"

namespace weft::kernels::linear_transposed_test {
namespace {
using namespace testing_linear;

struct Problem {
  Problem(Size size, Fill fill, std::uint64_t seed) : w(size.out, size.in), dy(size.batch, size.out) {
    RandomStream random(seed, 2, RandomPurpose::test);
    w.fill(random, fill);
    dy.fill(random, fill);
  }
  std::vector<float> run() const {
    Matrix dx(dy.rows, w.in);
    linear_transposed(w.view(), dy.view(), dx.view());
    return dx.data;
  }
  std::vector<float> column_sums() const {
    std::vector<float> s(w.in, 1.0f);
    column_l1_norms(w.view(), s.data());
    return s;
  }
  PanelMatrix w;
  Matrix dy;
};

class LinearTransposed : public OnEachIsa {
  const FlushSubnormals flush_;
};
using ColumnL1Norms = LinearTransposed;

// Roundings that one element's sum meets: its lane's and the six folds.
std::size_t roundings(std::size_t out) { return (out + kLanes - 1) / kLanes + 6; }

TEST_F(LinearTransposed, ScalarPathIsWithinTheErrorBoundOfFloat64) {
  ASSERT_TRUE(set_active_isa(Isa::scalar));
  for (const Size& size : sizes()) {
    const Problem problem(size, Fill::plain, 77);
    const auto dx = problem.run();
    for (std::size_t b = 0; b < size.batch; ++b)
      for (std::size_t k = 0; k < size.in; ++k) {
        double sum = 0, magnitude = 0;
        for (std::size_t o = 0; o < size.out; ++o) {
          const double product = double(problem.w.at(o, k)) * double(problem.dy.at(b, o));
          sum += product;
          magnitude += std::fabs(product);
        }
        ASSERT_NEAR(dx[b * (size.in + 3) + k], sum, bound(roundings(size.out), magnitude)) << size;
      }
  }
}

// Lane 0 takes o = 0, 64; lane 32 is its first partner: 2^24 + 1 + 1 is 2^24 one by one, 2^24 + 2 in rule R2's order.
TEST_F(LinearTransposed, SumsInStridedLanesFoldedByHalves) {
  PanelMatrix w(128, 1);
  Matrix dy(1, 128);
  for (std::size_t o = 0; o < 128; ++o) dy.at(0, o) = 1.0f;
  w.at(0, 0) = 0x1p24f, w.at(32, 0) = 1.0f, w.at(96, 0) = 1.0f;
  expect_same_on_all("lanes", [&] {
    Matrix dx(1, 1);
    linear_transposed(w.view(), std::as_const(dy).view(), dx.view());
    EXPECT_EQ(dx.at(0, 0), 0x1p24f + 2.0f);
    return dx.data;
  });
}

TEST_F(LinearTransposed, PaddingLanesDoNotTurnMinusZeroIntoPlusZero) {
  // A lane of a partial panel flushes to -0; lanes past `out` hold +0 weights, which must not be added to real lanes.
  PanelMatrix w(65, 1);
  Matrix dy(1, 65);
  for (std::size_t o = 0; o < 65; ++o) w.at(o, 0) = -0x1p-100f, dy.at(0, o) = 0x1p-100f;
  expect_same_on_all("minus zero", [&] {
    Matrix dx(1, 1);
    linear_transposed(w.view(), std::as_const(dy).view(), dx.view());
    EXPECT_TRUE(same(dx.at(0, 0), -0.0f));
    return dx.data;
  });
}

TEST_F(LinearTransposed, ARowsResultDoesNotDependOnTheBatchAroundIt) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const std::size_t batch : {1, 2, 3, 4, 5, 13, 64}) {
      const Problem problem({batch, 70, 37}, Fill::special, batch);
      const auto together = problem.run();
      for (std::size_t b = 0; b < batch; ++b) {
        Matrix alone(1, 37);
        linear_transposed(problem.w.view(), problem.dy.row_view(b), alone.view());
        const auto* row = together.data() + b * 40;
        ASSERT_TRUE(same_bits(std::vector<float>(row, row + 40), alone.data)) << name(isa) << " row " << b;
      }
    }
  }
}

TEST_F(ColumnL1Norms, ScalarPathIsWithinTheErrorBoundOfFloat64) {
  ASSERT_TRUE(set_active_isa(Isa::scalar));
  for (const Size& size : sizes()) {
    const Problem problem(size, Fill::plain, 78);
    const auto s = problem.column_sums();
    for (std::size_t k = 0; k < size.in; ++k) {
      double sum = 0;
      for (std::size_t o = 0; o < size.out; ++o) sum += std::fabs(double(problem.w.at(o, k)));
      ASSERT_NEAR(s[k], sum, bound(roundings(size.out), sum)) << size;
    }
  }
}

}  // namespace
}  // namespace weft::kernels::linear_transposed_test
