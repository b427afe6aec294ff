// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::formats {

/// The arrays of a `.npz` file, which is a zip archive of .npy files (docs/formats/npy.md). Members are found by the
/// directory at the archive's end, and unpacked one at a time, when asked for. The bytes must outlive it.
/// @thread any: immutable
class NpzFile {
 public:
  /// @error corrupt: no zip archive, cut short, or a directory that does not fit; unsupported: an archive past 4 GiB
  static Result<NpzFile> open(ByteSpan bytes, std::string_view source_name);

  /// Names of the arrays, without ".npy", in the archive's order.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }
  /// The .npy file of one array. `max_bytes` bounds what it unpacks to.
  /// @error not_found: naming those that are there; too_large; corrupt: damaged; unsupported: encrypted, or packed by
  ///        another method than deflate
  Result<ByteBuffer> member(std::string_view name, std::size_t max_bytes) const;

 private:
  struct Entry {
    std::string name;
    std::uint16_t flags = 0, method = 0;
    std::uint32_t crc = 0, packed = 0, unpacked = 0, header = 0;
  };
  const Entry* find(std::string_view name) const noexcept;
  Status read_directory(std::size_t at, std::size_t size, std::size_t count);
  Result<ByteSpan> packed_bytes(const Entry& entry) const;

  std::string source_;
  ByteSpan bytes_;
  std::vector<Entry> entries_;
};

}  // namespace weft::formats
