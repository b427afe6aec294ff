// SPDX-License-Identifier: Apache-2.0

#include "text/tokenizer.hpp"
#include "text/unicode.hpp"

#include "core/assert.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

// A tokenizer.json, and after a byte FF, which no UTF-8 has, a text for it: what is read encodes and decodes anything.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace weft::text;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = all.find('\xFF');
  const auto tokenizer = Tokenizer::from_json(all.substr(0, end), "fuzz");
  if (!tokenizer) {
    WEFT_ASSERT(!tokenizer.error().text().empty(), "a refusal without words");
    return 0;
  }
  const std::string_view text = end == all.npos ? std::string_view("a b\n") : all.substr(end + 1);
  for (const bool parses : {true, false}) {
    const auto ids = tokenizer->encode(text, {.parse_special = parses});
    if (!ids) continue;  // an expression that takes too long
    for (const bool skips : {true, false}) {
      const std::string decoded = tokenizer->decode(*ids, skips);
      WEFT_ASSERT(valid_prefix(decoded) == decoded.size(), "decoded text is not UTF-8");
    }
    WEFT_ASSERT(*ids == *tokenizer->encode(text, {.parse_special = parses}), "one text has two encodings");
  }
  const std::vector<TokenId> odd{0, 1, UINT32_MAX, kMaxTokenId, static_cast<TokenId>(tokenizer->size())};
  (void)tokenizer->decode(odd);
  return 0;
}
