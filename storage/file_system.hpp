// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/mapped_file.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace weft::storage {

/// An open file being written. Destroying it closes it and drops any error: call `close` to learn of one.
/// @thread one at a time
class File {
 public:
  virtual ~File() = default;
  /// Writes all of `bytes` at the end.
  virtual Status write(ByteSpan bytes) = 0;
  /// Waits until what was written is on the device. A failure voids the whole file: the kernel may have dropped the
  /// pages, so a second call could succeed without them. Every later call on this file fails.
  virtual Status sync() = 0;
  virtual Status close() = 0;
};

/// Held while it exists.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class OpenMode {
  create,      ///< an empty file, cut to nothing if it exists
  create_new,  ///< refused when the file exists
  append       ///< made if missing, written at its end
};

/// All that durable storage asks of an operating system; the one seam where faults are injected.
/// Errors name the path and the system's reason.
/// @error  not_found: no such file or directory; too_large: a file above the limit given; storage: anything else
/// @thread any
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// The whole of a regular file.
  virtual Result<ByteBuffer> read(const std::string& path, std::size_t max_bytes) = 0;
  /// The same of a file that another process may be appending to: what it held when it was opened.
  virtual Result<ByteBuffer> read_so_far(const std::string& path, std::size_t max_bytes) {
    return read(path, max_bytes);
  }
  /// The same for large files, without a copy where the file system can (see MappedFile). By default a copy.
  virtual Result<MappedFile> map(const std::string& path, std::size_t max_bytes);
  virtual Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) = 0;
  /// Puts `from` in the place of `to` in one step; `to` may be a file or an empty directory, or not be there.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Waits until a directory's entries (creations, renames, removals) are on the device.
  virtual Status sync_directory(const std::string& path) = 0;
  /// Makes one directory. True when it is new, false when it was there already.
  virtual Result<bool> make_directory(const std::string& path) = 0;
  /// Names in a directory, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  /// Removes a file or an empty directory.
  virtual Status remove(const std::string& path) = 0;
  /// An exclusive advisory lock, released when destroyed or when the process ends, however it ends.
  /// @error storage: this process holds it, or another one still does after 2 s (one that was just killed lets go soon)
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
};

/// POSIX files. Interrupted calls are resumed, short reads and writes completed.
FileSystem& real_file_system() noexcept;

/// "a/b" for "a/b/c" and "a/b/c/"; "." for "c"; "/" for "/c".
std::string parent_path(const std::string& path);

}  // namespace weft::storage
