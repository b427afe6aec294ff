// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/fault_handler.hpp"

#include <tuple>

namespace weft::mesh {

void FaultHandler::answer(std::uint32_t cell, std::uint64_t tick, std::uint64_t slot, actors::FaultKind kind,
                          const char* reason) noexcept {
  if (!supervisor_) return;
  const actors::FaultReason said = actors::fault_reason(reason);
  const actors::Decision decision = supervisor_->decide({cell, tick, kind, said});
  cells_[cell]->set_marked(decision.action != actors::Policy::restart);
  switch (decision.action) {
    case actors::Policy::halt:
      return note_halt({tick, cell, kind, said});
    case actors::Policy::hold:
      return;
    case actors::Policy::restart:
      return cells_[cell]->restart(slot);
    case actors::Policy::isolate:
      return cells_[cell]->set_enabled(false);
  }
}

void FaultHandler::note_halt(const Halt& halt) noexcept {
  // At most once in a run, so a spin lock costs nothing; the earliest fault wins, whichever thread gets here first.
  while (lock_.test_and_set(std::memory_order_acquire)) {
  }
  if (std::tie(halt.tick, halt.cell) < std::tie(first_.tick, first_.cell)) first_ = halt;
  lock_.clear(std::memory_order_release);
  halted_.store(true, std::memory_order_release);  // pairs with the acquire in halt
}

void FaultHandler::clear_halt() noexcept {
  if (!halt()) return;
  first_ = {};
  halted_.store(false, std::memory_order_release);
}

}  // namespace weft::mesh
