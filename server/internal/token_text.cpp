// SPDX-License-Identifier: Apache-2.0

#include "server/internal/token_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace weft::server::internal {
namespace {

constexpr std::string_view kNoCharacter = "\xEF\xBF\xBD";

/// "<0x0A>": tokens of single bytes.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

/// Bytes that byte-level vocabularies spell as these characters; nothing where one is none of theirs.
/// @source GPT-2's bytes_to_unicode: printable bytes are themselves, the others 256, 257, ... in order
std::optional<std::string> bytes_of(std::string_view token) {
  static const std::array<int, 512> kBytes = [] {
    std::array<int, 512> bytes{};
    bytes.fill(-1);
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      bytes[static_cast<std::size_t>(is_printable ? byte : next++)] = byte;
    }
    return bytes;
  }();
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const auto lead = static_cast<unsigned char>(token[i]);
    unsigned point = lead;
    if (lead >= 0x80) {
      if ((lead & 0xE0) != 0xC0 || i + 1 >= token.size()) return std::nullopt;
      point = (lead & 0x1Fu) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3Fu);
    }
    if (point >= kBytes.size() || kBytes[point] < 0) return std::nullopt;
    out += static_cast<char>(kBytes[point]);
  }
  return out;
}

}  // namespace

std::string token_bytes(const text::Tokenizer& tokenizer, text::TokenId id) {
  const std::string* const spelled = tokenizer.token(id);
  if (!spelled) return {};
  if (tokenizer.is_special(id)) return *spelled;
  if (const auto byte = byte_of(*spelled)) return std::string(1, *byte);
  // The text of two of them less that of one: decoders treat the beginning of a text in a way of their own.
  const std::array<text::TokenId, 2> twice{id, id};
  const std::string two = tokenizer.decode(twice), one = tokenizer.decode(std::span(twice).first(1));
  if (two.find(kNoCharacter) == std::string::npos && one.find(kNoCharacter) == std::string::npos &&
      two.size() >= one.size() && two.starts_with(one))
    return two.substr(one.size());
  if (auto bytes = bytes_of(*spelled)) return *std::move(bytes);
  return one;
}

bool is_text(const std::string& bytes) { return write_json(Json(bytes)).has_value(); }

Json byte_list(const std::string& bytes) {
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return list;
}

std::size_t characters(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

}  // namespace weft::server::internal
