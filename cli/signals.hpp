// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::cli {

/// From now on SIGINT and SIGTERM are noted and work goes on; the second one ends the process at once, with 128 +
/// signal.
void watch_signals() noexcept;
/// The signal noted, or 0.
int noted_signal() noexcept;

}  // namespace weft::cli
