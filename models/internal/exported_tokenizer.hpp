// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/entity/entity.hpp"
#include "formats/fwd.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace weft::models::internal {

/// Adds the tokenizer that a file keeps, and its chat template, as keys of GGUF: its own, or those made of a
/// tokenizer.json (text::add_gguf_tokenizer). Where there is none, or none can be made, the model has no vocabulary and
/// a note says why. `config`: of the model, whose ids name the tokens around a text where nothing else does.
Status add_tokenizer_keys(const formats::EntityFile& file, const Json& config, std::size_t vocabulary,
                          formats::GgufMetadata& to, std::vector<std::string>& notes);

/// Names and texts of the tokenizer's files of Hugging Face: those that are kept, or those made of a GGUF file's keys.
Result<std::vector<std::pair<std::string, std::string>>> tokenizer_files(const formats::EntityFile& file,
                                                                         std::vector<std::string>& notes);

/// Keys bos_token_id, eos_token_id and pad_token_id, null where there is none, of a file that has a GGUF file's
/// tokenizer: without them transformers would take their family's. @error out_of_range: a key that is no token
Result<Json> token_ids(const formats::EntityFile& file);

}  // namespace weft::models::internal
