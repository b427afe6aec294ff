// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoder.hpp"
#include "models/model_files.hpp"

#include "mesh/fwd.hpp"
#include "mesh/network/graph.hpp"

#include "storage/fwd.hpp"

#include "core/byte_source.hpp"
#include "core/encoding.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::models {

/// Options of `import_model`.
struct ImportOptions {
  /// Type of all matrices; none: as they are in the files where all of a layer's have one type that Weft has (float32,
  /// float16, bfloat16, blocks of GGUF by find_carrier, packed ternary), else float32, which holds every value. Layers
  /// with an adapter become float32.
  std::optional<Encoding> encoding = std::nullopt;
  bool quantization_aware = false;  // "qat" of layers whose matrices are not float32
  std::size_t tokens = 0;           // that the network takes at once; 0: 64, or as many positions as the model has
  std::string tokenizer = "";    // folder whose tokenizer and templates are kept with it; empty: those beside the model
  std::string adapter = "";      // folder of PEFT's adapters that are added to the matrices; empty: none
  std::uint64_t max_memory = 0;  // bytes that importing may take by estimate; 0: no bound but the machine's
  bool allow_nonfinite = false;  // weights that are not finite become so (NonfiniteWeights); else they are refused
};

/// A model as a network and its weights, which are read while `content` is produced.
struct ImportedModel {
  const Family* family = nullptr;
  Decoder decoder;
  std::shared_ptr<const mesh::Graph> graph;
  ByteSource content;  // of an .entity file
  std::uint64_t parameters = 0;
  std::uint64_t largest_tensor = 0;  // bytes as float32
  std::vector<std::string> notes;
};

/// A model's folder as Hugging Face keeps it, or a GGUF file, as a network. One model gives the same from both.
/// @error as open_model_files and check_kept_files; unsupported, corrupt: all that the description or the tensors have
/// that cannot be
///        imported, at once. Producing: not_finite: a weight; storage
Result<ImportedModel> import_model(storage::FileSystem& files, const std::string& path,
                                   const ImportOptions& options = {});

/// Makes layers whose matrices are not float32 learn through their stored weights ("qat").
/// @error invalid_argument: all are float32
Status train_stored(std::vector<mesh::LayerSpec>& layers);

/// Decoder that the description of an open model stands for. @error unsupported: all that it cannot be, at once
Result<Decoder> describe_decoder(const ModelFiles& opened);

}  // namespace weft::models
