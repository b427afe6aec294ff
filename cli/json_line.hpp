// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"

namespace weft::cli {

/// Prints an object as one line on stdout, at once, so that who reads along is not kept waiting. Text that is not UTF-8
/// (a file's name may be anything) is shown with replacement characters, and what a terminal obeys as \uXXXX.
/// @thread any
void print_json(const Json& object);
/// True when a line could not be printed because the reader has closed the pipe (EPIPE, with SIGPIPE ignored).
bool stdout_is_broken() noexcept;

/// A copy whose texts are safe to print as they are (core/text.hpp).
Json escaped_texts(const Json& value);

}  // namespace weft::cli
