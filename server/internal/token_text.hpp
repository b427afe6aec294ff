// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/tokenizer.hpp"

#include "core/json.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace weft::server::internal {

/// Bytes that a token adds to a text in whose middle it stands: " cat", or a part of a character; of a special token
/// its name.
std::string token_bytes(const text::Tokenizer& tokenizer, text::TokenId id);
/// True of bytes that are UTF-8.
bool is_text(const std::string& bytes);
/// Bytes as a list of numbers.
Json byte_list(const std::string& bytes);
/// Code points of a text, as clients count characters.
std::size_t characters(std::string_view text) noexcept;

}  // namespace weft::server::internal
