// SPDX-License-Identifier: Apache-2.0

#include "storage/file_system.hpp"

#include "storage/internal/system_calls.hpp"

#include <sys/file.h>
#include <sys/stat.h>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>
#include <system_error>
#include <thread>

namespace weft::storage {
namespace {

Failure system_failure(std::string_view action, const std::string& path, int error) {
  return fail(error == ENOENT ? Errc::not_found : Errc::storage,
              path + ": cannot " + std::string(action) + ": " + std::generic_category().message(error));
}

template <class Call>
auto retry(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

class Descriptor {
 public:
  Descriptor(const SystemCalls& calls, int fd) : calls_(calls), fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) calls_.close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  const SystemCalls& calls() const { return calls_; }

 private:
  const SystemCalls& calls_;
  int fd_;
};

class PosixFile final : public File {
 public:
  PosixFile(const SystemCalls& calls, int fd, std::string path) : descriptor_(calls, fd), path_(std::move(path)) {}

  Status write(ByteSpan bytes) override {
    WEFT_CHECK(usable());
    while (!bytes.empty()) {
      const std::size_t size = std::min<std::size_t>(bytes.size(), std::size_t{1} << 30);
      const ssize_t written = retry([&] { return calls().write(descriptor_.get(), bytes.data(), size); });
      if (written <= 0) return broken("write", written == 0 ? EIO : errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      is_synced_ = false;
    }
    return {};
  }
  Status sync() override {
    WEFT_CHECK(usable());
    // No retry, not even after EINTR: a second fsync may report success for pages that the first one lost.
    if (calls().fsync(descriptor_.get()) != 0) return broken("sync", errno);
    is_synced_ = true;
    return {};
  }
  Status close() override {
    WEFT_CHECK(usable());
    // Clean pages are given back, so that a later read gets the device's bytes, not this copy.
    if (is_synced_) ::posix_fadvise(descriptor_.get(), 0, 0, POSIX_FADV_DONTNEED);
    is_broken_ = true;
    // On Linux the descriptor is gone even after EINTR, and closing again could close someone else's.
    if (calls().close(descriptor_.release()) != 0 && errno != EINTR) return system_failure("close", path_, errno);
    return {};
  }

 private:
  const SystemCalls& calls() const { return descriptor_.calls(); }
  Status usable() const {
    if (!is_broken_) return {};
    return fail(Errc::storage, path_ + ": used after it was closed or had failed");
  }
  Status broken(std::string_view action, int error) {
    is_broken_ = true;
    return system_failure(action, path_, error);
  }
  Descriptor descriptor_;
  std::string path_;
  bool is_synced_ = false;
  bool is_broken_ = false;
};

class PosixLock final : public FileLock {
 public:
  PosixLock(const SystemCalls& calls, int fd) : descriptor_(calls, fd) {}

 private:
  Descriptor descriptor_;
};

class PosixFileSystem final : public FileSystem {
 public:
  explicit PosixFileSystem(const SystemCalls& calls) : calls_(calls) {}

  Result<ByteBuffer> read(const std::string& path, std::size_t max_bytes) override {
    const Descriptor file = open_for_reading(path);
    WEFT_TRY(const std::size_t size, size_of(file.get(), path, max_bytes));
    return read_whole(file.get(), path, size);
  }

  Result<ByteBuffer> read_so_far(const std::string& path, std::size_t max_bytes) override {
    const Descriptor file = open_for_reading(path);
    WEFT_TRY(const std::size_t size, size_of(file.get(), path, max_bytes));
    return read_all(file.get(), path, size);
  }

  Result<MappedFile> map(const std::string& path, std::size_t max_bytes) override {
    const Descriptor file = open_for_reading(path);
    WEFT_TRY(const std::size_t size, size_of(file.get(), path, max_bytes));
    if (size >= kMapFrom)
      if (auto mapped = MappedFile::map(file.get(), size, path)) return *std::move(mapped);
    WEFT_TRY(ByteBuffer bytes, read_whole(file.get(), path, size));
    return MappedFile(std::move(bytes), path);
  }

  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    const int how = mode == OpenMode::create ? O_TRUNC : mode == OpenMode::create_new ? O_EXCL : O_APPEND;
    Descriptor file = open_descriptor(path, O_WRONLY | O_CREAT | how);
    if (file.get() < 0) return system_failure("open for writing", path, errno);
    return std::unique_ptr<File>(std::make_unique<PosixFile>(calls_, file.release(), path));
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) return system_failure("rename to " + to, from, errno);
    return {};
  }

  Status sync_directory(const std::string& path) override {
    const Descriptor directory = open_descriptor(path, O_RDONLY | O_DIRECTORY);
    if (directory.get() < 0) return system_failure("open", path, errno);
    // EINVAL: a file system without directory sync; there is nothing more that a program could do there.
    if (calls_.fsync(directory.get()) != 0 && errno != EINVAL) return system_failure("sync", path, errno);
    return {};
  }

