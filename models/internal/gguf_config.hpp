// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoder.hpp"

#include "formats/gguf/gguf_metadata.hpp"
#include "formats/tensor_file.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <vector>

namespace weft::models::internal {

/// The description of a model in GGUF files with the keys of config.json.
/// @error not_found, parse_failed, out_of_range: naming the key
Result<Json> gguf_config(const formats::GgufMetadata& metadata, const formats::TensorFile& file);

/// The decoder that a reader will make of a GGUF file's keys and tensors, before it is written. @error as gguf_config;
/// unsupported
Result<Decoder> described_by(const formats::GgufMetadata& metadata, std::vector<formats::Tensor> tensors);

}  // namespace weft::models::internal
