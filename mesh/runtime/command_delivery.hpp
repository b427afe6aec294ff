// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/arrivals.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/region_plan.hpp"

#include "scheduler/order.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace weft::mesh {

/// Way of messages from outside, and of observers' commands, to cells: into a mailbox, and at a tick boundary out of
/// it.
/// @thread post: any; deliver: the one that runs the region; everything else: between runs
class CommandDelivery {
 public:
  /// `arrivals` null: nothing arrives from outside, and there are no cells.
  CommandDelivery(const RegionPlan& plan, std::span<const std::unique_ptr<Cell>> cells, Arrivals* arrivals,
                  actors::Registry* registry);

  Arrivals& arrivals() noexcept { return arrivals_; }
  const Arrivals& arrivals() const noexcept { return arrivals_; }
  /// As Arrivals::post.
  Result<std::uint64_t> post(std::size_t cell, CommandMessage command) {
    return arrivals_.post(cell, std::move(command));
  }
  /// Puts a command where the next tick would put it.
  void keep(std::size_t cell, CommandMessage message);
  /// Delivers to a region's cells what waits for them.
  void deliver(std::size_t region, std::uint64_t tick) noexcept {
    // Relaxed is enough to look; Arrivals::take pairs with the release in post, so messages are seen.
    if (!arrivals_.has_mail(region) && !regions_[region].has_deferred) return;
    if (!is_held_) deliver_now(region, tick);
  }
  /// Delivers to all cells, as the next tick would: so that a checkpoint holds it.
  void deliver_all(std::uint64_t tick) noexcept;
  /// True when commands lie in mailboxes.
  bool has_mail() const noexcept { return arrivals_.has_mail(); }
  /// Mailboxes are about to be emptied by another.
  void forget_mail() noexcept;
  /// Leaves commands where they lie: ticks that are run a second time ran without them.
  void hold(bool is_held) noexcept { is_held_ = is_held; }
  /// True when cells may keep commands for later.
  bool has_deferred() const noexcept;
  /// Cells were given commands other than by `post`.
  void expect_deferred() noexcept;
  /// Sets who says which of a region's cells is delivered to first; null: by place. @thread as deliver
  void use_order(scheduler::Order* order) noexcept { order_ = order; }

 private:
  struct Region {
    alignas(64) bool has_deferred = true;  // cells may hold some from before this was made
    std::vector<std::uint32_t> cells;      // by place
  };
  void deliver_now(std::size_t region, std::uint64_t tick) noexcept;

  std::span<const std::unique_ptr<Cell>> cells_;
  actors::Registry* registry_;
  std::unique_ptr<Arrivals> own_;  // of a scratch state
  Arrivals& arrivals_;
  std::vector<Region> regions_;
  const RegionPlan& plan_;
  scheduler::Order* order_ = nullptr;
  bool is_held_ = false;
};

}  // namespace weft::mesh
