// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/internal/wait.hpp"

#include <algorithm>
#include <cstdint>

namespace weft::scheduler::internal {

/// Times of one thread, as the system counts them.
struct ThreadTimes {
  Nanoseconds wall{0}, cpu{0};
  std::uint64_t switches = 0;  // involuntary context switches
};
/// The calling thread's. About half a microsecond.
ThreadTimes thread_times() noexcept;

/// Notices that others use the core of a thread that would work all the time, and says how long the thread then stays
/// away. Only the thread itself uses it.
class CoreWatch {
 public:
  static constexpr Nanoseconds kWindow = std::chrono::milliseconds(2);
  static constexpr Nanoseconds kLeastLoss = std::chrono::milliseconds(1);
  static constexpr Nanoseconds kFirstBackoff = std::chrono::milliseconds(100),
                               kLongestBackoff = std::chrono::seconds(3);

  /// True when a reading is due; cheap, for each step.
  bool is_due() noexcept {
    if (++steps_ % kStepsALook != 0) return false;
    return now() - last_.wall >= kWindow;
  }
  /// True when, since the last reading, the thread was switched out and lost a fifth of its time: it backs off until
  /// `backoff_ends`. Each backoff that follows shortly on another is twice as long.
  bool is_taken(const ThreadTimes& times) noexcept {
    const ThreadTimes last = last_;
    last_ = times;
    if (last.wall == Nanoseconds(0) || times.switches == last.switches) return false;
    const Nanoseconds window = times.wall - last.wall, lost = window - (times.cpu - last.cpu);
    if (lost < kLeastLoss || lost * 5 < window) return false;
    backoff_ = backoff_ends_ != Nanoseconds(0) && times.wall < backoff_ends_ + 2 * backoff_
                   ? std::min(2 * backoff_, kLongestBackoff)
                   : kFirstBackoff;
    backoff_ends_ = times.wall + backoff_;
    return true;
  }
  /// The thread slept by itself: what follows is a new window.
  void restart() noexcept { last_.wall = Nanoseconds(0); }
  Nanoseconds backoff_ends() const noexcept { return backoff_ends_; }
  /// It is needed: nobody else works.
  void end_backoff(Nanoseconds time) noexcept { backoff_ends_ = std::min(backoff_ends_, time); }

 private:
  static constexpr std::uint32_t kStepsALook = 32;
  ThreadTimes last_;
  Nanoseconds backoff_{0}, backoff_ends_{0};
  std::uint32_t steps_ = 0;
};

/// Threads, of so many, that may back off at a time: where more find their cores taken the whole machine is busy, and
/// nobody would be left to work.
constexpr std::size_t most_backing_off(std::size_t threads) noexcept { return threads < 3 ? 0 : (threads + 3) / 4; }

/// True when moving the regions of one thread to the others is worth it. A mesh that waits for a thread whose core is
/// taken may fall to a twentieth of its speed, one whose thread has twice as many regions to a half. Two threads stay.
constexpr bool pays_to_back_off(std::size_t regions, std::size_t threads) noexcept {
  return threads >= 3 && regions >= 2;
}

}  // namespace weft::scheduler::internal
