// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/internal/wait.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::scheduler::internal {

namespace choice {
/// Of a step's time, for each region: the graph's messages cost a quarter to half of this, all threads together, which
/// is more than shorter steps can gain.
inline constexpr double kLeastRegionNs = 1000;
inline constexpr Nanoseconds kWindow = std::chrono::milliseconds(2);  // one measurement
inline constexpr Nanoseconds kTurn = std::chrono::milliseconds(8);    // the longest between two looks
inline constexpr Nanoseconds kFirstPause = std::chrono::milliseconds(64), kLongestPause = std::chrono::seconds(16);
inline constexpr int kTrialShare = 128;  // trials take one part in so many of the time
inline constexpr double kMargin = 0.95;  // of the other's time, to be taken instead
inline constexpr double kWorse = 1.25;   // than it was: the other is tried at once
}  // namespace choice

/// Measures what a step of a program costs on resident workers and in the graph, and says which of the two is next.
/// Only ever affects time.
class ExecutorChoice {
 public:
  enum Way : std::uint8_t { kResident, kGraph };
  struct Turn {
    Way way = kResident;
    std::uint64_t steps = 0;  // after which the choice is made again
  };
  /// @param left steps of the run that are still to be done, 1 or more
  Turn next(const void* program, std::size_t regions, std::size_t threads, std::uint64_t left, std::uint64_t block,
            Nanoseconds now) noexcept {
    if (program != program_ || regions != regions_) {
      *this = ExecutorChoice();
      program_ = program;
      regions_ = regions;
    }
    // A region is one thread's at a time: with as many threads there is nothing to even out.
    if (regions <= threads) return {kResident, left};
    if (!is_trial_ && best_ != kUnknown && now >= retry_at_ && ns_[best_] >= least_step_ns()) begin_trial();
    return {way_, std::min(left, steps_for(block == 0 ? kBlock : block))};
  }

  void note(Way way, std::uint64_t steps, Nanoseconds begin, Nanoseconds end) noexcept {
    if (steps == 0 || way != way_) return;
    if (is_trial_) trial_ += end - begin;
    if (warms_up_) {  // threads and caches have just changed over
      warms_up_ = false;
      return;
    }
    window_.took += end - begin;
    window_.steps += steps;
    if (window_.took < choice::kWindow) return;
    const double step_ns = static_cast<double>(window_.took.count()) / static_cast<double>(window_.steps);
    window_ = {};
    ns_[way] = step_ns;
    is_trial_ ? end_trial(end) : follow(step_ns, end);
  }

  Way way() const noexcept { return way_; }

 private:
  static constexpr std::uint8_t kUnknown = 2;
  static constexpr std::uint64_t kBlock = 256;

  void begin_trial() noexcept {
    is_trial_ = warms_up_ = true;
    trial_ = Nanoseconds(0);
    way_ = way_ == kResident ? kGraph : kResident;
    window_ = {};
  }

  void end_trial(Nanoseconds end) noexcept {
    is_trial_ = false;
    const Way tried = way_, other = static_cast<Way>(best_);
    if (ns_[tried] < choice::kMargin * ns_[other]) {
      best_ = tried;
      pause_ = choice::kFirstPause;
    } else {
      way_ = other;
      warms_up_ = true;
      pause_ = std::min(2 * pause_, choice::kLongestPause);
    }
    least_ = ns_[best_];
    soonest_ = end + choice::kTrialShare * trial_;
    retry_at_ = std::max(end + pause_, soonest_);
  }

  // A window of the way taken now.
  void follow(double step_ns, Nanoseconds end) noexcept {
    if (best_ == kUnknown) {
      best_ = way_;
      least_ = step_ns;
      retry_at_ = end;
      return;
    }
    least_ = std::min(least_, step_ns);
    if (step_ns <= choice::kWorse * least_) return;
    least_ = step_ns;  // once for each time that it gets worse
    pause_ = choice::kFirstPause;
    retry_at_ = std::min(retry_at_, std::max(end, soonest_));
  }

  double least_step_ns() const noexcept { return choice::kLeastRegionNs * static_cast<double>(regions_); }

  // Whole blocks, so that the program is asked where it would be.
  std::uint64_t steps_for(std::uint64_t block) const noexcept {
    const double known = best_ == kUnknown ? 0 : ns_[best_];
    if (known <= 0) return block;
    const Nanoseconds time = is_trial_ ? choice::kWindow : choice::kTurn;
    const double blocks = static_cast<double>(time.count()) / (known * static_cast<double>(block));
    return block * static_cast<std::uint64_t>(std::clamp(blocks, 1.0, 1e6));
  }

  const void* program_ = nullptr;
  std::size_t regions_ = 0;
  Way way_ = kResident;
  std::uint8_t best_ = kUnknown;
  bool is_trial_ = false, warms_up_ = true;
  double ns_[2] = {0, 0};  // a step, by the last measurement
  double least_ = 0;       // of the way taken, since it was
  struct {
    Nanoseconds took{0};
    std::uint64_t steps = 0;
  } window_;
  Nanoseconds retry_at_{0}, soonest_{0}, trial_{0}, pause_ = choice::kFirstPause / 2;
};

}  // namespace weft::scheduler::internal