  Result<bool> make_directory(const std::string& path) override {
    // For the owner alone: what a model learned from may be private. Files in it follow the umask.
    if (::mkdir(path.c_str(), 0700) == 0) return true;
    const int error = errno;
    struct stat info;
    if (error == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return false;
    return system_failure("make the directory", path, error);
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (!directory) return system_failure("list", path, errno);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(directory.get());
      if (!entry && errno != 0) return system_failure("list", path, errno);
      if (!entry) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  Status remove(const std::string& path) override {
    if (::unlink(path.c_str()) == 0) return {};
    if (errno == EISDIR || errno == EPERM) {
      if (::rmdir(path.c_str()) == 0) return {};
    }
    return system_failure("remove", path, errno);
  }

  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    Descriptor file = open_descriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW);
    if (file.get() < 0) return system_failure("open the lock", path, errno);
    char holder[24] = "";
    const auto take = [&] { return retry([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }); };
    int taken = take();
    // A process that was killed holds its locks until its memory is given back; who starts the next one cannot know.
    for (int i = 0; taken != 0 && errno == EWOULDBLOCK && i < kLockAttempts && !is_held_here(file.get()); ++i) {
      std::this_thread::sleep_for(kLockPause);
      taken = take();
    }
    if (taken != 0) {
      const int error = errno;
      if (error != EWOULDBLOCK) return system_failure("lock", path, error);
      // The number is a courtesy; who wrote it may be between locking and writing.
      const ssize_t size = ::pread(file.get(), holder, sizeof holder - 1, 0);
      std::string text = path + ": in use by ";
      text += size > 0 ? "process " + std::string(holder, static_cast<std::size_t>(size)) : "another process";
      return fail(Errc::storage, std::move(text));
    }
    const int size = std::snprintf(holder, sizeof holder, "%ld", static_cast<long>(::getpid()));
    if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), holder, static_cast<std::size_t>(size), 0) != size)
      return system_failure("write the lock", path, errno);
    return std::unique_ptr<FileLock>(std::make_unique<PosixLock>(calls_, file.release()));
  }

 private:
  static constexpr int kLockAttempts = 20;
  static constexpr std::chrono::milliseconds kLockPause{100};
  // Smaller files are copied sooner than their pages are set up.
  static constexpr std::size_t kMapFrom = std::size_t{1} << 20;

  /// True when this process wrote its number into the lock: it would wait for itself. Keeps errno.
  static bool is_held_here(int lock) {
    const int error = errno;
    char holder[24] = "";
    const ssize_t size = ::pread(lock, holder, sizeof holder - 1, 0);
    errno = error;
    return size > 0 && std::strtol(holder, nullptr, 10) == static_cast<long>(::getpid());
  }

  Descriptor open_descriptor(const std::string& path, int flags) const {
    return {calls_, retry([&] { return calls_.open(path.c_str(), flags | O_CLOEXEC, 0666); })};
  }
  Descriptor open_for_reading(const std::string& path) const {
    // Not blocking: a FIFO in a file's place must give an error, not a wait.
    return open_descriptor(path, O_RDONLY | O_NONBLOCK);
  }
  static Result<std::size_t> size_of(int fd, const std::string& path, std::size_t max_bytes) {
    if (fd < 0) return system_failure("open", path, errno);
    struct stat info;
    if (::fstat(fd, &info) != 0) return system_failure("look at", path, errno);
    if (!S_ISREG(info.st_mode)) return fail(Errc::storage, path + ": not a regular file");
    const auto size = static_cast<std::size_t>(info.st_size);
    if (size > max_bytes)
      return fail(Errc::too_large,
                  path + ": " + std::to_string(size) + " bytes, at most " + std::to_string(max_bytes) + " are read");
    return size;
  }
  Result<ByteBuffer> read_whole(int fd, const std::string& path, std::size_t size) const {
    WEFT_TRY(ByteBuffer bytes, read_all(fd, path, size));
    char more;
    const ssize_t got = retry([&] { return calls_.read(fd, &more, 1); });
    if (got < 0) return system_failure("read", path, errno);
    if (got > 0) return fail(Errc::storage, path + ": grew while it was read");
    return bytes;
  }
  Result<ByteBuffer> read_all(int fd, const std::string& path, std::size_t size) const {
    try {
      return read_bytes(fd, path, size);
    } catch (const std::bad_alloc&) {
      return fail(Errc::too_large, path + ": no memory for its " + std::to_string(size) + " bytes");
    }
  }
  Result<ByteBuffer> read_bytes(int fd, const std::string& path, std::size_t size) const {
    ByteBuffer bytes(size);
    std::size_t done = 0;
    while (done < size) {
      const std::size_t ask = std::min<std::size_t>(size - done, std::size_t{1} << 30);
      const ssize_t got = retry([&] { return calls_.read(fd, bytes.data() + done, ask); });
      if (got < 0) return system_failure("read", path, errno);
      if (got == 0) return fail(Errc::storage, path + ": shrank while it was read");
      done += static_cast<std::size_t>(got);
    }
    return bytes;
  }
  const SystemCalls& calls_;
};

}  // namespace

Result<MappedFile> FileSystem::map(const std::string& path, std::size_t max_bytes) {
  WEFT_TRY(ByteBuffer bytes, read(path, max_bytes));
  return MappedFile(std::move(bytes), path);
}

const SystemCalls& real_system_calls() noexcept {
  static constexpr SystemCalls kCalls = {
      [](const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }, ::read, ::write, ::fsync,
      ::close};
  return kCalls;
}

std::unique_ptr<FileSystem> make_posix_file_system(const SystemCalls& calls) {
  return std::make_unique<PosixFileSystem>(calls);
}

FileSystem& real_file_system() noexcept {
  static PosixFileSystem instance(real_system_calls());
  return instance;
}

std::string parent_path(const std::string& path) {
  std::size_t end = path.size();
  while (end > 1 && path[end - 1] == '/') --end;
  const std::size_t slash = end == 0 ? std::string::npos : path.rfind('/', end - 1);
  if (slash == std::string::npos) return ".";
  std::size_t parent_end = slash;
  while (parent_end > 0 && path[parent_end - 1] == '/') --parent_end;
  return parent_end == 0 ? "/" : path.substr(0, parent_end);
}

}  // namespace weft::storage
