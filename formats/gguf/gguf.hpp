// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/gguf/gguf_metadata.hpp"
#include "formats/mapped_tensor_file.hpp"
#include "storage/fwd.hpp"

#include "core/byte_source.hpp"
#include "core/result.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::formats {

/// A `.gguf` file (docs/formats/gguf.md), version 2 or 3, its header checked. Shapes are outermost first, the reverse
/// of the file's. Types of the format that Weft has no word for keep the format's name ("q4_K"): see gguf_blocks.hpp.
/// The format has no checksums: damage inside tensors is not noticed.
/// @thread any
class GgufFile final : public MappedTensorFile {
 public:
  const GgufMetadata& metadata() const noexcept { return *metadata_; }

 private:
  friend Result<GgufFile> decode_gguf(storage::MappedFile file, std::string_view source_name);
  GgufFile(storage::MappedFile file, std::vector<Tensor> tensors, GgufMetadata metadata)
      : MappedTensorFile(std::move(file), std::move(tensors)),
        metadata_(std::make_shared<const GgufMetadata>(std::move(metadata))) {}
  std::shared_ptr<const GgufMetadata> metadata_;
};

/// @error parse_failed: not such a file; unsupported: another version, a big-endian file, a type that was removed from
///        the format or whose values are in tables that Weft has not; corrupt: cut short, counts, lengths or offsets
///        that leave the file or are not as the format demands; duplicate_name; too_large; storage
Result<GgufFile> decode_gguf(storage::MappedFile file, std::string_view source_name = "gguf");
/// True when the bytes begin as a GGUF file does, of whatever version.
bool is_gguf(ByteSpan bytes) noexcept;
/// Maps the file where that can be done.
Result<GgufFile> load_gguf(storage::FileSystem& files, const std::string& path);

/// Content of a `.gguf` file, version 3, to be streamed: metadata and tensors in the order given. Types: float32,
/// float16, bfloat16, float64, int8, int16, int32, int64, and the blocks of gguf_blocks.hpp save q8_K. Tensors are
/// aligned to metadata "general.alignment", or 32.
/// @error invalid_argument: a name (1 to 63 bytes) or value that the file cannot hold; unknown_name: a type;
///        shape_mismatch: bytes or rows that do not fit the type, more than 4 dimensions; duplicate_name; too_large.
///        Producing: shape_mismatch: another number of bytes
Result<ByteSource> gguf_source(GgufMetadata metadata, std::vector<Tensor> tensors);

}  // namespace weft::formats
