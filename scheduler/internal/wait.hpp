// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace weft::scheduler::internal {

using Nanoseconds = std::chrono::nanoseconds;

/// Monotonic time.
inline Nanoseconds now() noexcept {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

/// Tells the core that this thread is spinning.
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb" ::: "memory");
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// The two halves of an asymmetric fence: threads that step pay a compiler barrier, threads about to sleep pay a system
/// call that makes every running thread of the process pass a full barrier. So a step costs no fence, and yet either
/// the sleeper sees what was published or the publisher sees the sleeper.
inline void light_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }
/// False where the system has no such call: then sleep only for a short time.
bool heavy_fence() noexcept;

/// Sleeping place of one thread, which others wake.
///   sleeper: arm(); look once more whether there is work; if so disarm(), else park(); (park disarms)
///   waker:   publish; light_fence(); if (is_armed()) unpark()
class ParkingSpot {
 public:
  void arm() noexcept;
  void disarm() noexcept { word_.store(0, std::memory_order_relaxed); }
  bool is_armed() const noexcept { return word_.load(std::memory_order_relaxed) != 0; }
  /// Sleeps until unparked, at most some milliseconds; false when that time ran out.
  bool park() noexcept;
  void unpark() noexcept;

 private:
  std::atomic<std::uint32_t> word_{0};  // 1: asleep or about to be
  bool fenced_ = false;                 // the sleeper's own
};

}  // namespace weft::scheduler::internal
