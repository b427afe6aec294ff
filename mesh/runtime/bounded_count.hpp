// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <cstdint>

namespace weft::mesh {

/// Number of messages that are somewhere, and the most that may be: how senders on many threads share what room there
/// is.
/// @thread any
class BoundedCount {
 public:
  explicit BoundedCount(std::uint32_t most) noexcept : most_(most) {}

  std::uint32_t most() const noexcept { return most_; }
  /// One more. False: there is no room.
  bool admit() noexcept {
    // Acquire: pairs with the release in leave, so that who was admitted finds the place empty.
    if (count_.fetch_add(1, std::memory_order_acquire) < most_) return true;
    leave();
    return false;
  }
  void leave() noexcept { count_.fetch_sub(1, std::memory_order_release); }
  /// So many are there now instead of so many, whether there is room or not: the mesh went to another state.
  void change(std::uint32_t from, std::uint32_t to) noexcept { count_.fetch_add(to - from, std::memory_order_relaxed); }

 private:
  const std::uint32_t most_;
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace weft::mesh
