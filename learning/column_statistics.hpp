// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/dataset.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// Means and population standard deviations of columns, missing values left out.
/// @exact  two passes in binary64, rows in ascending order: the same bits everywhere (no libm but the square root)
struct ColumnStatistics {
  std::vector<std::size_t> count;
  std::vector<double> mean, deviation;
};
ColumnStatistics column_statistics(const Dataset& data, std::span<const std::uint32_t> rows);

/// The same of the values to learn.
ColumnStatistics target_statistics(const Dataset& data, std::span<const std::uint32_t> rows);

/// Puts the means of the rows `train`, or `fill` where it is known, in the place of missing values. What was put there
/// is in `fill` afterwards.
/// @error invalid_argument: a column without any value in `train`
Status fill_missing(Dataset& data, std::span<const std::uint32_t> train, std::vector<float>& fill);

}  // namespace weft::learning
