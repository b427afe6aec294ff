// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace weft::actors {

/// A bounded queue of messages: many senders, one receiver, no lock. Each message gets a stamp (its number in this
/// mailbox); messages come out in stamp order, and one sender's messages in the order it sent them.
///
/// A ring of slots, each with a turn counter. A slot's turn equals the stamp that may be written into it next;
/// stamp + 1 says that the message of this stamp lies there; stamp + capacity frees it for the next round.
/// @thread push: any; drain, reset: one at a time
/// @source Vyukov 2010, "Bounded MPMC queue", here with a single consumer
template <class Message>
class Mailbox {
  static_assert(std::is_nothrow_move_constructible_v<Message> && std::is_nothrow_move_assignable_v<Message> &&
                std::is_nothrow_default_constructible_v<Message>);

 public:
  /// Room for `capacity` messages, rounded up to a power of two (at least 2).
  explicit Mailbox(std::size_t capacity, std::uint64_t first_stamp = 0)
      : mask_(std::bit_ceil(capacity < 2 ? std::size_t{2} : capacity) - 1), slots_(new Slot[mask_ + 1]) {
    reset(first_stamp);
  }

  std::size_t capacity() const noexcept { return mask_ + 1; }

  /// Appends a message and returns its stamp. Allocates nothing; never waits for another thread.
  /// @error full: the mailbox holds `capacity` messages that are not drained yet; the message is dropped
  Result<std::uint64_t> push(Message message) noexcept {
    // Acquire here, release below: who counts the messages that lie here (mesh::BoundedCount) finds the slot empty that
    // another sender's count says is.
    std::uint64_t stamp = next_.load(std::memory_order_acquire);
    for (;;) {
      Slot& slot = slots_[stamp & mask_];
      // Pairs with the release in drain: the slot was emptied before it is filled again.
      const std::uint64_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn == stamp) {
        if (next_.compare_exchange_weak(stamp, stamp + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
          slot.message = std::move(message);
          slot.turn.store(stamp + 1, std::memory_order_release);  // pairs with the acquire in drain
          return stamp;
        }
      } else if (static_cast<std::int64_t>(turn - stamp) < 0) {
        return fail(Errc::full, "mailbox full");  // short enough that the text needs no allocation
      } else {
        stamp = next_.load(std::memory_order_acquire);
      }
    }
  }

  /// Hands `receive(stamp, Message&&)` every message that was sent before the call, in stamp order; returns how many.
  /// Messages that arrive meanwhile wait for the next drain, so a fast sender cannot hold the receiver.
  template <class Receive>
  std::size_t drain(Receive&& receive) noexcept(noexcept(receive(std::uint64_t{}, std::declval<Message>()))) {
    const std::uint64_t end = next_.load(std::memory_order_relaxed);
    const std::uint64_t begin = head_;
    while (head_ != end) {
      Slot& slot = slots_[head_ & mask_];
      // Pairs with the release in push. A stamp taken but not yet filled ends the drain: order before haste.
      if (slot.turn.load(std::memory_order_acquire) != head_ + 1) break;
      Message message = std::move(slot.message);
      const std::uint64_t stamp = head_++;
      slot.turn.store(stamp + mask_ + 1, std::memory_order_release);  // pairs with the acquire in push
      receive(stamp, std::move(message));
    }
    return static_cast<std::size_t>(head_ - begin);
  }

  /// Nothing was sent since the last drain; a hint while senders are at work. Read by the receiver before a drain,
  /// so that an empty mailbox costs one load.
  bool empty() const noexcept { return next_.load(std::memory_order_relaxed) == head_; }

  /// Forgets all messages and numbers from `first_stamp` on. No sender may be at work.
  void reset(std::uint64_t first_stamp) noexcept {
    for (std::uint64_t i = 0; i <= mask_; ++i) {
      Slot& slot = slots_[(first_stamp + i) & mask_];
      slot.message = Message{};
      slot.turn.store(first_stamp + i, std::memory_order_relaxed);
    }
    head_ = first_stamp;
    next_.store(first_stamp, std::memory_order_release);
  }

 private:
  struct Slot {
    std::atomic<std::uint64_t> turn{0};
    Message message{};
  };
  const std::size_t mask_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<std::uint64_t> next_{0};  // stamp of the next push; written by senders
  alignas(64) std::uint64_t head_ = 0;              // stamp of the next drain; the receiver's own
};

}  // namespace weft::actors
