// SPDX-License-Identifier: Apache-2.0

#include "core/base64.hpp"

#include <cstddef>
#include <cstdint>

namespace weft {
namespace {

constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t of) {
      return of < bytes.size() ? static_cast<unsigned>(static_cast<unsigned char>(bytes[of])) : 0u;
    };
    const unsigned all = at(i) << 16 | at(i + 1) << 8 | at(i + 2);
    out += kBase64Digits[all >> 18];
    out += kBase64Digits[all >> 12 & 63];
    out += i + 1 < bytes.size() ? kBase64Digits[all >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? kBase64Digits[all & 63] : '=';
  }
  return out;
}

Result<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0)
    return fail(Errc::parse_failed, "base64 of " + std::to_string(text.size()) + " characters, no multiple of 4");
  std::string_view digits = text;
  for (int i = 0; i < 2 && digits.ends_with('='); ++i) digits.remove_suffix(1);
  std::uint8_t values[256] = {};  // 1 more than a digit's; 0: it is none
  for (std::size_t i = 0; i < kBase64Digits.size(); ++i)
    values[static_cast<unsigned char>(kBase64Digits[i])] = static_cast<std::uint8_t>(i + 1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  unsigned bits = 0, held = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const unsigned value = values[static_cast<unsigned char>(digits[i])];
    if (value == 0) return fail(Errc::parse_failed, "base64: no digit at " + std::to_string(i));
    held = (held << 6 | (value - 1)) & 0xffff;
    if ((bits += 6) < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(held >> bits & 255);
  }
  if ((held & ((1u << bits) - 1)) != 0) return fail(Errc::parse_failed, "base64: bits behind the last byte");
  return bytes;
}

}  // namespace weft
