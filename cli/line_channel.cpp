// SPDX-License-Identifier: Apache-2.0

#include "cli/line_channel.hpp"

#include "cli/signals.hpp"
#include "cli/top_server.hpp"

#include <sys/socket.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

extern char** environ;

namespace weft::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollSlice{100};     // between two looks for signals
constexpr std::chrono::milliseconds kAfterSignal{2000};  // for an answer that is under way
constexpr std::chrono::milliseconds kToEnd{500};
constexpr std::size_t kMostShown = 120;

Failure system_failure(const char* what, int error) {
  return fail(Errc::storage, std::string(what) + ": " + std::strerror(error));
}

/// Waits until `descriptor` is ready, or its other side is gone.
Status await(int descriptor, short events, Clock::time_point until) {
  bool is_signalled = false;
  for (;;) {
    if (noted_signal() && !std::exchange(is_signalled, true)) until = std::min(until, Clock::now() + kAfterSignal);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left <= std::chrono::milliseconds::zero())
      return is_signalled ? Status(fail(Errc::interrupted, "stopped by a signal")) : Status(fail(Errc::timed_out, ""));
    pollfd one{descriptor, events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::min(left, kPollSlice).count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return system_failure("cannot wait for it", errno);
  }
}

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  ~Pipe() {
    for (const int each : ends)
      if (each >= 0) ::close(each);
  }
  bool open() { return ::pipe2(ends.data(), O_CLOEXEC) == 0; }
  int release(std::size_t end) { return std::exchange(ends[end], -1); }
};

/// Attributes of a child: a group of its own, and signals as a program expects them.
struct SpawnSettings {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigemptyset(&all);
    for (const int each : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) sigaddset(&all, each);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
};

}  // namespace

Result<std::unique_ptr<LineChannel>> LineChannel::start(const std::string& command) {
  Pipe to, from;
  if (!to.open() || !from.open()) return system_failure("no pipe can be made", errno);
  SpawnSettings settings;
  posix_spawn_file_actions_adddup2(&settings.actions, to.ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&settings.actions, from.ends[1], STDOUT_FILENO);
  std::string shell = "sh", flag = "-c", words = command;
  std::array<char*, 4> arguments{shell.data(), flag.data(), words.data(), nullptr};
  pid_t child = 0;
  if (const int error =
          ::posix_spawn(&child, "/bin/sh", &settings.actions, &settings.attributes, arguments.data(), environ);
      error != 0)
    return system_failure("/bin/sh cannot be started", error);
  const int in = from.release(0), out = to.release(1);
  for (const int each : {in, out}) ::fcntl(each, F_SETFL, O_NONBLOCK);
  return std::unique_ptr<LineChannel>(new LineChannel(in, out, child));
}

Result<std::unique_ptr<LineChannel>> LineChannel::connect(const std::string& path) {
  WEFT_TRY(const int socket, connect_to_top(path));
  return std::unique_ptr<LineChannel>(new LineChannel(socket, socket, 0));
}

LineChannel::~LineChannel() {
  ::close(out_);
  if (in_ != out_) ::close(in_);
  if (child_ <= 0) return;
  if (!child_has_ended(kToEnd)) {
    ::kill(-child_, SIGTERM);
    (void)child_has_ended(kToEnd);
  }
  // It has not been waited for, so the number is its group's still.
  ::kill(-child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool LineChannel::child_has_ended(std::chrono::milliseconds within) const {
  const auto until = Clock::now() + within;
  for (;;) {
    siginfo_t info{};
    const int looked = ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (looked != 0 && errno != EINTR) return true;
    if (looked == 0 && info.si_pid == child_) return true;
    if (Clock::now() >= until) return false;
    ::poll(nullptr, 0, 5);
  }
}

std::string LineChannel::end() const {
  if (child_ <= 0) return "it closed the connection";
  if (!child_has_ended(kToEnd)) return "it closed its input or output";
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return "it ended";
  if (info.si_code != CLD_EXITED) return "it was ended by signal " + std::to_string(info.si_status);
  // As a shell says that its last command was.
  const std::string signal = info.si_status > 128 ? " (signal " + std::to_string(info.si_status - 128) + ")" : "";
  return "it ended with exit status " + std::to_string(info.si_status) + signal;
}

Status LineChannel::cut_off(Errc code, const std::string& text) const {
  if (buffer_.empty()) return fail(code, text);
  return fail(
      code, text + ", within a line: '" + buffer_.substr(0, kMostShown) + (buffer_.size() > kMostShown ? "'..." : "'"));
}

Status LineChannel::write_line(std::string_view line, std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  const std::string text = std::string(line) + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const auto wrote = child_ > 0 ? ::write(out_, text.data() + done, text.size() - done)
                                  : ::send(out_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (wrote >= 0) {
      done += static_cast<std::size_t>(wrote);
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return fail(Errc::storage, end());
    } else if (errno != EINTR && errno != EAGAIN) {
      return system_failure("it cannot be written to", errno);
    } else if (const Status waited = await(out_, POLLOUT, until); !waited) {
      return waited.error().code() == Errc::timed_out
                 ? Status(fail(Errc::timed_out, "it took no request for " + std::to_string(timeout.count()) + " ms"))
                 : waited;
    }
  }
  return {};
}

Result<std::string> LineChannel::read_line(std::size_t longest, std::chrono::milliseconds timeout) {
  const auto until = Clock::now() + timeout;
  for (std::size_t looked = 0;;) {
    if (const std::size_t at = buffer_.find('\n', looked); at != std::string::npos) {
      std::string line = buffer_.substr(0, at);
      buffer_.erase(0, at + 1);
      return line;
    }
    looked = buffer_.size();
    if (buffer_.size() > longest)
      return fail(cut_off(Errc::too_large, "its line has more than " + std::to_string(longest) + " bytes").error());
    if (const Status waited = await(in_, POLLIN, until); !waited) {
      if (waited.error().code() != Errc::timed_out) return fail(waited.error());
      return fail(cut_off(Errc::timed_out, "it gave no answer for " + std::to_string(timeout.count()) + " ms").error());
    }
    std::array<char, 65536> part;
    const auto count = ::read(in_, part.data(), part.size());
    if (count > 0)
      buffer_.append(part.data(), static_cast<std::size_t>(count));
    else if (count == 0 || errno == ECONNRESET)
      return fail(cut_off(Errc::storage, end()).error());
    else if (errno != EINTR && errno != EAGAIN)
      return system_failure("it cannot be read", errno);
  }
}

}  // namespace weft::cli
