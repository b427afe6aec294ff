// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/halt.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

namespace weft::mesh {

/// Answers to faults: the supervisor decides, the cell or the mesh obeys.
/// @thread answer: the one that runs the cell's region; note_halt, halt: any
class FaultHandler {
 public:
  /// `supervisor` null: nobody decides, and faults change nothing.
  FaultHandler(std::span<const std::unique_ptr<Cell>> cells, actors::Supervisor* supervisor,
               const actors::Registry* registry)
      : cells_(cells), supervisor_(supervisor), registry_(registry) {}

  /// `slot`: the tick whose slot a restart of the cell fills.
  void answer(std::uint32_t cell, std::uint64_t tick, std::uint64_t slot, actors::FaultKind kind,
              const char* reason) noexcept;
  bool is_isolated(std::uint32_t cell) const noexcept {
    return registry_ && registry_->status(cell) == actors::ActorStatus::isolated;
  }
  /// Null: there was none.
  const Halt* halt() const noexcept { return halted_.load(std::memory_order_acquire) ? &first_ : nullptr; }
  /// Halts the mesh, or keeps the halt that came first.
  void note_halt(const Halt& halt) noexcept;
  void clear_halt() noexcept;

 private:
  std::span<const std::unique_ptr<Cell>> cells_;
  actors::Supervisor* supervisor_;
  const actors::Registry* registry_;
  std::atomic<bool> halted_{false};
  std::atomic_flag lock_;
  Halt first_;
};

}  // namespace weft::mesh
