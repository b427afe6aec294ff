// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <string>

namespace weft::storage {

/// The bytes of a file for reading: mapped (private, read-only) where that can be had, a copy in memory elsewhere.
/// Cheap to copy: copies share the bytes. They begin on a multiple of 64.
///
/// A mapping can fail after it was made: the file is cut short by someone, or the disk gives an error. The kernel then
/// sends SIGBUS to the thread that reads. A handler of ours gives it zeros instead, so the process goes on, and notes
/// the place; a reader calls `intact` before using what was read.
/// @thread any: reads and `intact` from any thread
class MappedFile {
 public:
  /// Bytes in memory; always intact.
  explicit MappedFile(ByteBuffer bytes, std::string path = {});
  /// Maps the first `size` bytes of a regular file open for reading. Nothing when it cannot be mapped (a file system
  /// without mappings, more than 1024 files mapped at once, another owner of SIGBUS since our first mapping): read it.
  static std::unique_ptr<MappedFile> map(int descriptor, std::size_t size, std::string path);

  ByteSpan bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool is_mapped() const noexcept;
  /// Succeeds when all that was read so far came from the file.
  /// @error storage: naming the file and the offset of the first page that could not be read
  Status intact() const;
  /// Gives back the memory of pages that lie wholly in `part`; they are read again when needed. Nothing for a copy.
  void forget(ByteSpan part) const noexcept;

 private:
  struct Holder;
  explicit MappedFile(std::shared_ptr<const Holder> holder);
  std::shared_ptr<const Holder> holder_;
  ByteSpan bytes_;
};

}  // namespace weft::storage
