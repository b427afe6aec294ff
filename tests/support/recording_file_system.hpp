// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "tests/support/file_call.hpp"
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace weft::storage {

/// A call that was made and how it ended.
struct RecordedCall {
  FileOperation operation;
  std::string path;
  std::string to;          ///< rename only
  std::uint64_t file = 0;  ///< open, write, sync, close: which opening, from 1; 0: none
  std::uint64_t size = 0;  ///< bytes written or read
  std::string error;       ///< empty: it went well
};

/// "write #2 c/state 100", with ": why" behind it when it failed.
std::string to_string(const RecordedCall& call);

/// A file system that keeps a list of what it was asked, for tests that state an order.
/// @thread any
class RecordingFileSystem final : public LayeredFileSystem {
 public:
  explicit RecordingFileSystem(FileSystem& below) : LayeredFileSystem(below) {}

  std::vector<RecordedCall> calls() const;
  void clear();
  /// A call on a file whose sync or write had failed before; empty when there was none, as there must not be.
  std::string use_after_failure() const;

 private:
  Status pass(FileCall& call, const std::function<Status()>& down) override;

  mutable std::mutex mutex_;
  std::vector<RecordedCall> calls_;
};

}  // namespace weft::storage
