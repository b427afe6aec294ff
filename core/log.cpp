// SPDX-License-Identifier: Apache-2.0

#include "core/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace weft {
namespace {
spdlog::logger& logger() {
  static auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("weft", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("weft: %^%l%$: %v");
    made->set_level(spdlog::level::warn);
    return made;
  }();
  return *instance;
}
}  // namespace

void log(LogLevel level, std::string_view text) noexcept {
  try {
    logger().log(static_cast<spdlog::level::level_enum>(level == LogLevel::off ? 6 : int(level)), "{}", text);
  } catch (...) {
    // A log line that cannot be written must not stop the mesh.
  }
}

void set_log_level(LogLevel level) noexcept {
  // spdlog has `critical` between error and off.
  logger().set_level(static_cast<spdlog::level::level_enum>(level == LogLevel::off ? 6 : int(level)));
}

}  // namespace weft
