// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/fwd.hpp"
#include "storage/fwd.hpp"
#include "storage/mapped_file.hpp"

#include "core/bytes.hpp"
#include "core/dtype.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"
#include "core/state_hash.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::formats {

/// A named tensor in a file. `type` is a dtype's name (core/dtypes.def; the packed codes of that type), or "u32", "u64"
/// (plain counts), or "bytes". An extent of 0 is allowed: such a blob has no bytes. A type that begins with "x-" is
/// someone's own: its bytes, however many, are carried and not looked at.
struct Blob {
  std::string name;  ///< 1 to 512 printable ASCII characters, no space, quote or backslash; such as "layers/0,1,0,0/w"
  std::string type;
  Shape shape;
  ByteSpan bytes;  ///< little-endian, packed
};
using BlobView = Blob;

/// Bytes that `type` and `shape` take: elements times bits, rounded up to whole bytes.
/// @error unknown_name: no such type; too_large: more than 2^40 elements
Result<std::size_t> blob_size(std::string_view type, const Shape& shape);

namespace detail {
template <class T>
struct BlobTypeOf;
template <>
struct BlobTypeOf<float> {
  static constexpr std::string_view value = "float32";
};
template <>
struct BlobTypeOf<double> {
  static constexpr std::string_view value = "float64";
};
template <>
struct BlobTypeOf<std::uint32_t> {
  static constexpr std::string_view value = "u32";
};
template <>
struct BlobTypeOf<std::uint64_t> {
  static constexpr std::string_view value = "u64";
};
template <>
struct BlobTypeOf<std::byte> {
  static constexpr std::string_view value = "bytes";
};
}  // namespace detail

/// A blob over `values` (float, double, uint32_t, uint64_t or byte), which must outlive it.
template <class T>
Blob make_blob(std::string name, Shape shape, std::span<const T> values) {
  return {std::move(name), std::string(detail::BlobTypeOf<T>::value), std::move(shape), std::as_bytes(values)};
}
/// One dimension, as long as `values`.
template <class T>
Blob make_blob(std::string name, std::span<const T> values) {
  return make_blob(std::move(name), Shape{values.size()}, values);
}

/// Packing of blobs in a file: none, or each that gets smaller by it becomes a zstd frame.
enum class Packing : int { none, zstd };

struct EntityOptions {
  Packing packing = Packing::none;
  /// Header keys that begin with "x-", as EntityFile::extra gives them. Null: none.
  const nlohmann::json* extra = nullptr;
};

/// The bytes of an `.entity` v2 file (docs/formats/entity.md): the same input gives the same bytes, everywhere (packed:
/// with the same version of zstd). Blobs keep their order.
/// @error invalid_argument: JSON that no text can hold; shape_mismatch: bytes that do not fit type and shape;
///        duplicate_name, unknown_name, too_large
Result<ByteBuffer> encode_entity(const nlohmann::json& network, const nlohmann::json& meta,
                                 const std::vector<Blob>& blobs, const EntityOptions& options = {});

/// How much packed blobs may unpack to: so many bytes, and 256 for each byte stored. A reader refuses more before it
/// allocates anything; our writer leaves blobs unpacked that would pass it.
struct EntityLimits {
  std::size_t free_unpacked = std::size_t{1} << 30;
};

/// An `.entity` v2 file, mapped or in memory, every byte of it checked. Cheap to copy: copies share the bytes.
/// Blobs of a mapped file can fail later: whoever has used their bytes asks `intact` before relying on them.
/// @thread any: immutable
class EntityFile {
 public:
  const nlohmann::json& network() const noexcept;
  const nlohmann::json& meta() const noexcept;
  /// The header's keys that begin with "x-": of someone else, kept by those who copy a file.
  const nlohmann::json& extra() const noexcept;
  Packing packing() const noexcept;
  /// In file order; their bytes are 64-byte aligned and live as long as any copy of this file.
  const std::vector<BlobView>& blobs() const noexcept;
  bool contains(std::string_view name) const noexcept;
  /// @error not_found
  Result<BlobView> find(std::string_view name) const;
  /// The elements of blob `name`, which must have T's type and `shape`.
  /// @error not_found; shape_mismatch
  template <class T>
  Result<std::span<const T>> values(std::string_view name, const Shape& shape) const {
    WEFT_TRY(const ByteSpan bytes, checked(name, detail::BlobTypeOf<T>::value, &shape));
    return std::span<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  }
  /// The elements of blob `name` in whatever shape they have.
  template <class T>
  Result<std::span<const T>> values(std::string_view name) const {
    WEFT_TRY(const ByteSpan bytes, checked(name, detail::BlobTypeOf<T>::value, nullptr));
    return std::span<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  }
  /// The header's checksum. The header holds the blobs' digests, so this names the whole content.
  Hash128 hash() const noexcept;
  /// Bytes of the file.
  std::size_t size() const noexcept;
  /// @error storage: a page could not be read and was taken as zeros (MappedFile)
  Status intact() const;
  /// Of a mapped file: gives back the memory of a blob's pages for now; they are read again when needed.
  void forget(std::string_view name) const noexcept;

 private:
  struct Content;
  friend Result<EntityFile> decode_entity(storage::MappedFile file, std::string_view source_name,
                                          const EntityLimits& limits);
  explicit EntityFile(std::shared_ptr<const Content> content) : content_(std::move(content)) {}
  Result<ByteSpan> checked(std::string_view name, std::string_view type, const Shape* shape) const;
  std::shared_ptr<const Content> content_;
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

/// Maps the file where that can be done.
Result<EntityFile> load_entity(storage::FileSystem& files, const std::string& path);
/// Encodes, then writes durably.
Status save_entity(storage::FileSystem& files, const std::string& path, const nlohmann::json& network,
                   const nlohmann::json& meta, const std::vector<Blob>& blobs, const EntityOptions& options = {});

}  // namespace weft::formats
