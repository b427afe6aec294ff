// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/fwd.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models {

/// Formats of other programs that a model is written in.
enum class ExportFormat { hugging_face, gguf };

/// Size of what was written, and warnings.
struct Exported {
  std::uint64_t tensors = 0, bytes = 0;  // of the weights' files
  std::vector<std::string> files;        // that have the weights, in order
  std::vector<std::string> notes;        // what the files do not hold
};

/// Options of `export_model`.
struct ExportOptions {
  std::string described = "";  // the file that weft import wrote, where the model's own has no description
  /// Type of all matrices, one of export_types(); empty: as they are.
  std::string type = "";
  /// Bytes of tensors in a file, at most, save where one tensor has more; 0: one file has all. Files of the weights
  /// are then named PREFIX-00001-of-00003 in both formats, of a PATH of GGUF without its ending, of a folder "model".
  std::uint64_t shard_bytes = 0;
  bool is_forced = false;        // files at the place that are none of a model are replaced or removed too
  std::uint64_t max_memory = 0;  // bytes that the model, and writing it, may take by estimate, each; 0: no bound
};
/// "float32", "float16", "bfloat16"; of GGUF also the blocks that formats::quantize makes.
std::vector<std::string_view> export_types(ExportFormat format);

/// Writes the files of a model that weft import made, whatever it has learned since: a folder as Hugging Face keeps it,
/// or a GGUF file. Description and tokenizer are those of `options.described`, or the model's own. Matrices of float32,
/// float16 and bfloat16 keep their type and every bit; in GGUF those whose codes and scales blocks hold keep them
/// (find_block_writer); others become the float32 values that compute. BitNet's packed matrices are packed again, and
/// so are ternary ones that were quantized when they were imported (quantization_mode online). Rows that are no whole
/// blocks of `options.type` become q8_0 or float32, and a note says so. Vectors are written in the matrices' type where
/// it holds them, in GGUF as float32.
/// Of what is at the place a model is replaced, and a note says so; see check_replaced_file.
/// @error unsupported: a file of another origin, or a network whose parts were changed; what cannot be said in the
///        format, so that what is read there would be another model; unknown_name: a type; not_finite: a value past the
///        type's largest; too_large: what does not fit into memory; storage, also: a file at the place that is none of
///        a model
Result<Exported> export_model(storage::FileSystem& files, const std::string& entity, ExportFormat format,
                              const std::string& out, const ExportOptions& options = {});

}  // namespace weft::models
