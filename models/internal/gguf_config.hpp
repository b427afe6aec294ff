// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/gguf/gguf.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

namespace weft::models::internal {

/// The description of a model in a GGUF file with the keys of config.json.
/// @error not_found, parse_failed, out_of_range: naming the key
Result<Json> gguf_config(const formats::GgufFile& file);

}  // namespace weft::models::internal
