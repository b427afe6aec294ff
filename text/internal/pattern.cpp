// SPDX-License-Identifier: Apache-2.0

#include "text/internal/pattern.hpp"

namespace weft::text {

Result<Pattern> Pattern::read(const JsonValue& value) {
  constexpr std::size_t kMost = std::size_t{64} << 10;
  if (value.is_string()) {
    WEFT_TRY(std::string text, value.string(kMost));
    return Pattern(std::move(text));
  }
  WEFT_TRY(JsonReader reader, value.object());
  if (const auto text = reader.find("String")) {
    WEFT_TRY(std::string literal, text->string(kMost));
    WEFT_CHECK(reader.finish());
    return Pattern(std::move(literal));
  }
  WEFT_TRY(const std::string expression, reader.string("Regex", kMost));
  WEFT_CHECK(reader.finish());
  auto compiled = Expression::compile(expression);
  if (!compiled) return fail(std::move(compiled).error().within(value.path()));
  return Pattern(*std::move(compiled));
}

Status Pattern::each_match(std::string_view text,
                           const std::function<void(std::size_t begin, std::size_t end)>& found) const {
  if (expression_) return expression_->each_match(text, found);
  if (text_.empty()) return {};
  for (std::size_t at = text.find(text_); at != text.npos; at = text.find(text_, at + text_.size()))
    found(at, at + text_.size());
  return {};
}

}  // namespace weft::text
