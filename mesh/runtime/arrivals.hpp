// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"
#include "mesh/runtime/halt.hpp"

#include "core/result.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::mesh {

class Cell;

/// Everything of a running mesh that senders on other threads reach: the cells' mailboxes, which regions have mail, and
/// whether the mesh has stopped. It lasts as long as the mesh, whatever engine and state run in it; so a sender needs
/// no lock, and sessions may come and go, types change and states be loaded while others send.
/// @thread receive, post, halt: any; take, forget: the one that runs the region, or between runs
class Arrivals {
 public:
  /// `region_of_cell`: by cell; it stays as it is. Without cells there is no way in.
  Arrivals(std::span<const std::unique_ptr<Cell>> cells, std::vector<std::uint32_t> region_of_cell,
           std::size_t regions);

  /// A message of a sender outside the mesh. Its stamp: its number in the cell's mailbox.
  /// @error as Cell::receive_from_outside
  Result<std::uint64_t> receive(std::size_t cell, MessagePointer message);
  /// A command of an observer, which has room of its own in the mailbox. @error full
  Result<std::uint64_t> post(std::size_t cell, CommandMessage command);

  /// True when messages for cells of the region may lie in mailboxes. One load, for every step; `take` pairs with
  /// receive and post.
  bool has_mail(std::size_t region) const noexcept {
    return regions_[region].posted.load(std::memory_order_relaxed) != 0;
  }
  bool has_mail() const noexcept;
  /// Before the mailboxes of a region are drained: what is sent from now on is told anew.
  void take(std::size_t region) noexcept { regions_[region].posted.exchange(0, std::memory_order_acquire); }

  HaltRecord& halt() noexcept { return halt_; }
  const HaltRecord& halt() const noexcept { return halt_; }

 private:
  /// Says that mail has come, once it lies in the mailbox.
  Result<std::uint64_t> announce(std::size_t cell, Result<std::uint64_t> sent);

  struct alignas(64) Region {
    std::atomic<std::uint32_t> posted{0};  // sent to cells of this region and not yet delivered
  };
  std::span<const std::unique_ptr<Cell>> cells_;
  std::vector<std::uint32_t> region_of_cell_;
  std::vector<Region> regions_;
  HaltRecord halt_;
};

}  // namespace weft::mesh
