// SPDX-License-Identifier: Apache-2.0

#include "models/text_record.hpp"

#include "core/assert.hpp"

#include <cstdint>
#include <string_view>

// A line of a request log is refused with its name in front, or reads back as it was written.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace weft::models;
  const auto record = read_text_record({reinterpret_cast<const char*>(data), size}, "fuzz:1");
  if (!record) {
    WEFT_ASSERT(record.error().text().starts_with("fuzz:1"), "a refusal that does not name the line");
    return 0;
  }
  const std::string line = to_line(*record);
  const auto again = read_text_record(std::string_view(line).substr(0, line.size() - 1), "fuzz:1");
  WEFT_ASSERT(again.has_value() && to_line(*again) == line, "a record that is not read back");
  return 0;
}
