// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/wait.hpp"

#include <thread>

#if defined(__linux__)
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>

#include <time.h>
#include <unistd.h>
#endif

namespace weft::scheduler::internal {
namespace {

// A wake-up cannot get lost where the heavy fence works; the limit is a net under the net. Where it does not, a
// wake-up may be missed and this is how late the sleeper then is.
constexpr Nanoseconds kFencedLimit = std::chrono::milliseconds(50);
constexpr Nanoseconds kUnfencedLimit = std::chrono::microseconds(500);

#if defined(__linux__)
bool register_membarrier() noexcept {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}
#endif

}  // namespace

bool heavy_fence() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
#if defined(__linux__)
  static const bool registered = register_membarrier();
  return registered && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
#else
  return false;
#endif
}

void ParkingSpot::arm() noexcept {
  word_.store(1, std::memory_order_seq_cst);
  fenced_ = heavy_fence();
}

bool ParkingSpot::park() noexcept {
  const Nanoseconds limit = fenced_ ? kFencedLimit : kUnfencedLimit;
#if defined(__linux__)
  static_assert(sizeof word_ == 4 && std::atomic<std::uint32_t>::is_always_lock_free);
  timespec timeout{0, static_cast<long>(limit.count())};
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), FUTEX_WAIT_PRIVATE, 1, &timeout, nullptr, 0);
#else
  const Nanoseconds end = now() + limit;
  while (is_armed() && now() < end) std::this_thread::sleep_for(std::chrono::microseconds(50));
#endif
  return word_.exchange(0, std::memory_order_relaxed) == 0;
}

void ParkingSpot::unpark() noexcept {
  if (word_.exchange(0, std::memory_order_acq_rel) == 0) return;
#if defined(__linux__)
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
#endif
}

}  // namespace weft::scheduler::internal
