// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace weft::learning {

/// Labelled samples in memory.
struct Dataset {
  std::size_t size = 0, features = 0;
  std::uint32_t classes = 0;          // labels are below this
  std::vector<float> inputs;          // [size][features]
  std::vector<std::uint32_t> labels;  // [size]

  const float* row(std::size_t i) const noexcept { return inputs.data() + i * features; }
};

/// Reads a table whose last column is a class, 0 and up; the others are multiplied by `scale`.
/// @error as formats::read_csv; out_of_range for a label that is not a whole number in [0, 65535], naming the row
Result<Dataset> read_dataset(storage::FileSystem& files, const std::string& path, float scale);

}  // namespace weft::learning
