// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include <memory>
#include <string>
#include <vector>

namespace weft::cli {

/// The file system, for reading; notes the files that are read, so that none of them is written over.
/// @thread one at a time
class NotedReads final : public storage::FileSystem {
 public:
  const std::vector<std::string>& paths() const noexcept { return paths_; }
  void note(const std::string& path) { paths_.push_back(path); }

  Result<ByteBuffer> read(const std::string& path, std::size_t max_bytes) override;
  Result<storage::MappedFile> map(const std::string& path, std::size_t max_bytes) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  /// The others are refused.
  Result<std::unique_ptr<storage::File>> open(const std::string& path, storage::OpenMode mode) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status sync_directory(const std::string& path) override;
  Result<bool> make_directory(const std::string& path) override;
  Status remove(const std::string& path) override;
  Result<std::unique_ptr<storage::FileLock>> lock(const std::string& path) override;

 private:
  storage::FileSystem& files_ = storage::real_file_system();
  std::vector<std::string> paths_;
};

}  // namespace weft::cli
