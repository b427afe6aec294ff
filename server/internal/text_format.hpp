// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/grammar.hpp"

#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <optional>

namespace weft::server::internal {

/// The format that a text follows: OpenAI's "response_format" (text, json_object, json_schema), llama.cpp's "grammar"
/// (GBNF) and "json_schema". None: any text.
/// @error what a client's schema or grammar lacks, beginning with its key; invalid_argument: several of them
Result<std::optional<text::Grammar>> read_format(JsonReader& body);

}  // namespace weft::server::internal
