// SPDX-License-Identifier: Apache-2.0

// Factors of rows at once against those by operations, which a device records.

#include "learning/internal/row_limits.hpp"

#include "kernels/float_environment.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace weft::learning::row_limits_test {
namespace {

constexpr std::size_t kRows = 9;

/// Rows small and large, of zeros, and of values whose squares are not finite.
std::vector<float> rows_of(std::size_t width) {
  const float infinite = std::numeric_limits<float>::infinity();
  const float sizes[kRows] = {1.0f, 1e-3f, 30.0f, 0.0f, 1e-30f, 1e-14f, 3e19f, infinite, infinite - infinite};
  RandomStream random(7, width, RandomPurpose::test);
  std::vector<float> x;
  for (const float size : sizes)
    for (std::size_t j = 0; j < width; ++j) x.push_back(size * (random.next_uniform() + 0.5f));
  return x;
}

TEST(RowLimits, AreThoseThatOperationsCompute) {
  const kernels::FlushSubnormals exact;
  kernels::CpuStream stream;
  for (const std::size_t width : {1u, 10u, 16u, 64u, 80u, 131u})
    for (const bool is_square : {false, true})
      for (const float limit : {0.5f, 1.0f, 3.0f}) {
        const std::vector<float> x = rows_of(width);
        std::vector<float> normal(x.size()), by_operations(kRows), ones(kRows), at_once(kRows);
        const kernels::ConstMatrixView all{x.data(), kRows, width, width};
        limit_rows(stream, limit, is_square, all, {normal.data(), kRows, width, width},
                   {by_operations.data(), ones.data()});
        limit_rows(stream, limit, is_square, all, at_once.data());
        for (std::size_t b = 0; b < kRows; ++b)
          EXPECT_EQ(std::bit_cast<std::uint32_t>(at_once[b]), std::bit_cast<std::uint32_t>(by_operations[b]))
              << "row " << b << " of " << width << " values: " << at_once[b] << ", " << by_operations[b];
      }
}

}  // namespace
}  // namespace weft::learning::row_limits_test
