// SPDX-License-Identifier: Apache-2.0
// The log without spdlog: lines for a function, or for stderr, which pages show in their console.

#include "core/log.hpp"
#include "core/log_function.hpp"
#include "core/printable.hpp"

#include <cstdio>
#include <string>

namespace weft {
namespace {

struct Receiver {
  LogFunction function = nullptr;
  void* user = nullptr;
  LogLevel level = LogLevel::warn;
};
Receiver receiver;
constexpr const char* kNames[] = {"trace", "debug", "info", "warning", "error", "off"};

}  // namespace

void log(LogLevel level, std::string_view text) noexcept {
  if (level < receiver.level || level == LogLevel::off) return;
  try {
    const std::string line = escaped(text);
    if (receiver.function)
      receiver.function(receiver.user, static_cast<int>(level), line.c_str());
    else
      std::fprintf(stderr, "weft: %s: %s\n", kNames[static_cast<int>(level)], line.c_str());
  } catch (...) {
    // A log line that cannot be written must not stop the mesh.
  }
}

void set_log_level(LogLevel level) noexcept {
  if (!receiver.function) receiver.level = level;
}
void set_log_function(LogFunction function, void* user, LogLevel level) noexcept { receiver = {function, user, level}; }
void set_log_file(const std::string&) noexcept {}
void reopen_log_file() noexcept {}

}  // namespace weft
