// SPDX-License-Identifier: Apache-2.0

#include "text/internal/utf16.hpp"

#include "text/unicode.hpp"

#include <algorithm>

namespace weft::text {

Utf16::Utf16(std::string_view text) {
  const bool is_ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
  if (is_ascii) {
    units.assign(text.begin(), text.end());
    return;
  }
  units.reserve(text.size());
  offsets.reserve(text.size() + 1);
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = static_cast<std::uint32_t>(at);
    const char32_t c = next_code_point(text, at);
    if (c < 0x10000) {
      units += static_cast<char16_t>(c);
    } else {
      units += static_cast<char16_t>(0xD800 + ((c - 0x10000) >> 10));
      units += static_cast<char16_t>(0xDC00 + ((c - 0x10000) & 0x3FF));
      offsets.push_back(begin);
    }
    offsets.push_back(begin);
  }
  offsets.push_back(static_cast<std::uint32_t>(text.size()));
}

std::string to_utf8(std::u16string_view units) {
  std::string text;
  text.reserve(units.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    char32_t c = units[i];
    if (c >= 0xD800 && c < 0xDC00 && i + 1 < units.size()) c = 0x10000 + ((c - 0xD800) << 10) + (units[++i] - 0xDC00u);
    append_utf8(text, c);
  }
  return text;
}

}  // namespace weft::text
