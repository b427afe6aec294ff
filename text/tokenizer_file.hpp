// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/fwd.hpp"
#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <string>

namespace weft::text {

/// The tokenizer of a model's folder (its tokenizer.json), of a tokenizer.json by any name, or of a GGUF file; which
/// one, the path and the file's first bytes say.
/// @error as Tokenizer::from_json, Tokenizer::from_gguf and decode_gguf, with the file's name in front; not_found: a
///        folder without the file; storage
Result<Tokenizer> load_tokenizer(storage::FileSystem& files, const std::string& path);

}  // namespace weft::text
