// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>

namespace weft::cli {

/// From now on SIGINT and SIGTERM are noted and work goes on; the second one ends the process at once, with 128 +
/// signal. SIGPIPE is ignored: who writes learns it from the call.
void watch_signals() noexcept;
/// The signal noted, or 0.
int noted_signal() noexcept;
const std::atomic<int>& signal_flag() noexcept;

/// From now on each SIGINT is noted instead of ending the process.
void watch_interrupts() noexcept;
/// True where one was noted since it was forgotten.
bool is_interrupted() noexcept;
void forget_interrupt() noexcept;

/// From now on SIGHUP is noted instead of ending the process.
void watch_hangups() noexcept;
/// True once after a SIGHUP, or several.
bool take_hangup() noexcept;

}  // namespace weft::cli
