// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/gguf/gguf.hpp"
#include "storage/fwd.hpp"

#include "core/byte_source.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::formats {

/// Name of one part of a split GGUF file, as llama.cpp's gguf-split gives it: PREFIX-00002-of-00003.gguf.
struct GgufPartName {
  std::string prefix;
  std::uint32_t number = 0, count = 0;  ///< parts count from 1

  /// The name of another part. @pre number is 1 to count
  std::string path(std::uint32_t of_number) const;
};
/// Nothing where the file's name is not of that form, or its number is not one of the count.
std::optional<GgufPartName> gguf_part_name(std::string_view path);

/// Tensors and metadata of a model, whether one file has them or several.
struct GgufModel {
  GgufFile first;  ///< its metadata is the model's
  std::shared_ptr<const TensorFile> tensors;
  std::vector<std::string> files;  ///< paths, in order

  const GgufMetadata& metadata() const noexcept { return first.metadata(); }
};

/// A GGUF file or, where its key `split.count` is above 1, all parts, whichever of them `path` names. All are mapped:
/// memory is pages that are being read. Metadata are in the first part; of the others only `split.*` and
/// `general.alignment`, and what the first has with the same value.
/// @error as load_gguf of one file; else all that is wrong at once, each naming its file and both values.
///        not_found: parts are not there; corrupt: a name that does not fit its keys, parts whose keys differ, tensors
///        in two parts, or another number of tensors than `split.tensors.count`
Result<GgufModel> load_gguf_model(storage::FileSystem& files, const std::string& path);

/// Contents of the parts of a GGUF file, as gguf-split makes them: at most `most_bytes` of tensors each, a larger
/// tensor in a part of its own, metadata in the first. One that is not split, where all of it fits.
/// @error as gguf_source; too_large: more than 65,535 parts
Result<std::vector<ByteSource>> gguf_part_sources(GgufMetadata metadata, std::vector<Tensor> tensors,
                                                  std::uint64_t most_bytes);

}  // namespace weft::formats
