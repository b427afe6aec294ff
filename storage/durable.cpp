// SPDX-License-Identifier: Apache-2.0

#include "storage/durable.hpp"

#include "storage/file_system.hpp"

#include "core/state_hash.hpp"

#include <random>

namespace weft::storage {
namespace {

/// A name that no other process or container sharing the directory picks too. It never reaches a result.
std::string temporary_name(const std::string& path) {
  std::random_device random;
  const std::uint32_t words[] = {random(), random(), random(), random()};
  return path + "." + to_string(hash_bytes(words, sizeof words)).substr(0, 16) + ".tmp";
}

Status write_new(FileSystem& files, const std::string& path, ByteSpan bytes) {
  WEFT_TRY(const auto file, files.open(path, OpenMode::create_new));
  WEFT_CHECK(file->write(bytes));
  WEFT_CHECK(file->sync());
  return file->close();
}

}  // namespace

Status write_file_durably(FileSystem& files, const std::string& path, ByteSpan bytes) {
  const std::string temporary = temporary_name(path);
  Status status = write_new(files, temporary, bytes);
  if (status) status = files.rename(temporary, path);
  if (!status) {
    (void)files.remove(temporary);  // may not exist; the first failure is the one to tell
    return status;
  }
  return files.sync_directory(parent_path(path));
}

}  // namespace weft::storage
