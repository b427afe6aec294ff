// SPDX-License-Identifier: Apache-2.0

#include "learning/column_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace weft::learning {

/// Of columns [size][columns], whose value j of row i `at` gives.
template <class At>
static ColumnStatistics statistics_of(std::size_t columns, std::span<const std::uint32_t> rows, At&& at) {
  std::vector<std::uint32_t> ascending(rows.begin(), rows.end());
  std::sort(ascending.begin(), ascending.end());
  ColumnStatistics s;
  s.count.assign(columns, 0);
  s.mean.assign(columns, 0.0);
  s.deviation.assign(columns, 0.0);
  const auto each = [&](auto&& take) {
    for (const std::uint32_t row : ascending)
      for (std::size_t j = 0; j < columns; ++j)
        if (const float value = at(row, j); !std::isnan(value)) take(j, static_cast<double>(value));
  };
  each([&](std::size_t j, double value) {
    s.mean[j] += value;
    ++s.count[j];
  });
  for (std::size_t j = 0; j < columns; ++j)
    if (s.count[j]) s.mean[j] /= static_cast<double>(s.count[j]);
  each([&](std::size_t j, double value) {
    const double distance = value - s.mean[j];
    const double square = distance * distance;
    s.deviation[j] += square;
  });
  for (std::size_t j = 0; j < columns; ++j)
    if (s.count[j]) s.deviation[j] = std::sqrt(s.deviation[j] / static_cast<double>(s.count[j]));
  return s;
}

ColumnStatistics column_statistics(const Dataset& data, std::span<const std::uint32_t> rows) {
  return statistics_of(data.features, rows, [&](std::uint32_t row, std::size_t j) { return data.row(row)[j]; });
}

ColumnStatistics target_statistics(const Dataset& data, std::span<const std::uint32_t> rows) {
  return statistics_of(data.targets, rows,
                       [&](std::uint32_t row, std::size_t j) { return data.values[row * data.targets + j]; });
}

Status fill_missing(Dataset& data, std::span<const std::uint32_t> train, std::vector<float>& fill) {
  const bool is_whole = std::none_of(data.inputs.begin(), data.inputs.end(), [](float v) { return std::isnan(v); });
  if (is_whole) return {};
  if (fill.empty()) {
    const ColumnStatistics statistics = column_statistics(data, train);
    for (std::size_t j = 0; j < data.features; ++j) {
      if (statistics.count[j] == 0)
        return fail(Errc::invalid_argument,
                    "value " + std::to_string(j + 1) + (j < data.names.size() ? " '" + data.names[j] + "'" : "") +
                        ": missing in every row that is learned from, so there is no mean to fill it with; leave the "
                        "column out with --skip");
      fill.push_back(static_cast<float>(statistics.mean[j]));
    }
  }
  for (std::size_t i = 0; i < data.inputs.size(); ++i)
    if (std::isnan(data.inputs[i])) data.inputs[i] = fill[i % data.features];
  return {};
}

}  // namespace weft::learning
