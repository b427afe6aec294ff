// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/fwd.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace weft::models {

/// Formats of other programs that a model is written in.
enum class ExportFormat { hugging_face, gguf };

/// Size of what was written, and warnings.
struct Exported {
  std::uint64_t tensors = 0, bytes = 0;  // of the weights' file
  std::vector<std::string> notes;        // what the files do not hold
};

/// Writes the files of a model that weft import made, whatever it has learned since: a folder as Hugging Face keeps it,
/// or a GGUF file. Description and tokenizer are those of `described`, the file that weft import wrote, or the model's
/// own. Matrices of float32, float16 and bfloat16 keep their type and every bit; of other types they become
/// the float32 values that compute. Vectors are written in the matrices' type where it holds them, in GGUF as float32.
/// @error unsupported: a file of another origin, or a network whose parts were changed; what cannot be said in the
///        format; storage
Result<Exported> export_model(storage::FileSystem& files, const std::string& entity, ExportFormat format,
                              const std::string& out, const std::string& described = "");

}  // namespace weft::models
