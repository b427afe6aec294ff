// SPDX-License-Identifier: Apache-2.0

#include "learning/column_statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::learning::column_statistics_test {
namespace {

TEST(ColumnStatistics, AreThoseOfTheRowsGiven) {
  Dataset data;
  data.size = 5;
  data.features = 2;
  data.inputs = {2, 7, 4, 7, 4, 7, 4, NAN, 1000, 1000};
  data.labels = {0, 0, 0, 0, 0};
  const std::vector<std::uint32_t> rows{3, 0, 1, 2};
  const ColumnStatistics s = column_statistics(data, rows);
  // 2 4 4 4: mean 3.5, squares 2.25 + 3 * 0.25 = 3, variance 0.75.
  EXPECT_EQ(s.mean, (std::vector<double>{3.5, 7}));
  EXPECT_EQ(s.deviation, (std::vector<double>{std::sqrt(0.75), 0}));
  EXPECT_EQ(s.count, (std::vector<std::size_t>{4, 3}));
}

}  // namespace
}  // namespace weft::learning::column_statistics_test
