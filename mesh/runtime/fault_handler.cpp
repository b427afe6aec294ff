// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/fault_handler.hpp"

#include <array>
#include <cstdio>
#include <new>

namespace weft::mesh {
namespace {

/// "z,y,x,l.layers[1]: text", cut to fit.
actors::FaultReason reason_of(const char* reason, const FaultOrigin* layer) noexcept {
  if (!layer) return actors::fault_reason(reason);
  std::array<char, 2 * std::tuple_size_v<actors::FaultReason>> text{};
  std::snprintf(text.data(), text.size(), *reason ? "%s: %s" : "%s", layer->name.c_str(), reason);
  return actors::fault_reason(text.data());
}

}  // namespace

void FaultHandler::answer(const Failure& failure, const FaultOrigins& origins) noexcept {
  if (!supervisor_) return;
  bool is_marked = false;
  const auto ends = [&](const FaultOrigin* layer) {
    const actors::Policy action = answer_one(failure, layer);
    is_marked |= action != actors::Policy::restart;
    return action == actors::Policy::halt || action == actors::Policy::isolate;
  };
  if (origins.empty()) ends(nullptr);
  for (const std::optional<FaultOrigin>& origin : origins)
    if (ends(origin ? &*origin : nullptr)) break;
  cells_[failure.cell]->set_marked(is_marked);
}

actors::Policy FaultHandler::answer_one(const Failure& failure, const FaultOrigin* layer) noexcept {
  const actors::FaultReason said = reason_of(failure.reason, layer);
  const actors::Fault fault{failure.cell, failure.tick, failure.kind, said};
  const actors::Decision decision = layer ? supervisor_->decide(fault, layer->policy) : supervisor_->decide(fault);
  switch (decision.action) {
    case actors::Policy::halt:
      halt_.note({failure.tick, failure.cell, failure.kind, said});
      break;
    case actors::Policy::hold:
      break;
    case actors::Policy::restart:
      restart(failure, layer);
      break;
    case actors::Policy::isolate:
      cells_[failure.cell]->set_enabled(false);
      break;
  }
  return decision.action;
}

void FaultHandler::restart(const Failure& failure, const FaultOrigin* layer) noexcept {
  const auto halt = [&](const char* text) {
    halt_.note({failure.tick, failure.cell, failure.kind, actors::fault_reason(text)});
  };
  try {
    if (const Status done = cells_[failure.cell]->restart(failure.slot, layer); !done)
      halt(done.error().text().c_str());
  } catch (const std::bad_alloc&) {
    halt("no memory for its restart");
  }
}

}  // namespace weft::mesh
