// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/fwd.hpp"
#include "storage/fwd.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::formats {

enum class CsvHeader {
  detect,   ///< the first line names the columns when none of its fields is a number
  absent,   ///< the first line is data
  present,  ///< the first line names the columns
};

struct CsvOptions {
  CsvHeader header = CsvHeader::detect;
  std::size_t columns = 0;                       ///< what every line must have; 0: as many as the first
  std::size_t max_bytes = std::size_t{1} << 30;  ///< of text, after unpacking
  std::size_t max_columns = 65536;
  std::size_t max_values = std::size_t{1} << 28;
};

/// A table of finite numbers, row-major.
struct CsvTable {
  std::size_t rows = 0, columns = 0;
  std::vector<float> values;
  std::vector<std::string> names;  ///< of the columns; empty without a header

  std::span<const float> row(std::size_t i) const noexcept { return {values.data() + i * columns, columns}; }
};

/// Reads numbers separated by commas, one row a line ("\n" or "\r\n"; the last may lack it). Strict: every line has the
/// same number of fields, each field is a decimal number and nothing else, no quotes, no spaces, no empty lines.
/// Gzip is recognised by its first bytes. No locale has a say; each number is the float nearest to its text.
/// Error texts begin with "source:line: ".
/// @error parse_failed: not such a table; out_of_range: a number no float can hold; too_large: a limit passed;
///        corrupt: damaged gzip
Result<CsvTable> parse_csv(ByteSpan bytes, std::string_view source_name, const CsvOptions& options = {});
Result<CsvTable> read_csv(storage::FileSystem& files, const std::string& path, const CsvOptions& options = {});

}  // namespace weft::formats
