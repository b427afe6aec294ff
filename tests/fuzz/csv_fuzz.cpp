// SPDX-License-Identifier: Apache-2.0

#include "formats/csv/csv.hpp"

#include "core/assert.hpp"

#include <cmath>
#include <cstdint>

// A table that was read is rectangular and finite.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace weft::formats;
  CsvOptions options;
  options.max_bytes = std::size_t{1} << 20;
  const auto table = parse_csv({reinterpret_cast<const std::byte*>(data), size}, "fuzz", options);
  if (!table) return 0;
  WEFT_ASSERT(table->rows > 0 && table->columns > 0, "an empty table");
  WEFT_ASSERT(table->values.size() == table->rows * table->columns, "a table that is not rectangular");
  WEFT_ASSERT(table->names.empty() || table->names.size() == table->columns, "names that do not fit the columns");
  for (const float value : table->values) WEFT_ASSERT(std::isfinite(value), "a number that is not finite");
  return 0;
}
