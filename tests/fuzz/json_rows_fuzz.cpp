// SPDX-License-Identifier: Apache-2.0

#include "formats/jsonl/json_rows.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace weft::formats;

std::vector<std::string> read_all(std::string_view text, std::size_t piece) {
  const auto source = [text, piece](std::span<char> buffer) mutable -> weft::Result<std::size_t> {
    const std::size_t count = std::min({piece, text.size(), buffer.size()});
    std::copy_n(text.data(), count, buffer.data());
    text.remove_prefix(count);
    return count;
  };
  std::vector<std::string> seen;
  auto rows = JsonRows::open(source, "fuzz", {.targets = {"last"}, .features = 2, .max_line = std::size_t{1} << 16});
  if (!rows) return {rows.error().text()};
  for (;;) {
    const auto has_row = (*rows)->next();
    if (!has_row) {
      seen.push_back(has_row.error().text());
      // Nothing is read behind a line that is too long.
      if (has_row.error().code() == weft::Errc::too_large) return seen;
      continue;
    }
    if (!*has_row) return seen;
    if ((*rows)->kind() == RowKind::sample)
      WEFT_ASSERT((*rows)->fields().size() == (*rows)->columns(), "a table that is not rectangular");
    for (const CsvField& field : (*rows)->fields()) seen.emplace_back(field.text);
    seen.push_back((*rows)->id());
  }
}

}  // namespace

// Rows are rectangular, and the same in one piece and in small ones.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), std::min<std::size_t>(size, 1 << 16));
  WEFT_ASSERT(read_all(text, text.size() + 1) == read_all(text, 7), "other rows in pieces");
  return 0;
}
