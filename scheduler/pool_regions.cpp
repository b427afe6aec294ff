// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/pool_regions.hpp"

#include <algorithm>
#include <new>
#include <numeric>

namespace weft::scheduler::internal {

bool PoolRegions::prepare(TickProgram& program, std::uint64_t first) noexcept {
  count_ = static_cast<std::uint32_t>(program.region_count());
  if (count_ > regions_.size()) {
    try {
      regions_ = std::vector<PoolRegion>(count_);
      assigned_.resize(count_);
    } catch (const std::bad_alloc&) {
      regions_.clear();
      count_ = 0;
      return false;
    }
  }
  for (std::uint32_t r = 0; r < count_; ++r) {
    PoolRegion& region = regions_[r];
    // Relaxed: the store that opens the generation publishes all of this.
    region.progress.store(first, std::memory_order_relaxed);
    region.owner.store(0, std::memory_order_relaxed);
    region.neighbours = program.neighbours(r);
    region.checked = 0;
    region.interior_done = false;
  }
  assign_regions(program);
  return true;
}

// A region is assigned to a worker on the core where its memory lies; several workers of one core take turns. Without a
// known core, blocks of consecutive regions go to consecutive workers.
void PoolRegions::assign_regions(TickProgram& program) noexcept {
  const auto workers = static_cast<std::uint32_t>(cores_.size());
  std::fill(ends_.begin(), ends_.end(), 0u);
  std::uint32_t last = 0;
  for (std::uint32_t r = 0; r < count_; ++r) {
    std::uint32_t worker = workers < count_ ? static_cast<std::uint32_t>(std::uint64_t{r} * workers / count_) : r;
    const std::uint32_t core = program.own_core(r);
    if (core != kAnyCore && cores_[worker] != core) {
      for (std::uint32_t i = 1; i <= workers; ++i) {
        const std::uint32_t candidate = (last + i) % workers;
        if (cores_[candidate] != core) continue;
        worker = candidate;
        break;
      }
    }
    regions_[r].worker = last = worker;
    ++ends_[worker];
  }
  std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), 0u);
  // Now each is where its worker's list begins; it moves on to the end as the list is filled.
  for (std::uint32_t r = 0; r < count_; ++r) assigned_[ends_[regions_[r].worker]++] = r;
}

}  // namespace weft::scheduler::internal
