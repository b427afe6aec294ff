// SPDX-License-Identifier: Apache-2.0

#include "tests/support/file_call.hpp"

namespace weft::storage {
namespace {

/// Moves a result's value to where the caller waits for it.
template <class T>
Status keep(Result<T> result, T& target) {
  if (!result) return fail(std::move(result).error());
  target = *std::move(result);
  return {};
}

}  // namespace

std::string_view name(FileOperation operation) noexcept {
  static constexpr std::string_view kNames[] = {
      "read", "open", "write", "sync", "close", "rename", "sync_directory", "make_directory", "list", "remove", "lock"};
  return kNames[static_cast<std::size_t>(operation)];
}

class LayeredFileSystem::LayeredFile final : public File {
 public:
  LayeredFile(LayeredFileSystem& layer, std::unique_ptr<File> below, std::string path, std::uint64_t number)
      : layer_(layer), below_(std::move(below)), path_(std::move(path)), number_(number) {}

  Status write(ByteSpan bytes) override {
    FileCall call = about(FileOperation::write);
    call.bytes = bytes;
    return layer_.pass(call, [&] { return below_->write(call.bytes); });
  }
  Status sync() override {
    FileCall call = about(FileOperation::sync);
    return layer_.pass(call, [&] { return below_->sync(); });
  }
  Status close() override {
    FileCall call = about(FileOperation::close);
    return layer_.pass(call, [&] { return below_->close(); });
  }

 private:
  FileCall about(FileOperation operation) const {
    FileCall call{operation, path_};
    call.file = number_;
    return call;
  }
  LayeredFileSystem& layer_;
  std::unique_ptr<File> below_;
  std::string path_;
  std::uint64_t number_;
};

Result<ByteBuffer> LayeredFileSystem::read(const std::string& path, std::size_t max_bytes) {
  ByteBuffer bytes;
  FileCall call{FileOperation::read, path};
  call.received = &bytes;
  WEFT_CHECK(pass(call, [&] { return keep(below_.read(path, max_bytes), bytes); }));
  return bytes;
}

Result<std::unique_ptr<File>> LayeredFileSystem::open(const std::string& path, OpenMode mode) {
  std::unique_ptr<File> file;
  FileCall call{FileOperation::open, path};
  call.mode = mode;
  call.file = ++openings_;
  WEFT_CHECK(pass(call, [&] { return keep(below_.open(path, mode), file); }));
  return std::unique_ptr<File>(std::make_unique<LayeredFile>(*this, std::move(file), path, call.file));
}

Status LayeredFileSystem::rename(const std::string& from, const std::string& to) {
  FileCall call{FileOperation::rename, from, to};
  return pass(call, [&] { return below_.rename(from, to); });
}

Status LayeredFileSystem::sync_directory(const std::string& path) {
  FileCall call{FileOperation::sync_directory, path};
  return pass(call, [&] { return below_.sync_directory(path); });
}

Result<bool> LayeredFileSystem::make_directory(const std::string& path) {
  bool is_new = false;
  FileCall call{FileOperation::make_directory, path};
  WEFT_CHECK(pass(call, [&] { return keep(below_.make_directory(path), is_new); }));
  return is_new;
}

Result<std::vector<std::string>> LayeredFileSystem::list(const std::string& path) {
  std::vector<std::string> names;
  FileCall call{FileOperation::list, path};
  WEFT_CHECK(pass(call, [&] { return keep(below_.list(path), names); }));
  return names;
}

Status LayeredFileSystem::remove(const std::string& path) {
  FileCall call{FileOperation::remove, path};
  return pass(call, [&] { return below_.remove(path); });
}

Result<std::unique_ptr<FileLock>> LayeredFileSystem::lock(const std::string& path) {
  std::unique_ptr<FileLock> lock;
  FileCall call{FileOperation::lock, path};
  WEFT_CHECK(pass(call, [&] { return keep(below_.lock(path), lock); }));
  return lock;
}

}  // namespace weft::storage
