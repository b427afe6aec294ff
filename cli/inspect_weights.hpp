// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <string>

namespace weft::cli {

/// True for what others keep models in: a GGUF, ONNX or safetensors file, or a folder with one or with a config.json.
bool is_foreign_model(const std::string& path);

/// Prints what such a file or folder holds: family, metadata, types, tensors. No weight is read.
/// @error as the formats' readers, with the file's name in front
Status inspect_foreign_model(const std::string& path, bool json);

}  // namespace weft::cli
