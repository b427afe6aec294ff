// SPDX-License-Identifier: Apache-2.0

#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/linear_testing.hpp"

namespace weft::kernels::linear_outer_test {
namespace {
using namespace testing_linear;

struct Problem {
  Problem(Size size, Fill fill, std::uint64_t seed)
      : dy(size.batch, size.out), x(size.batch, size.in), before(size.out, size.in) {
    RandomStream random(seed, 3, RandomPurpose::test);
    dy.fill(random, fill);
    x.fill(random, fill);
    before.fill(random, fill);
    // Contents of padding lanes that a kernel would change by adding anything to them.
    for (std::size_t o = size.out; o < panel_count(size.out) * kPanelWidth; ++o)
      for (std::size_t k = 0; k < size.in; ++k) before.data[panel_index(size.in, o, k)] = Matrix::kUntouched;
  }
  AlignedBuffer<float> run() const {
    PanelMatrix dw = before;
    outer_accumulate(dy.view(), x.view(), dw.view());
    return dw.data;
  }
  Matrix dy, x;
  PanelMatrix before;
};

class OuterAccumulate : public OnEachIsa {
  const FlushSubnormals flush_;
};

TEST_F(OuterAccumulate, ScalarPathIsWithinTheErrorBoundOfFloat64AndLeavesPaddingAlone) {
  ASSERT_TRUE(set_active_isa(Isa::scalar));
  for (const Size& size : sizes()) {
    const Problem problem(size, Fill::plain, 77);
    const auto dw = problem.run();
    for (std::size_t o = 0; o < panel_count(size.out) * kPanelWidth; ++o)
      for (std::size_t k = 0; k < size.in; ++k) {
        const float got = dw[panel_index(size.in, o, k)];
        if (o >= size.out) {
          ASSERT_EQ(got, Matrix::kUntouched);
          continue;
        }
        double sum = problem.before.at(o, k), magnitude = std::fabs(sum);
        for (std::size_t b = 0; b < size.batch; ++b) {
          const double product = double(problem.dy.at(b, o)) * double(problem.x.at(b, k));
          sum += product;
          magnitude += std::fabs(product);
        }
        ASSERT_NEAR(got, sum, bound(size.batch, magnitude)) << size;
      }
  }
}

TEST_F(OuterAccumulate, ABatchIsItsSamplesOneAfterTheOther) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    for (const std::size_t batch : {2, 5, 14, 95, 96, 97, 193}) {
      const Problem problem({batch, 45, 31}, Fill::special, batch);
      PanelMatrix one_by_one = problem.before;
      for (std::size_t b = 0; b < batch; ++b)
        outer_accumulate(problem.dy.row_view(b), problem.x.row_view(b), one_by_one.view());
      EXPECT_TRUE(same_bits(problem.run(), one_by_one.data)) << name(isa) << " batch " << batch;
    }
  }
}

}  // namespace
}  // namespace weft::kernels::linear_outer_test
