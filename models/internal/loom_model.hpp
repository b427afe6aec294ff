// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/model_files.hpp"

#include "formats/loom/loom_entity.hpp"

#include "core/result.hpp"

#include <string>

namespace weft::models::internal {

/// The language model in a file of Loom as the files of one of Hugging Face: a description with the keys of
/// config.json, and tensors by their names there (docs/formats/loom_entity.md, "Language models"). The family is the
/// one whose arithmetic it has: llama, qwen2 with biases of queries, keys and values, qwen3 with norms of queries and
/// keys, bitnet with ternary matrices.
/// @error unsupported: no language model; corrupt: all that is missing, does not fit or belongs to no part, at once
Result<ModelFiles> loom_model(const formats::LoomEntityFile& file, const std::string& path);

}  // namespace weft::models::internal
