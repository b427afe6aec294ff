// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft::storage {

/// Files in memory that tell what programs see from what a power cut leaves, as unkind as POSIX allows: without a sync
/// of the file its bytes, and without a sync of the directory each change of an entry, may or may not be there.
/// Paths: names between slashes; "." and a leading slash mean nothing, ".." is not known.
/// @thread any
class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  /// The process is killed: what was written stays, open files fail from now on, locks are free.
  void process_crash();
  /// The machine loses power: besides, `seed` decides what is left of all that was not synced. Of a file: nothing, all,
  /// a beginning cut at any byte, or some sectors of 512 bytes and zeros for the rest. Of a directory: any of the
  /// changes made since. What is left is durable.
  void power_cut(std::uint64_t seed);
  /// State after a failed fsync of a file or a directory: data not synced before may or may not be on the
  /// device, and no later sync brings it there. Nothing happens when `path` is not there.
  void lose_unsynced(const std::string& path);
  /// Another with the same content, synced and not; no file open, no lock held.
  std::unique_ptr<MemoryFileSystem> copy() const;

  /// Flips one bit of a file, durably, as a worn disk might. False when there is no such bit.
  bool flip_bit(const std::string& path, std::uint64_t bit);
  /// Cuts a file, durably, or lengthens it by zeros. False when there is no such file.
  bool resize(const std::string& path, std::uint64_t size);
  /// Paths of all files, sorted.
  std::vector<std::string> all_files() const;

  Result<ByteBuffer> read(const std::string& path, std::size_t max_bytes) override;
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status sync_directory(const std::string& path) override;
  Result<bool> make_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Status remove(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

 private:
  struct State;
  class OpenFile;
  class HeldLock;
  explicit MemoryFileSystem(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  // files and locks hold it too
};

}  // namespace weft::storage
