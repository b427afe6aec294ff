// SPDX-License-Identifier: Apache-2.0

#include "bindings/web/single/files.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::web {
namespace {

class OpenFile final : public storage::File {
 public:
  explicit OpenFile(std::shared_ptr<std::vector<std::byte>> bytes) : bytes_(std::move(bytes)) {}
  Status write(ByteSpan bytes) override {
    bytes_->insert(bytes_->end(), bytes.begin(), bytes.end());
    return {};
  }
  Status sync() override { return {}; }
  Status close() override { return {}; }

 private:
  const std::shared_ptr<std::vector<std::byte>> bytes_;
};

class HeldLock final : public storage::FileLock {
 public:
  HeldLock(std::set<std::string>& locked, std::string path) : locked_(locked), path_(std::move(path)) {
    locked_.insert(path_);
  }
  ~HeldLock() override { locked_.erase(path_); }

 private:
  std::set<std::string>& locked_;
  const std::string path_;
};

bool is_below(const std::string& path, const std::string& directory) {
  return path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/';
}

Failure missing(const std::string& path) { return fail(Errc::not_found, path + ": no such file or directory"); }

}  // namespace

Result<ByteBuffer> Files::read(const std::string& path, std::size_t max_bytes) {
  const auto found = files_.find(path);
  if (found == files_.end()) return missing(path);
  const std::vector<std::byte>& bytes = *found->second;
  if (bytes.size() > max_bytes)
    return fail(Errc::too_large,
                path + ": " + std::to_string(bytes.size()) + " bytes, at most " + std::to_string(max_bytes));
  ByteBuffer copy(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.data(), bytes.data(), bytes.size());
  return copy;
}

Result<std::unique_ptr<storage::File>> Files::open(const std::string& path, storage::OpenMode mode) {
  Bytes& bytes = files_[path];
  if (bytes && mode == storage::OpenMode::create_new) return fail(Errc::storage, path + ": it is there already");
  if (!bytes || mode == storage::OpenMode::create) bytes = std::make_shared<std::vector<std::byte>>();
  return std::unique_ptr<storage::File>(std::make_unique<OpenFile>(bytes));
}

Status Files::rename(const std::string& from, const std::string& to) {
  if (auto file = files_.extract(from)) {
    files_.erase(to);
    file.key() = to;
    files_.insert(std::move(file));
    return {};
  }
  const std::vector<std::string> moved = below(from);
  if (moved.empty() && !directories_.contains(from)) return missing(from);
  if (!below(to).empty()) return fail(Errc::storage, to + ": the directory is not empty");
  directories_.erase(from);
  directories_.insert(to);
  for (const std::string& path : moved) {
    auto file = files_.extract(path);
    file.key() = to + path.substr(from.size());
    files_.insert(std::move(file));
  }
  return {};
}

Result<bool> Files::make_directory(const std::string& path) {
  const bool is_there = !below(path).empty();
  return directories_.insert(path).second && !is_there;
}

Result<std::vector<std::string>> Files::list(const std::string& path) {
  std::set<std::string> names;
  const auto add = [&](const std::string& each) {
    if (is_below(each, path))
      names.insert(each.substr(path.size() + 1, each.find('/', path.size() + 1) - path.size() - 1));
  };
  for (const auto& [each, bytes] : files_) add(each);
  for (const std::string& each : directories_) add(each);
  if (names.empty() && !directories_.contains(path)) return missing(path);
  return std::vector<std::string>(names.begin(), names.end());
}

Status Files::remove(const std::string& path) {
  if (files_.erase(path) > 0) return {};
  if (!below(path).empty()) return fail(Errc::storage, path + ": the directory is not empty");
  if (directories_.erase(path) == 0) return missing(path);
  return {};
}

Result<std::unique_ptr<storage::FileLock>> Files::lock(const std::string& path) {
  if (locked_.contains(path)) return fail(Errc::storage, path + ": in use");
  Bytes& bytes = files_[path];
  if (!bytes) bytes = std::make_shared<std::vector<std::byte>>();
  return std::unique_ptr<storage::FileLock>(std::make_unique<HeldLock>(locked_, path));
}

void Files::put(const std::string& path, ByteSpan bytes) {
  files_[path] = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
}

std::vector<std::string> Files::below(const std::string& directory) const {
  std::vector<std::string> found;
  for (const auto& [path, bytes] : files_)
    if (is_below(path, directory)) found.push_back(path);
  return found;
}

void Files::forget(const std::string& directory) {
  std::erase_if(files_, [&](const auto& each) { return is_below(each.first, directory); });
  std::erase_if(directories_, [&](const auto& each) { return each == directory || is_below(each, directory); });
}

Files& files() noexcept {
  static Files all;
  return all;
}

}  // namespace weft::web

namespace weft::storage {

FileSystem& real_file_system() noexcept { return web::files(); }

Result<MappedFile> FileSystem::map(const std::string& path, std::size_t max_bytes) {
  WEFT_TRY(ByteBuffer bytes, read(path, max_bytes));
  return MappedFile(std::move(bytes), path);
}

std::string parent_path(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  const std::size_t slash = end == std::string::npos ? end : path.rfind('/', end);
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace weft::storage
