// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <string>
#include <string_view>

namespace weft::models::internal {

/// A tokenizer_config.json. Whole numbers of more than 18 digits become real ones: transformers writes 10^30 for "no
/// bound".
Result<Json> parse_tokenizer_config(std::string_view json, const std::string& source_name = "tokenizer_config.json");

/// Text of a token there: as it is, or the content of an object; else empty.
std::string text_of_token(const Json& json);

}  // namespace weft::models::internal
