// SPDX-License-Identifier: Apache-2.0

#include "cli/noted_reads.hpp"

namespace weft::cli {
namespace {

Failure for_reading(const std::string& path) {
  return fail(Errc::storage, path + ": is for reading here, and nothing is written");
}

}  // namespace

Result<ByteBuffer> NotedReads::read(const std::string& path, std::size_t max_bytes) {
  note(path);
  return files_.read(path, max_bytes);
}
Result<storage::MappedFile> NotedReads::map(const std::string& path, std::size_t max_bytes) {
  note(path);
  return files_.map(path, max_bytes);
}
Result<std::vector<std::string>> NotedReads::list(const std::string& path) { return files_.list(path); }
Result<std::unique_ptr<storage::File>> NotedReads::open(const std::string& path, storage::OpenMode) {
  return for_reading(path);
}
Status NotedReads::rename(const std::string& from, const std::string&) { return for_reading(from); }
Status NotedReads::sync_directory(const std::string& path) { return for_reading(path); }
Result<bool> NotedReads::make_directory(const std::string& path) { return for_reading(path); }
Status NotedReads::remove(const std::string& path) { return for_reading(path); }
Result<std::unique_ptr<storage::FileLock>> NotedReads::lock(const std::string& path) { return for_reading(path); }

}  // namespace weft::cli
