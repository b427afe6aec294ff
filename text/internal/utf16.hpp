// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

/// UTF-8 text as ICU takes it.
struct Utf16 {
  /// @pre `text` is UTF-8 of less than 2^31 bytes
  explicit Utf16(std::string_view text);
  std::u16string units;
  /// Of each unit and the end: where its code point begins in the text. Empty for ASCII, where they are the same.
  std::vector<std::uint32_t> offsets;
  std::size_t offset(std::size_t unit) const { return offsets.empty() ? unit : offsets[unit]; }
};
std::string to_utf8(std::u16string_view units);

}  // namespace weft::text
