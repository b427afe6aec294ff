// SPDX-License-Identifier: Apache-2.0

#include "core/assert.hpp"
#include "core/json_reader.hpp"

// A document that is read is written, read again and is the same; the walk over it never crashes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = parse_json(text, "fuzz");
  if (!value) {
    WEFT_ASSERT(value.error().text().size() < 4096, "an error text that grows with the input");
    // Error texts go into JSON events, so they must be valid UTF-8.
    WEFT_ASSERT(write_json(value.error().text()).has_value(), "an error text that is not UTF-8");
    return 0;
  }
  const auto written = write_json(*value);
  WEFT_ASSERT(written.has_value(), "what was read cannot be written: " + written.error().text());
  const auto again = parse_json(*written, "again");
  WEFT_ASSERT(again.has_value(), "what was written cannot be read: " + again.error().text());
  WEFT_ASSERT(*again == *value && *write_json(*again) == *written, "a value changed by writing and reading");

  auto reader = JsonReader::open(*value);
  if (!reader) return 0;
  (void)reader->u32_or("width", 1, 1, 100);
  (void)reader->f32_or("rate", 0.5f, 0.0f, 1.0f);
  (void)reader->string_or("name", "none", 16);
  (void)reader->boolean_or("bias", true);
  (void)reader->u64("seed");
  if (const auto array = reader->array("layers", 1, 8)) {
    for (const JsonValue& element : *array) {
      (void)element.f32();
      if (auto layer = element.object()) (void)layer->finish();
    }
  }
  const auto finished = reader->finish();
  if (!finished) WEFT_ASSERT(write_json(finished.error().text()).has_value(), "an error text that is not UTF-8");
  return 0;
}
