// SPDX-License-Identifier: Apache-2.0

#include "cli/feed_source.hpp"

#include "cli/top_server.hpp"

#include "formats/csv/gzip.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace weft::cli {
namespace {

constexpr int kWait = 100;  // milliseconds between two calls while nothing comes

/// An open descriptor, closed with its last owner unless it is another's.
class FeedDescriptor {
 public:
  explicit FeedDescriptor(int number, bool is_owned = true) : number_(number), is_owned_(is_owned) {}
  ~FeedDescriptor() {
    if (is_owned_ && number_ >= 0) ::close(number_);
  }
  FeedDescriptor(const FeedDescriptor&) = delete;
  FeedDescriptor& operator=(const FeedDescriptor&) = delete;
  int number() const noexcept { return number_; }

 private:
  int number_;
  bool is_owned_;
};

Failure system_failure(const std::string& path, const char* what) {
  return fail(Errc::storage, path + ": " + what + ": " + std::strerror(errno));
}

/// Waits until there is something to read, or an end.
Status await_input(int descriptor, const FeedSource::Idle& idle) {
  for (;;) {
    WEFT_CHECK(idle());
    pollfd one{descriptor, POLLIN, 0};
    const int ready = ::poll(&one, 1, kWait);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(Errc::storage, std::string("cannot wait: ") + std::strerror(errno));
  }
}

formats::CsvSource reading(std::shared_ptr<FeedDescriptor> file, FeedSource::Idle idle) {
  return [file = std::move(file), idle = std::move(idle)](std::span<char> buffer) -> Result<std::size_t> {
    for (;;) {
      WEFT_CHECK(await_input(file->number(), idle));
      const auto count = ::read(file->number(), buffer.data(), buffer.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      // A producer that ended without taking what it was told.
      if (errno == ECONNRESET) return std::size_t{0};
      if (errno != EINTR && errno != EAGAIN)
        return fail(Errc::storage, std::string("cannot read: ") + std::strerror(errno));
    }
  };
}

class PipeSource final : public FeedSource {
 public:
  Result<std::optional<Part>> next(const Idle& idle) override {
    if (std::exchange(is_given_, true)) return std::optional<Part>();
    auto input = std::make_shared<FeedDescriptor>(STDIN_FILENO, false);
    return std::optional(Part{reading(std::move(input), idle), "standard input"});
  }

 private:
  bool is_given_ = false;
};

class DirectorySource final : public FeedSource {
 public:
  DirectorySource(std::string directory, std::string last, bool goes_on)
      : directory_(std::move(directory)), last_(std::move(last)), goes_on_(goes_on) {}

  Result<std::optional<Part>> next(const Idle& idle) override {
    if (std::exchange(goes_on_, false)) return open(last_, idle);
    for (;;) {
      WEFT_CHECK(idle());
      WEFT_TRY(const std::string name, first_behind());
      if (!name.empty()) return open(name, idle);
      ::poll(nullptr, 0, kWait);
    }
  }

 private:
  /// The first name behind the last one; empty: there is none yet.
  Result<std::string> first_behind() const {
    std::string first;
    std::error_code error;
    std::filesystem::directory_iterator files(directory_, error);
    for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
      std::string name = files->path().filename().string();
      std::error_code unknown;
      if (name[0] == '.' || name <= last_ || !files->is_regular_file(unknown)) continue;
      if (first.empty() || name < first) first = std::move(name);
    }
    if (error) return fail(Errc::storage, directory_ + ": cannot be listed: " + error.message());
    return first;
  }

  Result<std::optional<Part>> open(const std::string& name, const Idle& idle) {
    last_ = name;
    const std::string path = directory_ + "/" + name;
    auto file = std::make_shared<FeedDescriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file->number() < 0) {
      const Errc code = errno == ENOENT ? Errc::not_found : Errc::storage;
      return fail(code, path + ": cannot be opened, and the run has not come to its end: " + std::strerror(errno));
    }
    std::array<char, 2> begin{};
    const auto count = ::pread(file->number(), begin.data(), begin.size(), 0);
    if (count == 2 && formats::is_gzip(as_bytes({begin.data(), begin.size()})))
      return fail(Errc::unsupported, path + ": packed by gzip; unpack it before it is put there");
    return std::optional(Part{reading(std::move(file), idle), path, name});
  }

  std::string directory_, last_;
  bool goes_on_;
};

class SocketSource final : public FeedSource {
 public:
  SocketSource(std::string path, std::shared_ptr<FeedDescriptor> listener, std::function<std::uint64_t()> rows)
      : path_(std::move(path)), listener_(std::move(listener)), rows_(std::move(rows)) {}
  ~SocketSource() override { ::unlink(path_.c_str()); }

  Result<std::optional<Part>> next(const Idle& idle) override {
    for (;;) {
      auto waited = await_input(listener_->number(), idle);
      if (!waited) return fail(std::move(waited).error());
      auto producer = std::make_shared<FeedDescriptor>(
          ::accept4(listener_->number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (producer->number() < 0) {
        if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
        return system_failure(path_, "no producer can be taken");
      }
      // One that does not read it goes without.
      const std::string place = "{\"rows\":" + std::to_string(rows_()) + "}\n";
      [[maybe_unused]] const auto sent =
          ::send(producer->number(), place.data(), place.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      return std::optional(Part{reading(std::move(producer), idle), path_});
    }
  }

 private:
  std::string path_;
  std::shared_ptr<FeedDescriptor> listener_;
  std::function<std::uint64_t()> rows_;
};

/// Takes the place of a socket that nobody listens on any more.
Status clear_place(const std::string& path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0)
    return errno == ENOENT ? Status() : Status(system_failure(path, "cannot be looked at"));
  if (!S_ISSOCK(there.st_mode)) return fail(Errc::storage, path + ": is neither a directory nor a socket");
  const auto listening = connect_to_top(path);
  if (listening) {
    ::close(*listening);
    return fail(Errc::storage, path + ": another process listens there");
  }
  if (listening.error().code() != Errc::not_found) return fail(listening.error());
  return ::unlink(path.c_str()) == 0 || errno == ENOENT ? Status() : Status(system_failure(path, "cannot be removed"));
}

}  // namespace

std::unique_ptr<FeedSource> make_pipe_source() { return std::make_unique<PipeSource>(); }

std::unique_ptr<FeedSource> make_directory_source(std::string directory, std::string last, bool goes_on) {
  return std::make_unique<DirectorySource>(std::move(directory), std::move(last), goes_on);
}

Result<std::unique_ptr<FeedSource>> make_socket_source(const std::string& path, std::function<std::uint64_t()> rows) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(Errc::invalid_argument,
                path + ": a socket's path may have " + std::to_string(sizeof address.sun_path - 1) + " bytes");
  std::memcpy(address.sun_path, path.data(), path.size());
  WEFT_CHECK(clear_place(path));
  auto listener = std::make_shared<FeedDescriptor>(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (listener->number() < 0) return system_failure(path, "cannot be made");
  // The mode is that of the name from its first moment on: Linux takes it from the descriptor.
  if (::fchmod(listener->number(), 0600) != 0) return system_failure(path, "cannot be made private");
  if (::bind(listener->number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_failure(path, "cannot be made");
  ::chmod(path.c_str(), 0600);
  if (::listen(listener->number(), 4) != 0) return system_failure(path, "cannot be listened on");
  return std::unique_ptr<FeedSource>(std::make_unique<SocketSource>(path, std::move(listener), std::move(rows)));
}

}  // namespace weft::cli
