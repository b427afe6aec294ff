// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace weft::cli {

/// Tells the service manager how the process fares (systemd's sd_notify protocol: a datagram of lines). Without
/// NOTIFY_SOCKET in the environment every call does nothing. A message that cannot be
/// sent within 0.1 s is dropped.
/// @thread one at a time
/// @source sd_notify(3), sd_watchdog_enabled(3), systemd 252
class ServiceNotifier {
 public:
  /// Reads NOTIFY_SOCKET (a path, or an abstract address that begins with '@'), WATCHDOG_USEC and WATCHDOG_PID.
  static ServiceNotifier from_environment();
  ServiceNotifier(ServiceNotifier&& other) noexcept;
  ServiceNotifier& operator=(ServiceNotifier&&) = delete;
  ~ServiceNotifier();

  bool is_active() const noexcept { return socket_ >= 0; }
  /// Time for which the manager waits for a keep-alive message; nothing: for ever.
  std::optional<std::chrono::microseconds> watchdog() const noexcept { return watchdog_; }

  void ready(std::string_view status) { send("READY=1\nSTATUS=" + one_line(status)); }
  void status(std::string_view status) { send("STATUS=" + one_line(status)); }
  void stopping(std::string_view status) { send("STOPPING=1\nSTATUS=" + one_line(status)); }
  /// A keep-alive message, to be sent while ticks progress; sent no oftener than four times within the manager's
  /// timeout.
  void alive();

 private:
  ServiceNotifier() = default;
  static std::string one_line(std::string_view text);
  void send(const std::string& text) noexcept;

  int socket_ = -1;
  std::optional<std::chrono::microseconds> watchdog_;
  std::chrono::steady_clock::time_point last_alive_{};
};

}  // namespace weft::cli
