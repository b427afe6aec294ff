// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/tick_program.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weft::scheduler::internal {

inline constexpr std::size_t kPoolLine = 128;  // two cache lines: adjacent ones are fetched together
inline constexpr std::uint32_t kNoRegion = ~std::uint32_t{0};

/// A region in a run. progress counts its finished steps and is what neighbours await. owner says which worker works
/// it; only the owner touches the rest. It is taken by compare-exchange (acquire) and given back by a release store,
/// which hands over all that the last owner wrote.
struct PoolRegion {
  alignas(kPoolLine) std::atomic<std::uint64_t> progress{0};
  alignas(kPoolLine) std::atomic<std::uint32_t> owner{0};  // worker + 1; 0: nobody
  std::uint32_t worker = 0;                                // the worker it is assigned to
  std::span<const std::uint32_t> neighbours;
  // The owner's own.
  alignas(kPoolLine) std::uint32_t checked = 0;  // neighbours known to have finished the step before
  std::uint32_t next = kNoRegion;                // list of the regions a worker owns
  bool interior_done = false;
};

/// The regions of a run, each assigned to a worker.
/// @thread written by the caller while no run is open; then the regions alone change
class PoolRegions {
 public:
  /// @param cores core of each worker
  explicit PoolRegions(std::vector<std::uint32_t> cores) : cores_(std::move(cores)), ends_(cores_.size()) {}

  /// All regions of a program, which nobody owns yet, at step `first`. False where there is no memory for them.
  bool prepare(TickProgram& program, std::uint64_t first) noexcept;
  void clear() noexcept { count_ = 0; }
  std::uint32_t size() const noexcept { return count_; }
  PoolRegion& operator[](std::uint32_t r) noexcept { return regions_[r]; }
  const PoolRegion& operator[](std::uint32_t r) const noexcept { return regions_[r]; }

  /// Regions assigned to a worker, ascending.
  std::span<const std::uint32_t> assigned_to(std::uint32_t worker) const noexcept {
    return {assigned_.data() + first_assigned(worker), assigned_count(worker)};
  }
  std::uint32_t assigned_count(std::uint32_t worker) const noexcept { return ends_[worker] - first_assigned(worker); }
  /// Number of the regions that are assigned to workers before this one.
  std::uint32_t first_assigned(std::uint32_t worker) const noexcept { return worker == 0 ? 0 : ends_[worker - 1]; }

 private:
  void assign_regions(TickProgram& program) noexcept;

  std::vector<std::uint32_t> cores_;
  std::uint32_t count_ = 0;
  std::vector<PoolRegion> regions_;             // as many as the largest program had, or more than count_
  std::vector<std::uint32_t> assigned_, ends_;  // regions by worker, and where each worker's end in assigned_
};

}  // namespace weft::scheduler::internal
