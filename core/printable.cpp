// SPDX-License-Identifier: Apache-2.0

#include "core/printable.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

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

/// The character of a well-formed sequence.
std::uint32_t decoded(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(sequence[i])); };
  if (sequence.size() == 1) return byte(0);
  std::uint32_t out = byte(0) & (0xFFu >> (sequence.size() + 1));
  for (std::size_t i = 1; i < sequence.size(); ++i) out = out << 6 | (byte(i) & 0x3F);
  return out;
}

bool is_dangerous(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x061C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

void append_hex(std::string& out, std::uint32_t value, int digits) {
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) out += kDigits[value >> shift & 15];
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_size) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_size) return out + "...";
    const std::size_t length = sequence_length(text);
    const std::uint32_t c = length ? decoded(text.substr(0, length)) : static_cast<unsigned char>(text[0]);
    if (length <= 1 && (length == 0 || is_dangerous(c))) {
      out += "\\x";
      append_hex(out, c, 2);
    } else if (is_dangerous(c)) {
      out += "\\u{";
      append_hex(out, c, c > 0xFFF ? 4 : c > 0xFF ? 3 : 2);
      out += '}';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string escaped_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    // Nearly all of it is ASCII.
    const auto other = std::find_if(json.begin(), json.end(), [](char each) { return each < 0x20 || each == 0x7F; });
    out.append(json.begin(), other);
    json.remove_prefix(static_cast<std::size_t>(other - json.begin()));
    if (json.empty()) break;
    const std::size_t length = std::max<std::size_t>(sequence_length(json), 1);
    const std::uint32_t c = decoded(json.substr(0, length));
    if (c >= 0x20 && is_dangerous(c)) {
      out += "\\u";
      append_hex(out, c, 4);
    } else {
      out += json.substr(0, length);
    }
    json.remove_prefix(length);
  }
  return out;
}

std::string escaped(std::string_view text) { return printable(text, text.npos); }

std::string in_quotes(std::string_view text) {
  // Not by operator+: g++ 12 warns of an overlap that cannot be (GCC bug 105329).
  std::string out(1, '"');
  out.append(printable(text)).push_back('"');
  return out;
}

}  // namespace weft
