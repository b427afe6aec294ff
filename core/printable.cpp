// SPDX-License-Identifier: Apache-2.0

#include "core/printable.hpp"

#include <cstddef>

namespace weft {
namespace {

/// Length of the well-formed UTF-8 sequence that begins `text`, or 0 (Unicode 15, table 3-7).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first <= 0xDF ? 2 : first >= 0xE0 && first <= 0xEF ? 3 : 4;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  // The second byte's range narrows where a sequence would be overlong, a surrogate, or past U+10FFFF.
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  return length;
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_size) return out + "...";
    const auto first = static_cast<unsigned char>(text[0]);
    std::size_t length = sequence_length(text);
    if (length == 0 || first < 0x20 || first == 0x7F) {
      out += {'\\', 'x', kDigits[first >> 4], kDigits[first & 15]};
      length = 1;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  // Not by operator+: g++ 12 warns of an overlap that cannot be (GCC bug 105329).
  std::string out(1, '"');
  out.append(printable(text)).push_back('"');
  return out;
}

}  // namespace weft
