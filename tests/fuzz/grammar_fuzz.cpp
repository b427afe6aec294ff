// SPDX-License-Identifier: Apache-2.0

#include "text/grammar.hpp"

#include "core/assert.hpp"

#include <cstdint>
#include <string>
#include <string_view>

// A grammar, or a JSON schema where it begins with {, and after a byte FF a text for it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace weft::text;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view source = all.substr(0, all.find('\xFF'));
  const std::string_view text = source.size() == size ? std::string_view("a[1, \"b\"]") : all.substr(source.size() + 1);
  const auto made = [&]() -> Result<Grammar> {
    if (!source.starts_with('{')) return Grammar::parse(source, "fuzz");
    WEFT_TRY(const Json schema, parse_json(source, "fuzz"));
    auto grammar = Grammar::from_json_schema(schema);
    if (!grammar)
      WEFT_ASSERT(grammar.error().code() == Errc::too_large || grammar.error().text().starts_with("schema"),
                  "rules of a schema that are none");
    return grammar;
  }();
  if (!made) {
    WEFT_ASSERT(!made.error().text().empty(), "a refusal without words");
    return 0;
  }
  GrammarState whole(*made), parts(*made);
  const bool allows = whole.allows(text);
  WEFT_ASSERT(whole.take(text).has_value() == allows, "a text that may come is not taken, or another one is");
  bool goes_on = true;
  for (const char byte : text) goes_on = goes_on && parts.take(std::string_view(&byte, 1)).has_value();
  WEFT_ASSERT(goes_on == allows, "a text byte by byte is not the text");
  if (allows) WEFT_ASSERT(whole.is_complete() == parts.is_complete(), "one text is whole and not");
  return 0;
}
