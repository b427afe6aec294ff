// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"

#include <string_view>

namespace weft::cli {

/// Prints an object as one line on stdout, at once, so that who reads along is not kept waiting. Text that is not UTF-8
/// (a file's name may be anything) is shown with replacement characters, and what a terminal obeys as \uXXXX.
/// @thread any
void print_json(const Json& object);
/// The same of a long line in parts, none of which ends within a character: the first ones, and the last one.
void print_json_part(std::string_view text);
void end_json_line(std::string_view text);
/// True when a line could not be printed because the reader has closed the pipe (EPIPE, with SIGPIPE ignored).
bool stdout_is_broken() noexcept;

/// A copy whose texts are safe to print as they are (core/text.hpp).
Json escaped_texts(const Json& value);

}  // namespace weft::cli
