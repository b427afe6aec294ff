// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

namespace weft::actors {

/// The last events of something that runs, for observers: a bounded ring that overwrites its oldest entry and never
/// makes a writer wait.
///
/// A slot's word `turn` is 2*number + 2 when event `number` lies in it and odd while one is written. Payloads are
/// kept as atomic words, so a reader that meets a writer sees a torn copy, notices by `turn`, and drops it.
/// @thread append, read: any
template <class Event>
class EventRing {
  static_assert(std::is_trivially_copyable_v<Event> && std::is_default_constructible_v<Event>);
  static constexpr std::size_t kWords = (sizeof(Event) + 7) / 8;

 public:
  /// Keeps the last `capacity` events, rounded up to a power of two.
  explicit EventRing(std::size_t capacity)
      : mask_(std::bit_ceil(capacity < 1 ? std::size_t{1} : capacity) - 1), slots_(new Slot[mask_ + 1]) {}

  std::size_t capacity() const noexcept { return mask_ + 1; }
  /// Events appended so far, lost ones included.
  std::uint64_t appended() const noexcept { return next_.load(std::memory_order_acquire); }
  /// Events given up because a writer a whole round behind held their slot.
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

  void append(const Event& event) noexcept {
    const std::uint64_t number = next_.fetch_add(1, std::memory_order_acq_rel);
    Slot& slot = slots_[number & mask_];
    std::uint64_t turn = slot.turn.load(std::memory_order_relaxed);
    // Odd: another writer is in the slot. Newer: this writer was overtaken by a whole round.
    if ((turn & 1) || turn > 2 * number ||
        !slot.turn.compare_exchange_strong(turn, 2 * number + 1, std::memory_order_acq_rel)) {
      lost_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    std::array<std::uint64_t, kWords> words{};
    std::memcpy(words.data(), &event, sizeof event);
    // Release: who sees a word of this event also sees the odd turn (pairs with the acquires in read).
    for (std::size_t i = 0; i < kWords; ++i) slot.words[i].store(words[i], std::memory_order_release);
    slot.turn.store(2 * number + 2, std::memory_order_release);  // pairs with the first acquire in read
  }

  /// Copies the events with numbers from `first` on that are still held, oldest first; `first` becomes the number
  /// to go on from. Events overwritten meanwhile are left out.
  std::vector<Event> read(std::uint64_t& first) const {
    const std::uint64_t end = appended();
    if (end > first + capacity()) first = end - capacity();
    std::vector<Event> events;
    for (; first < end; ++first) {
      const Slot& slot = slots_[first & mask_];
      const std::uint64_t turn = slot.turn.load(std::memory_order_acquire);  // pairs with the last release in append
      if (turn != 2 * first + 2) {
        // Not yet there: read it next time, unless events were lost, then it may never come. Newer: overwritten.
        if (turn < 2 * first + 2 && lost() == 0) break;
        continue;
      }
      std::array<std::uint64_t, kWords> words{};
      for (std::size_t i = 0; i < kWords; ++i) words[i] = slot.words[i].load(std::memory_order_acquire);
      if (slot.turn.load(std::memory_order_relaxed) != turn) continue;
      std::memcpy(static_cast<void*>(&events.emplace_back()), words.data(), sizeof(Event));
    }
    return events;
  }

 private:
  struct Slot {
    std::atomic<std::uint64_t> turn{0};
    std::array<std::atomic<std::uint64_t>, kWords> words{};
  };
  const std::size_t mask_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> lost_{0};
};

}  // namespace weft::actors
