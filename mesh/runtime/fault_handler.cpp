// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/fault_handler.hpp"

#include <new>

namespace weft::mesh {

void FaultHandler::answer(std::uint32_t cell, std::uint64_t tick, std::uint64_t slot, actors::FaultKind kind,
                          const char* reason) noexcept {
  if (!supervisor_) return;
  const actors::FaultReason said = actors::fault_reason(reason);
  const actors::Decision decision = supervisor_->decide({cell, tick, kind, said});
  cells_[cell]->set_marked(decision.action != actors::Policy::restart);
  switch (decision.action) {
    case actors::Policy::halt:
      return halt_.note({tick, cell, kind, said});
    case actors::Policy::hold:
      return;
    case actors::Policy::restart:
      return restart(cell, tick, slot, kind);
    case actors::Policy::isolate:
      return cells_[cell]->set_enabled(false);
  }
}

void FaultHandler::restart(std::uint32_t cell, std::uint64_t tick, std::uint64_t slot,
                           actors::FaultKind kind) noexcept {
  try {
    const Status done = cells_[cell]->restart(slot);
    if (done) return;
    return halt_.note({tick, cell, kind, actors::fault_reason(done.error().text().c_str())});
  } catch (const std::bad_alloc&) {
    halt_.note({tick, cell, kind, actors::fault_reason("no memory for its restart")});
  }
}

}  // namespace weft::mesh
