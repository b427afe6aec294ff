// SPDX-License-Identifier: Apache-2.0

#include "core/log.hpp"

#include "core/log_function.hpp"
#include "core/printable.hpp"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

namespace weft {
namespace {

/// spdlog's own file sinks throw, and hold a FILE whose buffer a crash would take along.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  FileSink() { set_level(spdlog::level::off); }
  ~FileSink() override { shut(); }

  /// Opens `path`, or with nothing the last one again.
  void open(const std::string* path) {
    const std::lock_guard hold(mutex_);
    shut();
    if (path) path_ = *path;
    has_complained_ = false;
    set_level(path_.empty() ? spdlog::level::off : spdlog::level::info);
    if (path_.empty()) return;
    // Not blocking: a pipe that nobody reads must neither hold up the start nor a line.
    file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
    if (file_ < 0) complain("cannot be opened");
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (file_ < 0) return;
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // One call a line: O_APPEND keeps lines of several processes whole.
    ssize_t written = 0;
    do written = ::write(file_, line.data(), line.size());
    while (written < 0 && errno == EINTR);
    if (written != static_cast<ssize_t>(line.size())) {
      if (written >= 0) errno = ENOSPC;
      complain("cannot be written");
    } else {
      has_complained_ = false;
    }
  }
  void flush_() override {}

 private:
  void shut() noexcept {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }
  void complain(const char* what) {
    if (std::exchange(has_complained_, true)) return;
    const std::string text = "weft: warning: log " + escaped(path_) + ": " + what + ": " + std::strerror(errno) +
                             "; lines are lost until it can be (SIGHUP opens it anew)\n";
    if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // then nobody is left to be told
  }

  std::string path_;
  int file_ = -1;
  bool has_complained_ = false;
};

/// Lines for a function of the program around us. It may log itself, hence the mutex.
class FunctionSink final : public spdlog::sinks::sink {
 public:
  FunctionSink() { set_level(spdlog::level::off); }
  void set(LogFunction function, void* user, spdlog::level::level_enum level) {
    const std::lock_guard hold(mutex_);
    function_ = function;
    user_ = user;
    set_level(function ? level : spdlog::level::off);
  }

  void log(const spdlog::details::log_msg& message) override {
    const std::lock_guard hold(mutex_);
    if (!function_) return;
    const int level = message.level >= spdlog::level::critical ? int(LogLevel::error) : int(message.level);
    function_(user_, level, std::string(message.payload.data(), message.payload.size()).c_str());
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  std::recursive_mutex mutex_;
  LogFunction function_ = nullptr;
  void* user_ = nullptr;
};

struct Logger {
  std::shared_ptr<spdlog::sinks::stderr_color_sink_mt> screen = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  std::shared_ptr<FileSink> file = std::make_shared<FileSink>();
  std::shared_ptr<FunctionSink> function = std::make_shared<FunctionSink>();
  spdlog::logger all{"weft", {screen, file, function}};

  Logger() {
    all.set_level(spdlog::level::trace);
    screen->set_pattern("weft: %^%l%$: %v");
    screen->set_level(spdlog::level::warn);
    file->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z weft[%P] %l: %v");
  }
};

Logger& logger() {
  // Never destroyed: threads may log while the process ends.
  static Logger& instance = *new Logger;
  return instance;
}

// spdlog has `critical` between error and off.
spdlog::level::level_enum level_of(LogLevel level) noexcept {
  return static_cast<spdlog::level::level_enum>(level == LogLevel::off ? 6 : int(level));
}

}  // namespace

void log(LogLevel level, std::string_view text) noexcept {
  try {
    logger().all.log(level_of(level), "{}", escaped(text));
  } catch (...) {
    // A log line that cannot be written must not stop the mesh.
  }
}

void set_log_level(LogLevel level) noexcept { logger().screen->set_level(level_of(level)); }

void set_log_function(LogFunction function, void* user, LogLevel level) noexcept {
  logger().function->set(function, user, level_of(level));
  logger().screen->set_level(function ? spdlog::level::off : level_of(level));
}

void set_log_file(const std::string& path) noexcept { logger().file->open(&path); }
void reopen_log_file() noexcept { logger().file->open(nullptr); }

}  // namespace weft
