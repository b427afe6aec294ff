// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/gguf/gguf_metadata.hpp"
#include "formats/tensor_file.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

namespace weft::models::internal {

/// The description of a model in GGUF files with the keys of config.json.
/// @error not_found, parse_failed, out_of_range: naming the key
Result<Json> gguf_config(const formats::GgufMetadata& metadata, const formats::TensorFile& file);

}  // namespace weft::models::internal
