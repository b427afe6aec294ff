// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/fwd.hpp"
#include "formats/tensor_file.hpp"
#include "storage/fwd.hpp"
#include "storage/mapped_file.hpp"

#include "core/byte_source.hpp"
#include "core/dtype.hpp"
#include "core/json.hpp"
#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::formats {

/// Packing of blobs in a file: none, or each that gets smaller by it becomes a zstd frame.
enum class Packing : int { none, zstd };

struct EntityOptions {
  Packing packing = Packing::none;
  /// Header keys that begin with "x-", as EntityFile::extra gives them. Null: none.
  const Json* extra = nullptr;
};

/// The content of an `.entity` v2 file (docs/formats/entity.md), to be streamed: the same input gives the same bytes,
/// everywhere (packed: with the same version of zstd). Tensors, "blobs" in the file, keep their order. A name has 1 to
/// 512 printable ASCII characters, no space, quote or backslash, such as "layers/0,1,0,0/w"; an extent of 0 is allowed.
/// A type that begins with "x-" is someone's own: its bytes, however many, are carried and not looked at.
///
/// Each tensor's bytes are produced twice or more: here, to be hashed for the header, and whenever the content is
/// produced; large ones that are packed are packed again each time. They must stay as they are as long as the source.
/// @error invalid_argument: JSON that no text can hold; shape_mismatch: bytes that do not fit type and shape;
///        duplicate_name, unknown_name, too_large. Producing: internal: a tensor's bytes have changed
Result<ByteSource> entity_source(const Json& network, const Json& meta, std::vector<Tensor> tensors,
                                 const EntityOptions& options = {});
/// The same in memory.
Result<ByteBuffer> encode_entity(const Json& network, const Json& meta, const std::vector<Tensor>& tensors,
                                 const EntityOptions& options = {});

/// Limit of unpacked bytes: a fixed number, and 256 for each byte stored. A reader refuses more before it allocates
/// anything; the writer leaves blobs unpacked that would exceed it.
struct EntityLimits {
  std::size_t free_unpacked = std::size_t{1} << 30;
};

/// An `.entity` v2 file, mapped or in memory, every byte of it checked. Cheap to copy: copies share the bytes.
/// Tensors of a mapped file can fail later: a reader of their bytes calls `intact` before relying on them. Large
/// packed ones are unpacked when asked for.
/// @thread any
class EntityFile final : public TensorFile {
 public:
  const Json& network() const noexcept;
  const Json& meta() const noexcept;
  /// The header's keys that begin with "x-": of someone else, kept by those who copy a file.
  const Json& extra() const noexcept;
  Packing packing() const noexcept;
  const std::vector<Tensor>& tensors() const noexcept override;
  bool contains(std::string_view name) const noexcept override;
  Result<Tensor> describe(std::string_view name) const override;
  Result<Tensor> find(std::string_view name) const override;
  Status read(std::string_view name, std::size_t unit, const ByteSource::Sink& sink) const override;
  void forget(std::string_view name) const noexcept override;
  Status intact() const override;
  /// The header's checksum. The header holds the blobs' digests, so this names the whole content.
  Hash128 hash() const noexcept;
  /// Bytes of the file.
  std::size_t size() const noexcept;

 private:
  struct Content;
  friend Result<EntityFile> decode_entity(storage::MappedFile file, std::string_view source_name,
                                          const EntityLimits& limits);
  explicit EntityFile(std::shared_ptr<Content> content) : content_(std::move(content)) {}
  std::shared_ptr<Content> content_;
};

/// Reads a file's bytes; nothing is believed that was not checked.
/// @error corrupt: a length, offset, checksum or padding is wrong; parse_failed: not an .entity file;
///        unsupported: another version, or flags that must be understood and are not; duplicate_name; unknown_name;
///        too_large; storage: a mapped file that could not be read
Result<EntityFile> decode_entity(storage::MappedFile file, std::string_view source_name = "entity",
                                 const EntityLimits& limits = {});
Result<EntityFile> decode_entity(ByteBuffer bytes, std::string_view source_name = "entity",
                                 const EntityLimits& limits = {});
/// Copies `bytes` first.
Result<EntityFile> decode_entity(ByteSpan bytes, std::string_view source_name = "entity",
                                 const EntityLimits& limits = {});

/// The first bytes of an `.entity` file, of every version.
inline constexpr std::string_view kEntityBegin = "ENTITY";
/// True when the bytes begin as an `.entity` file does, of whatever version: formats/loom reads version 1.
bool is_entity(ByteSpan bytes) noexcept;

/// Maps the file where that can be done.
Result<EntityFile> load_entity(storage::FileSystem& files, const std::string& path);

}  // namespace weft::formats
