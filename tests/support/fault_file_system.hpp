// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "tests/support/file_call.hpp"
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace weft::storage {

enum class FaultKind {
  no_space,     ///< ENOSPC: nothing happens, but a write stores its first half
  io_error,     ///< EIO: the same
  interrupted,  ///< EINTR from below the seam, which promises to resume: the same
  short_write,  ///< a write stores its first half and fails; other calls are left alone
  short_read,   ///< a read gives the first half of a file and says nothing; other calls are left alone
  wrong_bit,    ///< a write stores one bit wrong and says nothing; other calls are left alone
  late_error,   ///< EIO, and yet the call has been done
  crash         ///< the call fails, a write in its middle, and no later one reaches the disk
};

/// Calls that fail, and their failure. Calls are counted from 1 since the fault was set.
struct Fault {
  FaultKind kind = FaultKind::io_error;
  std::uint64_t first = 1;
  std::uint64_t last = first;              ///< a crash has no last
  std::optional<FileOperation> only = {};  ///< counts and strikes calls of this kind alone
};

/// A file system whose calls fail as told, so that a program's tests can let each of them fail in turn:
///   for (n = 1; ; ++n) { faulty.set({FaultKind::no_space, n}); run(faulty); if (faulty.calls() < n) break; }
/// @thread any
class FaultFileSystem final : public LayeredFileSystem {
 public:
  /// `on_failed_sync(path)` hears of each sync that was made to fail: MemoryFileSystem::lose_unsynced belongs there.
  explicit FaultFileSystem(FileSystem& below, std::function<void(const std::string&)> on_failed_sync = {})
      : LayeredFileSystem(below), on_failed_sync_(std::move(on_failed_sync)) {}

  void set(const Fault& fault);
  void clear();
  /// Calls since the fault was set (or from the start), of those that it counts; and how many it struck.
  std::uint64_t calls() const;
  std::uint64_t struck() const;

 private:
  Status pass(FileCall& call, const std::function<Status()>& down) override;
  struct Strike {
    FaultKind kind;
    bool is_after_crash;
  };
  std::optional<Strike> next_strike(const FileCall& call);

  std::function<void(const std::string&)> on_failed_sync_;
  mutable std::mutex mutex_;
  std::optional<Fault> fault_;
  std::uint64_t calls_ = 0, struck_ = 0;
};

}  // namespace weft::storage
