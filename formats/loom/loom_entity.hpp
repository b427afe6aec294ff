// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/fwd.hpp"
#include "storage/fwd.hpp"
#include "storage/mapped_file.hpp"

#include "core/bytes.hpp"
#include "core/dtype.hpp"
#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::formats {

/// A run of weights in a file of Loom (docs/formats/loom_entity.md): all of one layer's, one after the
/// other.
struct LoomBlob {
  /// numbers of `dtype`; blocks of 32 with a scale each; ternary rows (loom_blocks.hpp)
  enum class Form { numbers, blocks, ternary };
  std::string path;  ///< "layers.3"
  Form form = Form::numbers;
  Dtype dtype = Dtype::float32;
  float scale = 1.0f;     ///< what codes of types with scales are multiplied by
  bool is_native = true;  ///< false: the bytes are float32 values, and `dtype` is what they were to become
  ByteSpan bytes;
};

/// True when the bytes begin as a file of Loom does: "ENTITY", two zeros and version 1.
bool is_loom_entity(ByteSpan bytes) noexcept;

/// A file of Loom, its header checked, its weights still packed. Cheap to copy: copies share the bytes.
/// The format has no checksums: damage to weights that leaves every number finite is not noticed.
/// @thread any: immutable
class LoomEntityFile {
 public:
  /// The header's `network`: still to be understood (mesh/loom/loom_network.hpp).
  const Json& network() const noexcept;
  /// The header's `transformer`, which a language model has; null otherwise (models/internal/loom_model.hpp).
  const Json& transformer() const noexcept;
  /// In file order.
  const std::vector<LoomBlob>& blobs() const noexcept;
  /// Null when there is none.
  const LoomBlob* find(std::string_view path) const noexcept;
  std::size_t size() const noexcept;
  /// @error storage: a page could not be read and was taken as zeros (MappedFile)
  Status intact() const;

 private:
  struct Content;
  friend Result<LoomEntityFile> decode_loom_entity(storage::MappedFile file, std::string_view source_name);
  explicit LoomEntityFile(std::shared_ptr<const Content> content) : content_(std::move(content)) {}
  std::shared_ptr<const Content> content_;
};

/// @error parse_failed: not such a file, or a header that is not as documented; unsupported: another version, flags;
///        corrupt: cut short, blobs that overlap, leave a gap or leave the file; duplicate_name; unknown_name: a key or
///        type that is not known; too_large; storage
Result<LoomEntityFile> decode_loom_entity(storage::MappedFile file, std::string_view source_name = "entity");

/// The `count` weights of a blob as Loom computes with them: its tables, times the scale.
/// @error corrupt: another number of bytes, bits after the last weight, a weight that is not finite (naming it)
Result<std::vector<float>> decode_weights_v1(const LoomBlob& blob, std::size_t count);
/// Those from `first` on, of a blob that holds `count`. Of none it compares sizes alone.
Status decode_weights_v1(const LoomBlob& blob, std::size_t count, std::size_t first, std::span<float> values);

}  // namespace weft::formats
