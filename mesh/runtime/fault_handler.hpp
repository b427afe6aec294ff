// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/halt.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace weft::mesh {

/// Answers to faults: the supervisor decides, the cell or the mesh obeys.
/// @thread the one that runs the cell's region
class FaultHandler {
 public:
  /// `supervisor` null: nobody decides, and faults change nothing.
  FaultHandler(std::span<const std::unique_ptr<Cell>> cells, actors::Supervisor* supervisor,
               const actors::Registry* registry, HaltRecord& halt)
      : cells_(cells), supervisor_(supervisor), registry_(registry), halt_(halt) {}

  /// `slot`: the tick whose slot a restart of the cell fills.
  void answer(std::uint32_t cell, std::uint64_t tick, std::uint64_t slot, actors::FaultKind kind,
              const char* reason) noexcept;
  bool is_isolated(std::uint32_t cell) const noexcept {
    return registry_ && registry_->status(cell) == actors::ActorStatus::isolated;
  }

 private:
  /// Takes a cell back to its snapshot; where that fails the mesh halts, since nothing may go on from in between.
  void restart(std::uint32_t cell, std::uint64_t tick, std::uint64_t slot, actors::FaultKind kind) noexcept;

  std::span<const std::unique_ptr<Cell>> cells_;
  actors::Supervisor* supervisor_;
  const actors::Registry* registry_;
  HaltRecord& halt_;
};

}  // namespace weft::mesh
