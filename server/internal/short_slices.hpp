// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::server::internal {

/// Asks the system to run the calling thread for shorter times and sooner: its share of the cores stays the same.
/// For threads that answer beside others that compute. Nothing happens where the system does not know it.
/// @source Linux 6.12, sched_setattr(2): sched_runtime of SCHED_OTHER is the slice
void take_short_slices() noexcept;

}  // namespace weft::server::internal
