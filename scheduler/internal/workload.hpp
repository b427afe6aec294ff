// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/internal/wait.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::scheduler::internal {

/// Learns what a program's steps cost and says whether waking others for a run pays. Only ever affects time.
class Workload {
 public:
  /// Opening and closing a run with a worker that is awake costs the caller about this.
  static constexpr double kMeetNs = 1500;
  /// Awaiting a neighbour's progress costs a step about this.
  static constexpr double kAwaitNs = 200;

  /// @param alone_below  ExecutorOptions; zero: never alone
  Workload(Nanoseconds alone_below, Nanoseconds linger)
      : alone_below_(static_cast<double>(alone_below.count())), linger_(linger) {}

  /// @param present some worker is awake already
  bool is_alone_better(const void* program, std::size_t regions, std::uint64_t n, Nanoseconds begin,
                       bool present) noexcept {
    if (alone_below_ == 0) return false;
    if (program != program_ || regions != regions_) {
      program_ = program;
      regions_ = regions;
      step_ns_ = -1;
      near_ = 0;
    }
    if (step_ns_ < 0) return n == 1 && !present;  // unknown: one step tells
    const double serial = step_ns_ * static_cast<double>(n);
    if (step_ns_ < 2 * kAwaitNs || serial < kMeetNs) return true;
    if (present || serial >= alone_below_) return false;
    // Short, and nobody awake: worth it only if runs follow so closely that workers, once awake, stay so.
    near_ = begin - end_ < linger_ / 2 ? near_ + 1 : 0;
    return near_ < 8 || serial < 2 * kMeetNs;
  }

  /// Predicts that workers would have something to do in a run of one step.
  bool is_help_welcome() const noexcept { return step_ns_ < 0 || step_ns_ >= kMeetNs; }

  /// @param threads how many shared the work; what one would take alone is estimated from it
  void note(std::uint64_t steps, std::size_t threads, Nanoseconds begin, Nanoseconds end) noexcept {
    end_ = end;
    if (steps == 0) return;
    double now = static_cast<double>((end - begin).count()) / static_cast<double>(steps);
    if (threads > 1) {
      const double overhead = kAwaitNs + kMeetNs / static_cast<double>(steps);
      now = now > overhead ? (now - overhead) * static_cast<double>(threads) : 0;
    }
    // Believes in less at once, in more by an eighth a run: a run that was preempted looks long.
    step_ns_ = step_ns_ < 0 ? now : std::min(now, step_ns_ * 1.125 + 1);
  }

 private:
  double alone_below_;
  Nanoseconds linger_;
  const void* program_ = nullptr;
  std::size_t regions_ = 0;
  double step_ns_ = -1;  // one step on one thread; negative: unknown
  Nanoseconds end_{0};
  int near_ = 0;
};

}  // namespace weft::scheduler::internal
