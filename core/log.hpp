// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <string_view>

namespace weft {

enum class LogLevel { trace, debug, info, warn, error, off };

/// Writes one line to stderr (never stdout, which carries results), and to the log file where there is one. Never
/// throws, never blocks a tick: call it outside ticks.
/// @thread any
void log(LogLevel level, std::string_view text) noexcept;
inline void log_info(std::string_view text) noexcept { log(LogLevel::info, text); }
inline void log_warn(std::string_view text) noexcept { log(LogLevel::warn, text); }
inline void log_error(std::string_view text) noexcept { log(LogLevel::error, text); }

/// Lines below `level` do not go to stderr. Default: warn.
void set_log_level(LogLevel level) noexcept;

/// From now on lines of level info and above also go to the end of a file, with time and process. A file that cannot be
/// opened or written is told of once on stderr, and the lines meant for it are lost: nothing else stops. Empty: no
/// file.
/// @thread any
void set_log_file(const std::string& path) noexcept;
/// Opens the log file by its name again: someone has renamed the one that was open. Nothing without a log file.
/// @thread any; no signal handler
void reopen_log_file() noexcept;

}  // namespace weft
