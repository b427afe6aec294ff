// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace weft::storage {

/// Operations of a FileSystem or of a File.
enum class FileOperation { read, open, write, sync, close, rename, sync_directory, make_directory, list, remove, lock };
std::string_view name(FileOperation operation) noexcept;

/// One call on its way down.
struct FileCall {
  FileOperation operation;
  std::string path;                ///< of write, sync, close: what the file was opened as
  std::string to = {};             ///< rename only
  OpenMode mode = {};              ///< open only
  std::uint64_t file = 0;          ///< open, write, sync, close: which opening, from 1
  ByteSpan bytes = {};             ///< write: what goes down
  ByteBuffer* received = nullptr;  ///< read: what came up, once it did
};

/// A file system over another, of which each call goes through `pass`. Files opened through it must not outlive it.
class LayeredFileSystem : public FileSystem {
 public:
  /// `below` must outlive this.
  explicit LayeredFileSystem(FileSystem& below) : below_(below) {}

  Result<ByteBuffer> read(const std::string& path, std::size_t max_bytes) final;
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) final;
  Status rename(const std::string& from, const std::string& to) final;
  Status sync_directory(const std::string& path) final;
  Result<bool> make_directory(const std::string& path) final;
  Result<std::vector<std::string>> list(const std::string& path) final;
  Status remove(const std::string& path) final;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) final;

 protected:
  /// Does what it likes before, after or in place of `down()`, which makes the call below. May change `call.bytes`
  /// before and `*call.received` after it. A success without `down()` leaves the caller an empty result.
  /// @thread any
  virtual Status pass(FileCall& call, const std::function<Status()>& down) = 0;

 private:
  class LayeredFile;
  FileSystem& below_;
  std::atomic<std::uint64_t> openings_ = 0;
};

}  // namespace weft::storage
