// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/mapped_tensor_file.hpp"
#include "storage/fwd.hpp"

#include "core/byte_source.hpp"
#include "core/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::formats {

/// Notes of a safetensors file, its `__metadata__`: texts by name.
using SafetensorsNotes = std::map<std::string, std::string, std::less<>>;

/// A `.safetensors` file (docs/formats/safetensors.md), its header checked. Types of the format that Weft has no word
/// for keep the format's name ("BOOL", "C64"). The format has no checksums: damage inside tensors is not noticed.
/// @thread any
class SafetensorsFile final : public MappedTensorFile {
 public:
  /// Without what Weft's own writer keeps there for itself.
  const SafetensorsNotes& notes() const noexcept { return *notes_; }

 private:
  friend Result<SafetensorsFile> decode_safetensors(storage::MappedFile file, std::string_view source_name);
  SafetensorsFile(storage::MappedFile file, std::vector<Tensor> tensors, SafetensorsNotes notes)
      : MappedTensorFile(std::move(file), std::move(tensors)),
        notes_(std::make_shared<const SafetensorsNotes>(std::move(notes))) {}
  std::shared_ptr<const SafetensorsNotes> notes_;
};

/// Texts of errors begin with the name that the format's reference reader gives that fault ("InvalidHeaderLength").
/// @error parse_failed: not such a file, or a header that is not as documented; corrupt: cut short, tensors that
/// overlap
///        or leave a gap, bytes that do not fit type and shape; duplicate_name; unknown_name: a type or key; too_large;
///        storage: a page that could not be read
Result<SafetensorsFile> decode_safetensors(storage::MappedFile file, std::string_view source_name = "safetensors");
/// Maps the file where that can be done.
Result<SafetensorsFile> load_safetensors(storage::FileSystem& files, const std::string& path);

/// Content of a `.safetensors` file, to be streamed, in the order and spelling of the reference writer, so that a file
/// of that writer is written as it was. Tensors whose type the format has no word for (int4, ternary, ...) become bytes
/// (U8), and the note "weft" says what they are.
/// @error invalid_argument: a name or note that the file cannot hold; unknown_name: a type; shape_mismatch: bytes that
///        do not fit type and shape; duplicate_name; too_large. Producing: shape_mismatch: another number of bytes
Result<ByteSource> safetensors_source(std::vector<Tensor> tensors, const SafetensorsNotes& notes = {});
/// Streams it, durably.
Status save_safetensors(storage::FileSystem& files, const std::string& path, std::vector<Tensor> tensors,
                        const SafetensorsNotes& notes = {});

}  // namespace weft::formats
