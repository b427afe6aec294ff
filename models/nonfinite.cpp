// SPDX-License-Identifier: Apache-2.0

#include "models/nonfinite.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::models {

void NonfiniteWeights::replace(const mesh::ParameterRows& rows) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  std::size_t count = 0;
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    float& value = rows.values[i];
    if (std::isfinite(value)) continue;
    if (first_.empty())
      first_ = rows.node.object + " " + rows.spec.name + ": weight " +
               std::to_string(rows.first * std::max<std::size_t>(rows.spec.in, 1) + i) + " was " +
               std::to_string(value);
    value = std::isnan(value) ? 0.0f : std::copysign(kLargest, value);
    ++count;
  }
  if (count != 0) counts_[{rows.node.object + " " + rows.spec.name, rows.first}] = count;
}

std::string NonfiniteWeights::note() const {
  std::size_t count = 0;
  for (const auto& [place, of_place] : counts_) count += of_place;
  return std::to_string(count) +
         " weights that were not finite became 0 (NaN) or the largest number (infinities): " + first_ +
         (count > 1 ? ", the first" : "");
}

mesh::ReadParameter with_finite_values(mesh::ReadParameter read, std::shared_ptr<NonfiniteWeights> replaced) {
  if (!replaced) return read;
  return [read = std::move(read), replaced](const mesh::ParameterRows& rows) -> Status {
    WEFT_CHECK(read(rows));
    replaced->replace(rows);
    return {};
  };
}

}  // namespace weft::models
