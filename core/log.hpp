// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>

namespace weft {

enum class LogLevel { trace, debug, info, warn, error, off };

/// Writes one line to stderr (never stdout, which carries results). Never throws, never blocks a tick:
/// call it outside ticks.
/// @thread any
void log(LogLevel level, std::string_view text) noexcept;
inline void log_info(std::string_view text) noexcept { log(LogLevel::info, text); }
inline void log_warn(std::string_view text) noexcept { log(LogLevel::warn, text); }
inline void log_error(std::string_view text) noexcept { log(LogLevel::error, text); }

/// Lines below `level` are dropped. Default: warn.
void set_log_level(LogLevel level) noexcept;

}  // namespace weft
