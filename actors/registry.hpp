// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "actors/fwd.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace weft::actors {

enum class ActorStatus : std::uint32_t {
  running,
  held,       ///< keeps its last output until it computes well again
  isolated,   ///< disabled
  halted,     ///< stopped the mesh
  restarted,  ///< running again since its last checkpoint
};
inline constexpr std::size_t kActorStatusCount = 5;
std::string_view name(ActorStatus status) noexcept;

/// One actor's statistics at one moment; each is exact, the set need not be of one instant.
struct ActorView {
  ActorStatus status = ActorStatus::running;
  std::uint64_t messages = 0;  ///< control messages received
  std::uint64_t faults = 0;
  std::uint64_t restarts = 0;
  std::uint64_t last_fault_tick = 0;  ///< meaningful when faults > 0
};

/// The live list of actors: who exists and how each one fares. Writers are the actors' own ticks; readers look on.
/// @thread any; statistics are independent relaxed atomics, so reading never disturbs a tick
class Registry {
 public:
  explicit Registry(std::size_t actors);

  std::size_t size() const noexcept { return size_; }
  ActorView view(ActorId actor) const noexcept;
  ActorStatus status(ActorId actor) const noexcept {
    return static_cast<ActorStatus>(at(actor).status.load(std::memory_order_relaxed));
  }
  /// True when the actor computes: running or restarted.
  bool is_active(ActorId actor) const noexcept {
    const ActorStatus now = status(actor);
    return now == ActorStatus::running || now == ActorStatus::restarted;
  }
  /// Number of actors with this status.
  std::size_t count(ActorStatus status) const noexcept;

  void set_status(ActorId actor, ActorStatus status) noexcept;
  void add_messages(ActorId actor, std::uint64_t count) noexcept;
  void add_fault(ActorId actor, std::uint64_t tick) noexcept;
  void add_restart(ActorId actor) noexcept;
  /// Puts an actor's statistics back, from a checkpoint.
  void restore(ActorId actor, const ActorView& view) noexcept;

  /// Names what is known of the actors now: another number after every change of a statistic, and after `note_change`,
  /// which is for what their owners keep of them elsewhere. No number comes twice but by `set_changes`, which says that
  /// everything is again as it was under that number.
  std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_relaxed); }
  void note_change() noexcept;
  void set_changes(std::uint64_t number) noexcept { changes_.store(number, std::memory_order_relaxed); }

 private:
  struct alignas(64) Entry {
    std::atomic<std::uint32_t> status{0};
    std::atomic<std::uint64_t> messages{0}, faults{0}, restarts{0}, last_fault_tick{0};
  };
  const Entry& at(ActorId actor) const noexcept;
  Entry& at(ActorId actor) noexcept { return const_cast<Entry&>(std::as_const(*this).at(actor)); }
  std::size_t size_;
  std::unique_ptr<Entry[]> entries_;
  std::atomic<std::uint64_t> changes_{0}, last_change_{0};
};

}  // namespace weft::actors
