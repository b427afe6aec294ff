// SPDX-License-Identifier: Apache-2.0

#include "kernels/distance.hpp"

#include "kernels/float_environment.hpp"

#include "coded_weights.hpp"
#include "linear_testing.hpp"

namespace weft::kernels::distance_test {
namespace {

using namespace testing_linear;
class Distance : public OnEachIsa {};

constexpr Size kShapes[] = {{1, 1, 1},  {3, 5, 7},   {2, 16, 64}, {5, 17, 65}, {9, 33, 63},
                            {4, 64, 3}, {7, 65, 31}, {3, 100, 1}, {8, 130, 9}, {12, 48, 200}};

ConstPanels points_of(const PanelMatrix& c) { return c.view(); }
ConstWeight points_of(const testing_coded::CodedMatrix& c) { return c.view(); }

void fill(Matrix& m, RandomStream& random, float offset = 0.0f) {
  for (std::size_t i = 0; i < m.rows; ++i)
    for (std::size_t j = 0; j < m.cols; ++j) m.at(i, j) = offset + random.next_normal();
}

TEST_F(Distance, IsTheSumOfSquaredDifferencesAndItsSlopes) {
  const FlushSubnormals flush;
  RandomStream random(71, 0, RandomPurpose::test);
  for (const Size& size : kShapes)
    // Points far from zero and close together: the expanded square would have lost every digit.
    for (const float offset : {0.0f, 1000.0f}) {
      SCOPED_TRACE(testing::Message() << size << ", offset " << offset);
      PanelMatrix c(size.out, size.in), dc(size.out, size.in);
      Matrix x(size.batch, size.in), dy(size.batch, size.out), y(size.batch, size.out), dx(size.batch, size.in);
      fill(x, random, offset), fill(dy, random);
      for (std::size_t k = 0; k < size.out; ++k)
        for (std::size_t j = 0; j < size.in; ++j)
          c.at(k, j) = offset + random.next_normal(), dc.at(k, j) = random.next_normal();
      const PanelMatrix before = [&] {
        PanelMatrix copy(size.out, size.in);
        std::copy(dc.data.begin(), dc.data.end(), copy.data.begin());
        return copy;
      }();
      squared_distances(points_of(c), x.view(), y.view());
      squared_distances_backward(points_of(c), x.view(), dy.view(), dx.view(), dc.view());
      const auto apart = [&](std::size_t b, std::size_t k, std::size_t j) {
        return static_cast<double>(x.at(b, j)) - static_cast<double>(c.at(k, j));
      };
      for (std::size_t b = 0; b < size.batch; ++b) {
        for (std::size_t k = 0; k < size.out; ++k) {
          double want = 0;
          for (std::size_t j = 0; j < size.in; ++j) want += apart(b, k, j) * apart(b, k, j);
          ASSERT_NEAR(y.at(b, k), want, want * 0x1p-23 * (4 + 64 + size.in / 64.0)) << b << " " << k;
        }
        for (std::size_t j = 0; j < size.in; ++j) {
          double want = 0, sizes = 0;
          for (std::size_t k = 0; k < size.out; ++k) {
            want += 2 * static_cast<double>(dy.at(b, k)) * apart(b, k, j);
            sizes += std::fabs(2 * static_cast<double>(dy.at(b, k)) * apart(b, k, j));
          }
          ASSERT_NEAR(dx.at(b, j), want, sizes * 0x1p-24 * (10 + size.out / 64.0)) << b << " " << j;
        }
      }
      for (std::size_t k = 0; k < size.out; ++k)
        for (std::size_t j = 0; j < size.in; ++j) {
          double want = static_cast<double>(before.at(k, j)), sizes = std::fabs(want);
          for (std::size_t b = 0; b < size.batch; ++b) {
            want -= 2 * static_cast<double>(dy.at(b, k)) * apart(b, k, j);
            sizes += std::fabs(2 * static_cast<double>(dy.at(b, k)) * apart(b, k, j));
          }
          ASSERT_NEAR(dc.at(k, j), want, sizes * 0x1p-24 * (3.0 + static_cast<double>(size.batch))) << k << " " << j;
        }
    }
}

TEST_F(Distance, OfARowDoesNotDependOnTheOthers) {
  const FlushSubnormals flush;
  RandomStream random(73, 0, RandomPurpose::test);
  PanelMatrix c(37, 70);
  Matrix x(11, 70), dy(11, 37);
  c.fill(random, Fill::plain), x.fill(random, Fill::plain), dy.fill(random, Fill::plain);
  Matrix y(11, 37), dx(11, 70), alone(11, 37), dx_alone(11, 70);
  PanelMatrix dc(37, 70), dc_alone(37, 70);
  squared_distances(points_of(c), x.view(), y.view());
  squared_distances_backward(points_of(c), x.view(), dy.view(), dx.view(), dc.view());
  for (std::size_t b = 0; b < 11; ++b) {
    squared_distances(points_of(c), x.row_view(b), {&alone.at(b, 0), 1, 37, 37});
    squared_distances_backward(points_of(c), x.row_view(b), dy.row_view(b), {&dx_alone.at(b, 0), 1, 70, 70},
                               dc_alone.view());
  }
  EXPECT_TRUE(same_bits(alone.data, y.data));
  EXPECT_TRUE(same_bits(dx_alone.data, dx.data));
  EXPECT_TRUE(same_bits(dc_alone.data, dc.data));
}

TEST_F(Distance, TakesPointsOfEveryType) {
  const FlushSubnormals flush;
  RandomStream random(74, 0, RandomPurpose::test);
  for (const Encoding& encoding : testing_coded::all_encodings()) {
    testing_coded::CodedMatrix c(encoding, 19, 37);
    c.fill(random, testing_coded::Codes::finite);
    PanelMatrix plain(19, 37), dc(19, 37), dc_plain(19, 37);
    for (std::size_t k = 0; k < 19; ++k)
      for (std::size_t j = 0; j < 37; ++j) plain.at(k, j) = c.value(k, j);
    Matrix x(3, 37), dy(3, 19), y(3, 19), y_plain(3, 19), dx(3, 37), dx_plain(3, 37);
    fill(x, random), fill(dy, random);
    squared_distances(points_of(c), x.view(), y.view());
    squared_distances(points_of(plain), x.view(), y_plain.view());
    squared_distances_backward(points_of(c), x.view(), dy.view(), dx.view(), dc.view());
    squared_distances_backward(points_of(plain), x.view(), dy.view(), dx_plain.view(), dc_plain.view());
    EXPECT_TRUE(same_bits(y.data, y_plain.data)) << name(encoding.dtype);
    EXPECT_TRUE(same_bits(dx.data, dx_plain.data)) << name(encoding.dtype);
    EXPECT_TRUE(same_bits(dc.data, dc_plain.data)) << name(encoding.dtype);
  }
}

TEST_F(Distance, OfAPointFromItselfHasNoSlope) {
  const FlushSubnormals flush;
  const float y[] = {0.0f, -0.0f, 2.0f, 0.25f}, dy[] = {3.0f, -1.0f, 3.0f, -1.0f};
  float dx[4];
  square_root_backward({y, 1, 4, 4}, {dy, 1, 4, 4}, {dx, 1, 4, 4});
  EXPECT_EQ(std::vector<float>(dx, dx + 4), std::vector<float>({0.0f, 0.0f, 0.75f, -2.0f}));
}

}  // namespace
}  // namespace weft::kernels::distance_test
