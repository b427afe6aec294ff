// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weft::mesh {

/// Mail that one layer sends to its neighbours, published as its output is: what it sends as it fires in tick t is read
/// at tick t + 1 by those that it is for. Two slots, by the tick's parity, and the neighbour rule keep writer and
/// readers apart; so no lock is taken, nobody waits, and the order is that of senders, not of arrival.
/// @thread begin, put, drop: the one that runs the sender's region; each: those of its neighbours
class Outbox {
 public:
  static constexpr std::size_t kMost = 256;  // of one tick
  struct Entry {
    std::uint32_t cell = 0;
    MailPointer mail;
  };

  /// Mail that is put from now on is read at `tick`.
  void begin(std::uint64_t tick) noexcept {
    now_ = &slots_[tick & 1];
    now_->tick = tick;
    now_->entries.clear();
  }
  std::size_t size() const noexcept { return now_->entries.size(); }
  bool is_full() const noexcept { return size() == kMost; }
  void put(std::uint32_t cell, MailPointer mail) { now_->entries.push_back({cell, std::move(mail)}); }
  /// Drops what was put since it held `size` messages, and hands each to `answer(mail)`.
  template <class Answer>
  void drop(std::size_t size, Answer&& answer) {
    for (std::size_t i = size; i < now_->entries.size(); ++i) answer(*now_->entries[i].mail);
    now_->entries.resize(size);
  }
  /// Hands `take(mail)` what a cell is to read at `tick`, in the order in which it was sent.
  template <class Take>
  void each(std::uint64_t tick, std::uint32_t cell, Take&& take) const {
    const Slot& slot = slots_[tick & 1];
    if (slot.tick != tick) return;
    for (const Entry& entry : slot.entries)
      if (entry.cell == cell) take(entry.mail);
  }
  /// Forgets everything: the mesh went to another state.
  void clear() noexcept {
    for (Slot& slot : slots_) slot = Slot();
  }

 private:
  struct Slot {
    std::uint64_t tick = 0;  // 0: none, since what is sent in tick 0 is read at 1
    std::vector<Entry> entries;
  };
  std::array<Slot, 2> slots_;
  Slot* now_ = slots_.data();
};

}  // namespace weft::mesh
