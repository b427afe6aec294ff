// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/order.hpp"
#include "scheduler/team.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::scheduler {

inline constexpr std::uint32_t kAnyCore = ~std::uint32_t{0};

/// The work of a run, cut into regions. Steps are numbered 0..n-1; region r's step s may begin when every
/// neighbour of r has finished step s-1, so a region reads only what its neighbours committed and overwrites
/// only what they have finished reading. Neighbours are thus never more than one step apart.
class TickProgram {
 public:
  virtual ~TickProgram() = default;
  virtual std::size_t region_count() const noexcept = 0;
  /// Regions that read from `region` or that it reads from: symmetric, without itself. The list stays as and where it
  /// is while a run lasts.
  virtual std::span<const std::uint32_t> neighbours(std::size_t region) const noexcept = 0;
  /// The core (topology::CoreInfo::index) of the region's memory; kAnyCore: the executor's choice.
  virtual std::uint32_t own_core([[maybe_unused]] std::size_t region) const noexcept { return kAnyCore; }

  /// Work of the region's step that reads nothing of other regions and writes nothing that they read:
  /// runs before the neighbours are awaited.
  virtual void run_interior(std::size_t region, std::uint64_t step) noexcept = 0;
  /// The rest of the step; runs after run_interior of the same step, when all neighbours have finished step-1.
  /// Must also be correct when called right after run_interior on the same thread. A region's calls never
  /// overlap, and each sees all that the earlier ones wrote, but they may come from different threads.
  virtual void run_boundary(std::size_t region, std::uint64_t step) noexcept = 0;

  /// Asked on the thread that called run, at every multiple of `block()` steps short of n, when all regions
  /// stand at that step: true ends the run there.
  virtual bool should_stop([[maybe_unused]] std::uint64_t steps_done) noexcept { return false; }
  /// Steps between two questions; 0: never ask.
  virtual std::uint64_t block() const noexcept { return 256; }

  /// True: the program has one region, too heavy for one thread, and cuts its steps' work up itself.
  virtual bool wants_team() const noexcept { return false; }
  /// Sets the team of the run that begins; null when it has ended. Without this call the program works alone.
  virtual void use_team([[maybe_unused]] Team* team) noexcept {}

  /// Sets who says, until it is set anew, in which order a half of a step does what may come in any order: messages
  /// for different cells, cells that fire. Null: the program's own order. No bit may depend on it.
  virtual void use_order([[maybe_unused]] Order* order) noexcept {}
};

}  // namespace weft::scheduler
