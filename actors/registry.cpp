// SPDX-License-Identifier: Apache-2.0

#include "actors/registry.hpp"

#include "core/assert.hpp"

#include <string>

namespace weft::actors {

std::string_view name(ActorStatus status) noexcept {
  constexpr std::string_view kNames[kActorStatusCount] = {"running", "held", "isolated", "halted", "restarted"};
  return kNames[static_cast<std::size_t>(status)];
}

Registry::Registry(std::size_t actors) : size_(actors), entries_(new Entry[actors]) {}

const Registry::Entry& Registry::at(ActorId actor) const noexcept {
  WEFT_ASSERT(actor < size_, "actor " + std::to_string(actor) + " of " + std::to_string(size_));
  return entries_[actor];
}

ActorView Registry::view(ActorId actor) const noexcept {
  const Entry& entry = at(actor);
  ActorView view;
  view.status = static_cast<ActorStatus>(entry.status.load(std::memory_order_relaxed));
  view.messages = entry.messages.load(std::memory_order_relaxed);
  view.faults = entry.faults.load(std::memory_order_relaxed);
  view.restarts = entry.restarts.load(std::memory_order_relaxed);
  view.last_fault_tick = entry.last_fault_tick.load(std::memory_order_relaxed);
  return view;
}

std::size_t Registry::count(ActorStatus status) const noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    count += entries_[i].status.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(status);
  }
  return count;
}

void Registry::note_change() noexcept {
  // Of several threads any may come last: every number is new.
  changes_.store(last_change_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void Registry::set_status(ActorId actor, ActorStatus status) noexcept {
  at(actor).status.store(static_cast<std::uint32_t>(status), std::memory_order_relaxed);
  note_change();
}

void Registry::add_messages(ActorId actor, std::uint64_t count) noexcept {
  at(actor).messages.fetch_add(count, std::memory_order_relaxed);
  note_change();
}

void Registry::add_fault(ActorId actor, std::uint64_t tick) noexcept {
  Entry& entry = at(actor);
  entry.last_fault_tick.store(tick, std::memory_order_relaxed);
  entry.faults.fetch_add(1, std::memory_order_relaxed);
  note_change();
}

void Registry::add_restart(ActorId actor) noexcept {
  at(actor).restarts.fetch_add(1, std::memory_order_relaxed);
  note_change();
}

void Registry::restore(ActorId actor, const ActorView& view) noexcept {
  Entry& entry = at(actor);
  entry.status.store(static_cast<std::uint32_t>(view.status), std::memory_order_relaxed);
  entry.messages.store(view.messages, std::memory_order_relaxed);
  entry.faults.store(view.faults, std::memory_order_relaxed);
  entry.restarts.store(view.restarts, std::memory_order_relaxed);
  entry.last_fault_tick.store(view.last_fault_tick, std::memory_order_relaxed);
  note_change();
}

}  // namespace weft::actors
