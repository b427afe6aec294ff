// SPDX-License-Identifier: Apache-2.0

#include "cli/notify.hpp"

#include "cli/terminal.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace weft::cli {
namespace {

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

ServiceNotifier ServiceNotifier::from_environment() {
  ServiceNotifier made;
  const std::string_view path = environment("NOTIFY_SOCKET");
  sockaddr_un address{};
  // Anything else (vsock: of virtual machines' managers) is none of ours.
  if (path.size() < 2 || (path[0] != '/' && path[0] != '@') || path.size() >= sizeof address.sun_path) return made;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const int opened = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (opened < 0) return made;
  if (connect(opened, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    close(opened);
    return made;
  }
  made.socket_ = opened;
  const auto timeout = number(environment("WATCHDOG_USEC"));
  const std::string_view whom = environment("WATCHDOG_PID");
  const bool is_meant = whom.empty() || number(whom) == static_cast<std::uint64_t>(getpid());
  if (timeout && *timeout > 0 && *timeout <= INT64_MAX && is_meant)
    made.watchdog_ = std::chrono::microseconds(static_cast<std::int64_t>(*timeout));
  return made;
}

ServiceNotifier::ServiceNotifier(ServiceNotifier&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), watchdog_(other.watchdog_), last_alive_(other.last_alive_) {}

ServiceNotifier::~ServiceNotifier() {
  if (socket_ >= 0) close(socket_);
}

void ServiceNotifier::alive() {
  if (!watchdog_ || socket_ < 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (last_alive_ != std::chrono::steady_clock::time_point{} && now - last_alive_ < *watchdog_ / 4) return;
  last_alive_ = now;
  send("WATCHDOG=1");
}

std::string ServiceNotifier::one_line(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

void ServiceNotifier::send(const std::string& text) noexcept {
  if (socket_ < 0) return;
  // A manager that does not read is no reason to wait; one that is busy gets a moment.
  pollfd writable{socket_, POLLOUT, 0};
  if (poll(&writable, 1, 100) != 1) return;
  (void)::send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace weft::cli
