// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text::jinja {

enum class TokenKind : std::uint8_t {
  data,
  output_begin,
  output_end,
  tag_begin,
  tag_end,
  name,
  text,
  integer,
  real,
  sign,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::size_t at = 0;
  std::string text{};  // as it is spelled; of a text what it stands for
  std::int64_t integer = 0;
  double real = 0;
};

/// Line ends as \n, and the last one gone, as Jinja reads sources.
std::string with_plain_line_ends(std::string_view source);
/// A failure at a place of a source: "chat template:line:column: text".
Failure fail_at(std::string_view source, std::size_t at, Errc code, const std::string& text);
/// Text and tags of a source, with trim_blocks and lstrip_blocks. The last token is `end`.
/// @error parse_failed
Result<std::vector<Token>> read_tokens(std::string_view source);
/// White space as Python's str.isspace has it.
bool is_space(char32_t c) noexcept;

}  // namespace weft::text::jinja
