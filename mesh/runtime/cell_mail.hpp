// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/bounded_count.hpp"
#include "mesh/runtime/message.hpp"
#include "mesh/runtime/outbox.hpp"

#include "core/coord.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::mesh {

/// Mail of a cell with layers that handle some: from outside, delivered at a tick boundary, and from neighbours,
/// collected from their outboxes. It waits until the cell fires. Within a tick mail from outside comes first, in the
/// order of its stamps, then that of neighbours, by sender and then as it was sent.
/// @thread admit, leave: any; everything else: the thread that runs the cell's region
class CellMail {
 public:
  /// Mail from outside, and of neighbours, that may wait.
  static constexpr std::uint32_t kCapacity = 1024;

  /// Neighbours' outboxes are read in the order in which they are added.
  void add_neighbour(const Outbox& outbox) { outboxes_.push_back(&outbox); }

  /// Room for one more from outside. False: there is none.
  bool admit() noexcept { return outside_.admit(); }
  void leave() noexcept { outside_.leave(); }

  /// Takes in mail from outside, delivered at the boundary before `tick`. Without memory it is answered: full.
  void deliver(std::uint64_t tick, MailPointer mail) noexcept;
  /// Takes in what neighbours sent for `tick`. What exceeds the capacity, or the memory, is answered: full.
  void collect(std::uint64_t tick, std::uint32_t cell) noexcept;
  /// The next mail for a layer that is due; null: none is. It waits no more.
  MailPointer next(std::uint32_t level, std::uint64_t tick);
  /// The cell does not fire in this tick: answers questions from outside whose deadline has passed. Those of neighbours
  /// end with who asked.
  void end_questions(std::uint64_t tick, Coord at) noexcept;

  std::span<const MailPointer> waiting() const noexcept { return waiting_; }
  /// Goes back to mail that waited then, at `tick`; what came since is answered: not found.
  void restore(std::uint64_t tick, std::span<const MailPointer> waiting);

 private:
  void keep(MailPointer mail);
  /// False, and it is answered, where it exceeds the capacity or the memory.
  bool try_keep(std::uint64_t tick, const MailPointer& mail) noexcept;

  std::vector<const Outbox*> outboxes_;
  std::vector<MailPointer> waiting_;  // by (not_before, sender), then as it came
  std::uint64_t collected_ = UINT64_MAX;
  std::uint32_t neighbours_ = 0;  // mail of neighbours that waits
  BoundedCount outside_{kCapacity};
};

}  // namespace weft::mesh
