// SPDX-License-Identifier: Apache-2.0

#include "text/internal/byte_letters.hpp"

#include "text/unicode.hpp"

#include <array>
#include <cstdint>

namespace weft::text {
namespace {

struct Tables {
  std::array<char32_t, 256> letters{};
  std::array<std::int16_t, 512> bytes{};
};
constexpr Tables make_tables() {
  Tables tables;
  tables.bytes.fill(-1);
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    tables.letters[byte] = prints ? byte : next++;
    tables.bytes[tables.letters[byte]] = static_cast<std::int16_t>(byte);
  }
  return tables;
}
constexpr Tables kTables = make_tables();

}  // namespace

std::string to_byte_letters(std::string_view bytes) {
  std::string letters;
  letters.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(letters, kTables.letters[static_cast<unsigned char>(byte)]);
  return letters;
}

std::string from_byte_letters(std::string_view letters) {
  std::string bytes;
  bytes.reserve(letters.size());
  for (std::size_t at = 0; at < letters.size();) {
    const char32_t c = next_code_point(letters, at);
    if (c >= kTables.bytes.size() || kTables.bytes[c] < 0) return std::string(letters);
    bytes += static_cast<char>(static_cast<unsigned char>(kTables.bytes[c]));
  }
  return bytes;
}

}  // namespace weft::text
