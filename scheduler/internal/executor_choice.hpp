// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/internal/wait.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft::scheduler::internal {

namespace choice {
/// Of a thread's time in a step, for each of its regions: the graph's messages cost a quarter to half of this, which is
/// more than shorter steps can gain.
inline constexpr double kLeastRegionNs = 1000;
inline constexpr Nanoseconds kWindow = std::chrono::milliseconds(2);  // one measurement
inline constexpr Nanoseconds kTurn = std::chrono::milliseconds(8);    // the longest between two looks
/// A trial, and the time that what is known of a way comes from. On a busy machine a thread is switched out for as long
/// as a window lasts, so that a few windows say nothing.
inline constexpr Nanoseconds kTrial = std::chrono::milliseconds(16), kTrialMemory = std::chrono::milliseconds(64),
                             kMemory = std::chrono::milliseconds(512);
inline constexpr double kHopeless = 2;  // times the other's time: a window ends the trial
inline constexpr double kOutlier = 3;   // times what is known: the most that a window counts for
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
    if (!is_of(program, regions)) {
      *this = ExecutorChoice();
      program_ = program;
      regions_ = regions;
      threads_ = threads;
    }
    if (!is_trial_ && best_ != kUnknown && now >= retry_at_ && known_[best_].step_ns >= least_step_ns()) begin_trial();
    block_ = block == 0 ? kBlock : block;
    return {way_, std::min(left, steps_to_run())};
  }

  void note(Way way, std::uint64_t steps, Nanoseconds begin, Nanoseconds end) noexcept {
    if (steps == 0 || way != way_) return;
    if (is_trial_) trial_ += end - begin;
    // While threads and caches change over only what is hopeless counts.
    if (std::exchange(warms_up_, false) &&
        !(is_trial_ && end - begin >= choice::kWindow && is_hopeless(mean(end - begin, steps))))
      return;
    window_.took += end - begin;
    window_.steps += steps;
    if (window_.took < choice::kWindow) return;
    const double step_ns = mean(window_.took, window_.steps);
    measured_.add(step_ns, window_.took, choice::kMemory);
    window_ = {};
    // The first way is measured as long as the one that challenges it: its first steps find cold caches.
    const bool decides = is_trial_ || best_ == kUnknown;
    if (decides && measured_.weight < choice::kTrial && !(is_trial_ && is_hopeless(measured_.step_ns))) return;
    const Known measured = std::exchange(measured_, Known());
    known_[way].add(measured.step_ns, measured.weight, is_trial_ ? choice::kTrialMemory : choice::kMemory);
    is_trial_ ? end_trial(end) : follow(step_ns, end);
  }

  Way way() const noexcept { return way_; }
  bool is_of(const void* program, std::size_t regions) const noexcept {
    return program == program_ && regions == regions_;
  }

 private:
  static constexpr std::uint8_t kUnknown = 2;
  static constexpr std::uint64_t kBlock = 256;
  /// Mean time of a step, as far as it is known.
  struct Known {
    double step_ns = 0;
    Nanoseconds weight{0};  // time that it comes from
    void add(double measured_ns, Nanoseconds took, Nanoseconds memory) noexcept {
      // A window in which the whole machine stood still says as little as any other, however long it was.
      if (const double most = choice::kOutlier * step_ns; step_ns > 0 && measured_ns > most) {
        took = Nanoseconds(static_cast<std::int64_t>(static_cast<double>(took.count()) * most / measured_ns));
        measured_ns = most;
      }
      weight = std::min(weight + took, std::max(memory, took));
      step_ns += (measured_ns - step_ns) * static_cast<double>(took.count()) / static_cast<double>(weight.count());
    }
  };

  void begin_trial() noexcept {
    is_trial_ = warms_up_ = true;
    trial_ = Nanoseconds(0);
    way_ = other_than(way_);
    window_ = {};
    measured_ = {};
  }

  void end_trial(Nanoseconds end) noexcept {
    const Way other = static_cast<Way>(best_);
    const Way tried = other_than(other);
    if (!is_confirming_ && known_[other].weight <= choice::kTrialMemory && is_better(tried, other)) {
      // The little that is known of the other may be from a bad moment, such as its first: it has a trial too.
      known_[other] = {};
      is_confirming_ = warms_up_ = true;
      way_ = other;
      return;
    }
    is_trial_ = is_confirming_ = false;
    if (is_better(tried, other)) {
      warms_up_ = way_ != tried;
      take(tried, end);
    } else {
      warms_up_ = way_ != other;
      way_ = other;
      pause_ = std::min(2 * pause_, choice::kLongestPause);
    }
    least_ = known_[best_].step_ns;
    // The trial of the former one takes as long as it was known to.
    const double next_ns = 2 * static_cast<double>(block_) * known_[other_than(static_cast<Way>(best_))].step_ns;
    soonest_ = end + choice::kTrialShare * std::max(trial_, Nanoseconds(static_cast<std::int64_t>(next_ns)));
    retry_at_ = std::max(end + pause_, soonest_);
  }

  static double mean(Nanoseconds took, std::uint64_t steps) noexcept {
    return static_cast<double>(took.count()) / static_cast<double>(steps);
  }
  static Way other_than(Way way) noexcept { return way == kResident ? kGraph : kResident; }
  // In a trial.
  bool is_hopeless(double step_ns) const noexcept {
    return step_ns >= choice::kHopeless * known_[other_than(way_)].step_ns;
  }

  bool is_better(Way one, Way other) const noexcept {
    return known_[one].step_ns < choice::kMargin * known_[other].step_ns;
  }

  void take(Way way, Nanoseconds now) noexcept {
    best_ = way_ = way;
    pause_ = choice::kFirstPause;
    taken_at_ = now;
  }

  // A window of the way taken now.
  void follow(double step_ns, Nanoseconds end) noexcept {
    if (best_ == kUnknown) {
      take(way_, end);
      least_ = step_ns;
      retry_at_ = end;
      return;
    }
    // It was lucky in its trial, or steps have become slower.
    const Way other = other_than(way_);
    if (known_[other].weight != Nanoseconds(0) && end - taken_at_ >= choice::kFirstPause && is_better(other, way_)) {
      take(other, end);
      warms_up_ = true;
      least_ = known_[other].step_ns;
      return;
    }
    least_ = std::min(least_, step_ns);
    if (step_ns <= choice::kWorse * least_) return;
    least_ = step_ns;  // once for each time that it gets worse
    pause_ = choice::kFirstPause;
    retry_at_ = std::min(retry_at_, std::max(end, soonest_));
  }

  double least_step_ns() const noexcept {
    return choice::kLeastRegionNs * static_cast<double>(regions_) / static_cast<double>(threads_);
  }

  // Whole blocks, so that the program is asked where it would be.
  std::uint64_t steps_to_run() const noexcept {
    const double known = best_ == kUnknown ? 0 : known_[best_].step_ns;
    if (known <= 0) return block_;
    const Nanoseconds time = is_trial_ ? choice::kWindow : choice::kTurn;
    const double blocks = static_cast<double>(time.count()) / (known * static_cast<double>(block_));
    return block_ * static_cast<std::uint64_t>(std::clamp(blocks, 1.0, 1e6));
  }

  const void* program_ = nullptr;
  std::size_t regions_ = 0, threads_ = 1;
  std::uint64_t block_ = kBlock;
  Way way_ = kResident;
  std::uint8_t best_ = kUnknown;
  bool is_trial_ = false, is_confirming_ = false, warms_up_ = true;
  Known known_[2];
  Known measured_;    // of the way that runs, since the last decision
  double least_ = 0;  // of the way taken, since it was
  struct {
    Nanoseconds took{0};
    std::uint64_t steps = 0;
  } window_;
  Nanoseconds retry_at_{0}, soonest_{0}, trial_{0}, taken_at_{0}, pause_ = choice::kFirstPause / 2;
};

/// Choices for the programs run last: the ticks of a mesh, copies of its state beside them.
class ExecutorChoices {
 public:
  /// The program's own, which is the first one from now on.
  ExecutorChoice& of(const void* program, std::size_t regions) noexcept {
    const auto found = std::find_if(choices_.begin(), choices_.end() - 1,
                                    [&](const ExecutorChoice& each) { return each.is_of(program, regions); });
    std::rotate(choices_.begin(), found, found + 1);
    return choices_.front();
  }
  const ExecutorChoice& last() const noexcept { return choices_.front(); }

 private:
  std::array<ExecutorChoice, 4> choices_;
};

}  // namespace weft::scheduler::internal
