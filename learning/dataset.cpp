// SPDX-License-Identifier: Apache-2.0

#include "learning/dataset.hpp"

#include "formats/csv/csv.hpp"

#include <algorithm>
#include <cmath>

namespace weft::learning {

Result<Dataset> read_dataset(storage::FileSystem& files, const std::string& path, float scale) {
  WEFT_TRY(const formats::CsvTable table, formats::read_csv(files, path));
  if (table.rows == 0 || table.columns < 2)
    return fail(Errc::shape_mismatch, path + ": " + std::to_string(table.rows) + " rows of " +
                                          std::to_string(table.columns) +
                                          " columns; needed are samples with at least one value and a label");
  Dataset data;
  data.size = table.rows;
  data.features = table.columns - 1;
  data.inputs.reserve(data.size * data.features);
  for (std::size_t i = 0; i < data.size; ++i) {
    const auto row = table.row(i);
    for (std::size_t j = 0; j < data.features; ++j) data.inputs.push_back(row[j] * scale);
    const float label = row[data.features];
    if (label < 0 || label > 65535 || label != std::floor(label))
      return fail(Errc::out_of_range, path + ": row " + std::to_string(i + 1) + ": label " + std::to_string(label) +
                                          " is not a whole number in [0, 65535]");
    data.labels.push_back(static_cast<std::uint32_t>(label));
    data.classes = std::max(data.classes, data.labels.back() + 1);
  }
  return data;
}

}  // namespace weft::learning
