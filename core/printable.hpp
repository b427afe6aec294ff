// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

namespace weft {

/// `text` made safe for a terminal, a log line or an error message: well-formed UTF-8 is kept, except characters that
/// a terminal obeys or that change how the rest reads (C0 with line breaks and tabs, DEL, C1, line and paragraph
/// separators, directional marks, embeddings, overrides and isolates, the byte order mark). These become "\u{9b}", one
/// byte "\x1b"; bytes that are not UTF-8 become "\xff". Longer than `max_size` bytes: cut, with "..." at the end.
/// @thread any
std::string printable(std::string_view text, std::size_t max_size = 80);
/// The same, however long: for whole lines, and names that must not be cut.
std::string escaped(std::string_view text);
/// `printable` between double quotes.
std::string in_quotes(std::string_view text);
/// A line of JSON with the same characters as \uXXXX, so that it may be shown on a terminal; reads back equal.
/// @pre `json` is UTF-8, its C0 characters escaped as JSON demands
std::string escaped_json(std::string_view json);

}  // namespace weft
