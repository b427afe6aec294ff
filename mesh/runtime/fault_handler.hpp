// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/fault_origins.hpp"
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

  /// A fault of a cell. `slot`: the tick whose slot a restart fills.
  struct Failure {
    std::uint32_t cell = 0;
    std::uint64_t tick = 0;
    actors::FaultKind kind = actors::FaultKind::threw;
    std::uint64_t slot = 0;
    const char* reason = "";
  };
  /// Each origin has an answer of its own, up to one that halts the mesh or isolates the cell.
  void answer(const Failure& failure, const FaultOrigins& origins) noexcept;
  bool is_isolated(std::uint32_t cell) const noexcept {
    return registry_ && registry_->status(cell) == actors::ActorStatus::isolated;
  }

 private:
  /// `layer` null: the cell as a whole.
  actors::Policy answer_one(const Failure& failure, const FaultOrigin* layer) noexcept;
  /// Takes a cell, or a layer of it, back to its snapshot; where that fails the mesh halts, since nothing may go on
  /// from in between.
  void restart(const Failure& failure, const FaultOrigin* layer) noexcept;

  std::span<const std::unique_ptr<Cell>> cells_;
  actors::Supervisor* supervisor_;
  const actors::Registry* registry_;
  HaltRecord& halt_;
};

}  // namespace weft::mesh
