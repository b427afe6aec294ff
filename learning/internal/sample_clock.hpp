// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include <algorithm>
#include <cstdint>

namespace weft::learning {

/// Position of a learner among its samples: which step of a run serves which sample, under either schedule.
class SampleClock {
 public:
  static constexpr std::int64_t kNoSample = -1;
  static constexpr std::uint64_t kNow = UINT64_MAX;

  /// Values that change as samples pass, and are saved.
  struct Counters {
    std::uint64_t samples = 0, scored = 0;  // given so far, and scored
    std::uint64_t steps = 0;                // of all runs before this one
    std::uint64_t start_tick = 0;           // at which sample 0 was in the ports (pipelined)
    std::uint64_t block_first = 0;          // sample of the run's first step (settle)
  };

  SampleClock() = default;
  /// `travel`: steps in which a settled sample's errors reach every layer.
  SampleClock(Schedule schedule, std::uint32_t hold, std::uint32_t travel, std::uint32_t latency)
      : is_pipelined_(schedule == Schedule::pipelined), hold_(hold), travel_(travel), latency_(latency) {}

  bool is_pipelined() const noexcept { return is_pipelined_; }
  std::uint64_t steps_per_sample() const noexcept { return is_pipelined_ ? 1 : hold_ + travel_; }
  /// Step of a settled sample that a step of the run is.
  std::uint64_t phase(std::uint64_t step) const noexcept { return (step + first_phase) % steps_per_sample(); }
  bool fires(std::uint64_t step) const noexcept { return is_pipelined_ ? !stands : phase(step) < hold_; }
  std::uint64_t fired_before(std::uint64_t step) const noexcept {
    if (is_pipelined_) return stands ? 0 : step;
    const std::uint64_t period = steps_per_sample(), last = step + first_phase;
    return last / period * hold_ + std::min<std::uint64_t>(last % period, hold_) -
           std::min<std::uint64_t>(first_phase, hold_);
  }
  /// Half of the messages that step `step` of this run writes; the step after it reads that half.
  std::uint64_t parity(std::uint64_t step) const noexcept { return (now.steps + step) & 1; }
  /// The sample that a step serves (settle).
  std::uint64_t sample_of(std::uint64_t step) const noexcept {
    return now.block_first + (step + first_phase) / steps_per_sample();
  }
  /// Tick at which the sample under way left the outputs (settle); `tick` is that of a step behind it.
  std::uint64_t end_tick(std::uint64_t tick) const noexcept { return late_end != kNow ? late_end : tick; }
  /// The sample that the outputs of `output_tick` answer (pipelined); kNoSample before the first and after the last.
  std::int64_t sample_at(std::uint64_t output_tick) const noexcept {
    const std::uint64_t first = now.start_tick + latency_;
    if (output_tick < first || output_tick - first >= now.samples) return kNoSample;
    return static_cast<std::int64_t>(output_tick - first);
  }

  Counters now;
  // Of the run under way alone.
  std::uint64_t first_phase = 0;  // of a settled sample's steps
  std::uint64_t late_end = kNow;  // when the sample that is trained late left the outputs (settle)
  std::uint64_t stands = 0;       // 1:                   // errors move and no tick passes (pipelined)

 private:
  bool is_pipelined_ = false;
  std::uint32_t hold_ = 0, travel_ = 0, latency_ = 0;
};

}  // namespace weft::learning
