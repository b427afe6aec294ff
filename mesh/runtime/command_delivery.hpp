// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/region_plan.hpp"

#include "core/result.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::mesh {

/// Way of commands from senders to cells: into a mailbox, and at a tick boundary out of it.
/// @thread post: any; deliver: the one that runs the region; everything else: between runs
class CommandDelivery {
 public:
  CommandDelivery(const RegionPlan& plan, std::span<const std::unique_ptr<Cell>> cells, actors::Registry* registry)
      : plan_(plan), cells_(cells), registry_(registry), regions_(plan.regions().size()) {}

  /// The message's stamp: its number in the cell's mailbox. @error full
  Result<std::uint64_t> post(std::size_t cell, MessagePointer message);
  /// Puts a command where the next tick would put it.
  void keep(std::size_t cell, CommandMessage message);
  /// Delivers to a region's cells what waits for them.
  void deliver(std::size_t region, std::uint64_t tick) noexcept {
    // Relaxed is enough to look; the exchange in deliver_now pairs with the release in post, so messages are seen.
    const Region& here = regions_[region];
    if (here.posted.load(std::memory_order_relaxed) == 0 && !here.has_deferred) return;
    if (!is_held_) deliver_now(region, tick);
  }
  /// Delivers to all cells, as the next tick would: so that a checkpoint holds it.
  void deliver_all(std::uint64_t tick) noexcept;
  /// True when commands lie in mailboxes.
  bool has_mail() const noexcept;
  /// Mailboxes were emptied by another.
  void forget_mail() noexcept;
  /// Leaves commands where they lie: ticks that are run a second time ran without them.
  void hold(bool is_held) noexcept { is_held_ = is_held; }
  /// True when cells may keep commands for later.
  bool has_deferred() const noexcept;
  /// Cells were given commands other than by `post`.
  void expect_deferred() noexcept;

 private:
  struct Region {
    alignas(64) std::atomic<std::uint32_t> posted{0};  // sent to cells of this region and not yet delivered
    bool has_deferred = true;                          // cells may hold some from before this was made
  };
  void deliver_now(std::size_t region, std::uint64_t tick) noexcept;

  const RegionPlan& plan_;
  std::span<const std::unique_ptr<Cell>> cells_;
  actors::Registry* registry_;
  std::vector<Region> regions_;
  bool is_held_ = false;
};

}  // namespace weft::mesh
