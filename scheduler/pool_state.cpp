// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/pool_state.hpp"

namespace weft::scheduler::internal {

void PoolState::wake(std::uint32_t worker) noexcept {
  if (workers[worker].spot.is_armed()) workers[worker].spot.unpark();
}

void PoolState::wake_for(const PoolRegion& region, std::uint64_t progress) noexcept {
  for (const std::uint32_t neighbour : region.neighbours) {
    const std::uint32_t owner = plan[neighbour].owner.load(std::memory_order_relaxed);
    // Between two owners its assigned worker is the one that must look.
    wake(owner == 0 ? plan[neighbour].worker : owner - 1);
  }
  if (progress >= limit.load(std::memory_order_relaxed)) wake(0);
}

void PoolState::wake_all() noexcept {
  light_fence();
  if (sleepers.load(std::memory_order_relaxed) == 0) return;
  for (std::uint32_t m = 0; m < workers.size(); ++m) wake(m);
}

}  // namespace weft::scheduler::internal
