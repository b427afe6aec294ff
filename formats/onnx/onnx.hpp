// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/onnx/onnx_model.hpp"
#include "formats/tensor_file.hpp"
#include "storage/fwd.hpp"
#include "storage/mapped_file.hpp"

#include "core/byte_source.hpp"
#include "core/result.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace weft::formats {

/// An `.onnx` file (docs/formats/onnx.md), its structure checked: what it computes, and its weights as a `TensorFile`:
/// the initializers of the graph, and the constants of all graphs, by the name of what they give. What operators mean
/// is not looked at. Cheap to copy: copies share the bytes. The format has no checksums: damage inside tensors is not
/// noticed.
/// @thread any: immutable
class OnnxFile {
 public:
  const OnnxModel& model() const noexcept { return *model_; }
  const TensorFile& tensors() const noexcept { return *tensors_; }
  /// @error storage: a page of any of its files could not be read
  Status intact() const { return tensors_->intact(); }

 private:
  friend class OnnxDecoder;
  OnnxFile(std::shared_ptr<const OnnxModel> model, std::shared_ptr<const TensorFile> tensors)
      : model_(std::move(model)), tensors_(std::move(tensors)) {}
  std::shared_ptr<const OnnxModel> model_;
  std::shared_ptr<const TensorFile> tensors_;
};

/// Finds a file of external data by its place, a relative path.
using OpenExternal = std::function<Result<storage::MappedFile>(const std::string& location)>;

/// @error parse_failed: no such messages; corrupt: counts, lengths, shapes or names that do not fit together, or leave
///        the file; unsupported: segments, sparse tensors, functions, external data outside the graph's initializers or
///        without `open_external`; duplicate_name; too_large: more than 2^31 - 1 bytes, 10^6 nodes, 8 graphs inside one
///        another, or names of 64 KiB; storage; as `open_external`
Result<OnnxFile> decode_onnx(storage::MappedFile file, std::string_view source_name = "onnx",
                             const OpenExternal& open_external = {});
/// Maps the file and those of its external data, which lie in its folder or below; their paths are added to `external`.
Result<OnnxFile> load_onnx(storage::FileSystem& files, const std::string& path,
                           std::vector<std::string>* external = nullptr);
/// True when the bytes may begin an ONNX file: a field of ModelProto that its writers begin with.
bool is_onnx(ByteSpan bytes) noexcept;

/// Content of an `.onnx` file, to be streamed: all tensors inside it. Fields in ascending order, so one model has one
/// file.
/// @error unknown_name: a type; shape_mismatch: bytes that do not fit the shape; too_large: more than 2^31 - 1 bytes.
///        Producing: shape_mismatch: another number of bytes
Result<ByteSource> onnx_source(OnnxModel model);

/// Content of an `.onnx` file and of the one beside it that has its large tensors.
struct OnnxSources {
  ByteSource graph;
  std::optional<ByteSource> data = std::nullopt;  // none: the graph has all tensors
};
/// The same, where more than 2^31 - 1 bytes, or any number if `is_external`, become two files: the second one has the
/// tensors of 1024 bytes and more, each at a multiple of 4096. The graph names it by `location`, a path relative to its
/// own folder.
/// @error as onnx_source; corrupt: a place that no reader would follow (storage::map_contained)
Result<OnnxSources> onnx_sources(OnnxModel model, const std::string& location, bool is_external);

}  // namespace weft::formats
