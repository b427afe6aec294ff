// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <cstddef>

namespace weft::kernels {

/// Number of statistics of a row, in the order of row_statistics.
inline constexpr std::size_t kStatistics = 4;
enum class Statistic : int {
  mean,       ///< sum(x) / n
  deviation,  ///< sqrt(sum((x - mean)^2) / n)
  active,     ///< how many |x| are above `threshold`, / n
  rms,        ///< sqrt(sum(x^2) / n)
};

/// @shape  x [rows, n], n >= 1; y [rows, kStatistics]; y aliases nothing
/// @exact  sums by rule R2, squares one fma an element; divisions and roots correctly rounded
void row_statistics(const ConstMatrixView& x, float threshold, const MatrixView& y) noexcept;

}  // namespace weft::kernels
