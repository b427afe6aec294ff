// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/log.hpp"

namespace weft {

/// Receiver of log lines; `level` is that of a LogLevel.
using LogFunction = void (*)(void* user, int level, const char* text);

/// Gives lines of `level` and above to `function`, one at a time, and no more to stderr. Null: to stderr again. When it
/// returns, the function before is not called any more.
/// @thread any
void set_log_function(LogFunction function, void* user, LogLevel level) noexcept;

}  // namespace weft
