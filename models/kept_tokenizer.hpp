// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/model_files.hpp"

#include "formats/fwd.hpp"
#include "text/tokenizer.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace weft::models {

/// Tokenizer that weft import kept in an .entity file; nothing: it kept none. @error as Tokenizer's readers
Result<std::optional<text::Tokenizer>> kept_tokenizer(const formats::EntityFile& file);

/// Refuses a tokenizer with ids that a model has no rows for; fewer ids than rows are padding.
/// @error shape_mismatch: naming both and their sizes
Status check_tokenizer_fits(const text::Tokenizer& tokenizer, const std::string& tokenizer_path,
                            const std::string& model_path, std::size_t rows);

/// Reads the files that are kept beside a model's weights as those that generate read them, so that a broken one is
/// told when a model is imported. `folder`: where they are. Notes: a tokenizer that Weft cannot use, or none.
/// @error parse_failed: naming file, line and column; shape_mismatch: as check_tokenizer_fits; out_of_range: a token
///        that ends texts and is none
Status check_kept_files(const ModelFiles& opened, const std::string& folder, std::size_t rows,
                        std::vector<std::string>& notes);

}  // namespace weft::models
