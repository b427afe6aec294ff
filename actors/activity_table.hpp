// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "actors/fwd.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

namespace weft::actors {

/// Table of the actor that each worker runs, read by a watchdog and a sampling profiler. An entry costs the
/// worker one relaxed store to a cache line of its own.
/// @thread begin, enter, leave: the thread that runs the worker's part; at: any
class ActivityTable {
 public:
  static constexpr ActorId kNobody = std::numeric_limits<ActorId>::max();

  /// One reading. Equal `mark`s of one worker mean that it has not moved in between.
  struct Place {
    std::uint64_t mark = 0;
    std::uint64_t tick = 0;
    ActorId actor = kNobody;
    bool is_idle() const noexcept { return actor == kNobody; }
  };

  explicit ActivityTable(std::size_t workers) : size_(workers), places_(new Entry[workers]) {}

  std::size_t size() const noexcept { return size_; }

  /// Sets the `tick` of the worker's entries from now on.
  void begin(std::size_t worker, std::uint64_t tick) noexcept {
    places_[worker].tick.store(tick, std::memory_order_relaxed);
  }
  /// The worker is at `actor`. `serial` tells its visits apart, also those of one tick: a count of steps, say. A worker
  /// would have to come round 2^32 steps later, between two looks, to be taken for one that stands.
  void enter(std::size_t worker, ActorId actor, std::uint64_t serial) noexcept {
    places_[worker].mark.store(std::uint64_t{actor} << 32 | static_cast<std::uint32_t>(serial),
                               std::memory_order_relaxed);
  }
  /// The worker is at nobody: done, or waiting for others.
  void leave(std::size_t worker) noexcept { places_[worker].mark.store(kIdle, std::memory_order_relaxed); }

  /// Actor that a worker runs. The tick is that of the entry once the worker pauses; while it moves it may be the next
  /// one.
  Place at(std::size_t worker) const noexcept {
    const std::uint64_t mark = places_[worker].mark.load(std::memory_order_relaxed);
    return {mark, places_[worker].tick.load(std::memory_order_relaxed), static_cast<ActorId>(mark >> 32)};
  }

 private:
  static constexpr std::uint64_t kIdle = std::uint64_t{kNobody} << 32;
  struct alignas(64) Entry {
    std::atomic<std::uint64_t> mark{kIdle}, tick{0};
  };
  std::size_t size_;
  std::unique_ptr<Entry[]> places_;
};

}  // namespace weft::actors
