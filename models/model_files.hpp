// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/family.hpp"

#include "formats/tensor_file.hpp"
#include "storage/fwd.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models {

/// Kept files of a model beside its weights: tokenizer, templates, defaults for generating.
struct KeptFile {
  std::string name;  // "tokenizer.json"; of a GGUF file "tokenizer.gguf", its keys tokenizer.* alone
  std::shared_ptr<const std::string> bytes;
};

/// The files of a model: a folder as Hugging Face keeps it, a GGUF file or the parts of one, or a language model of
/// Loom, whose tensors have Hugging Face's names here.
/// @thread any: immutable once opened
struct ModelFiles {
  std::string path;
  bool is_gguf = false;
  const Family* family = nullptr;
  Json config;  // keys as in config.json; of a GGUF file made from its metadata
  std::shared_ptr<const formats::TensorFile> tensors;
  std::vector<KeptFile> kept;
  std::vector<std::string> warnings;

  /// The name under which a tensor stands in the file; a shared one may stand under another's. Empty: nowhere.
  std::string find(std::string_view name) const;
  /// Names of tensors that stand under other names.
  std::vector<std::pair<std::string, std::string>> aliases;
};

/// True of the names of a folder's files that are kept.
bool is_kept_file(std::string_view name) noexcept;

/// @error as the formats' readers; not_found: no config.json; unknown_name: a family that is not known, with those that
///        are; parse_failed: metadata of another kind
Result<ModelFiles> open_model_files(storage::FileSystem& files, const std::string& path);

/// Those of a folder that are kept. @error storage
Result<std::vector<KeptFile>> read_kept_files(storage::FileSystem& files, const std::string& folder);

}  // namespace weft::models
