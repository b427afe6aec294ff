// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "storage/file_system.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>

namespace weft::web {

/// The files of a module: in memory, durable at once, of one thread. JavaScript puts them in and takes them out.
/// Paths: names between slashes; a file's directories need not be made.
class Files final : public storage::FileSystem {
 public:
  Result<ByteBuffer> read(const std::string& path, std::size_t max_bytes) override;
  Result<std::unique_ptr<storage::File>> open(const std::string& path, storage::OpenMode mode) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status sync_directory(const std::string&) override { return {}; }
  Result<bool> make_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Status remove(const std::string& path) override;
  Result<std::unique_ptr<storage::FileLock>> lock(const std::string& path) override;

  void put(const std::string& path, ByteSpan bytes);
  /// Paths of all files below a directory, sorted.
  std::vector<std::string> below(const std::string& directory) const;
  /// Removes a directory with all that is in it.
  void forget(const std::string& directory);

 private:
  using Bytes = std::shared_ptr<std::vector<std::byte>>;  // open files hold it too
  std::map<std::string, Bytes> files_;
  std::set<std::string> directories_, locked_;
};

Files& files() noexcept;

}  // namespace weft::web
