// SPDX-License-Identifier: Apache-2.0

#include "formats/csv/csv.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using namespace weft::formats;

struct Seen {
  std::vector<std::string> fields;
  std::vector<std::size_t> lines;
  std::string error;
  bool operator==(const Seen&) const = default;
};

Seen read_all(weft::Result<CsvReader> opened) {
  Seen seen;
  if (!opened) {
    seen.error = opened.error().text();
    return seen;
  }
  CsvReader reader = *std::move(opened);
  for (;;) {
    const auto has_record = reader.next();
    if (!has_record) seen.error = has_record.error().text();
    if (!has_record || !*has_record) return seen;
    WEFT_ASSERT(reader.fields().size() == reader.columns(), "a table that is not rectangular");
    WEFT_ASSERT(reader.names().empty() || reader.names().size() == reader.columns(), "names that do not fit");
    seen.lines.push_back(reader.line());
    for (const CsvField& field : reader.fields()) {
      const CsvNumber number = csv_number(field);
      if (number.kind == CsvNumber::Kind::number) WEFT_ASSERT(std::isfinite(number.value), "a number not finite");
      seen.fields.emplace_back(field.text);
    }
  }
}

}  // namespace

// A table is rectangular, and the same in one piece and in small ones.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CsvOptions options;
  options.max_record = std::size_t{1} << 20;
  std::string_view rest = text;
  const auto parts = [&rest](std::span<char> buffer) -> weft::Result<std::size_t> {
    const std::size_t count = std::min<std::size_t>({7, rest.size(), buffer.size()});
    std::copy_n(rest.data(), count, buffer.data());
    rest.remove_prefix(count);
    return count;
  };
  WEFT_ASSERT(read_all(CsvReader::open(text, "fuzz", options)) == read_all(CsvReader::open(parts, "fuzz", options)),
              "another table in parts");
  return 0;
}
