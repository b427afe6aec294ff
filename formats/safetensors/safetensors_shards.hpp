// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/joined_tensor_file.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/fwd.hpp"

#include "core/byte_source.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft::formats {

/// The weights of a folder as Hugging Face keeps it.
struct SafetensorsModel {
  std::shared_ptr<const TensorFile> tensors;
  SafetensorsNotes notes;             ///< of a single file, or of the first shard
  std::vector<std::string> warnings;  ///< about what is odd and changes nothing
};

/// `model.safetensors` of a directory or, where there is none, the shards that `model.safetensors.index.json` lists.
/// @error as decode_safetensors; not_found: neither is there, or a tensor of the list is not in its file;
///        parse_failed: an index that is not as documented; corrupt: a file's name that is no plain name ending in
///        ".safetensors", a tensor that the list does not name; duplicate_name; too_large: more than 10,000 files
Result<SafetensorsModel> load_safetensors_folder(storage::FileSystem& files, const std::string& directory);

/// Contents of a folder's files of weights, as transformers makes them.
struct SafetensorsShards {
  std::vector<std::string> names;  ///< "model-00001-of-00003.safetensors", of one "model.safetensors"
  std::vector<ByteSource> sources;
  std::string index;  ///< text of model.safetensors.index.json; of one file empty
};
/// At most `most_bytes` of tensors in a file, in the order given, a larger tensor in a file of its own.
/// @error as safetensors_source; too_large: more than 10,000 files
Result<SafetensorsShards> safetensors_shard_sources(std::vector<Tensor> tensors, const SafetensorsNotes& notes,
                                                  std::uint64_t most_bytes);

}  // namespace weft::formats
