// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/cell.hpp"

#include "core/state_hash.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::mesh {

/// Cells that do not fire in every tick, or do more than fire: cached, and looked up again only after a change.
class SchedulingExceptions {
 public:
  SchedulingExceptions(std::span<const std::unique_ptr<Cell>> cells, const actors::Registry* registry)
      : cells_(cells), registry_(registry) {}

  /// Ticks from this one on before one in which a cell does more than fire, or not, as its period says: it gets a
  /// command that it has kept, or fires for the first time after a fault.
  std::uint64_t steady_ticks(std::uint64_t tick) const;
  /// Ticks after which the same cells fire again.
  std::uint64_t firing_period() const { return now().period; }
  /// True when every cell fires in every tick and no command waits in one.
  bool are_none() const {
    const Found& found = now();
    return found.fire_always && found.first_command == UINT64_MAX;
  }
  /// Adds the cells that fire in these ticks.
  void add_firing(std::uint64_t tick, std::uint64_t ticks, StateHasher& hasher) const;

 private:
  struct Found {
    std::uint64_t seen = UINT64_MAX;           // Registry::changes() when the cells were looked up
    std::uint64_t first_command = UINT64_MAX;  // the tick of the first one that was kept
    std::vector<std::uint64_t> marked;         // periods of cells that are marked and enabled
    std::vector<std::uint64_t> periods;        // other than 1, each once
    bool fire_always = false;                  // all cells
    std::uint64_t period = 1;                  // all of them; UINT64_MAX: a long one
    Hash128 who;
  };
  const Found& now() const;

  std::span<const std::unique_ptr<Cell>> cells_;
  const actors::Registry* registry_;
  mutable Found found_;
};

}  // namespace weft::mesh
