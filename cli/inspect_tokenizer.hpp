// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <string>

namespace weft::cli {

/// True for a tokenizer.json, by whatever name: an object with a vocabulary or added tokens.
bool is_tokenizer_file(const std::string& path);

/// Prints what a tokenizer.json is: model, size, steps, added tokens, and the chat template of the files beside it. A
/// step that is not known is a warning.
/// @error parse_failed: no JSON, or no model in it; storage
Status inspect_tokenizer(const std::string& path, bool json);

}  // namespace weft::cli
