// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace weft::scheduler {

/// Source of a clock's time and its waits.
class TimeSource {
 public:
  virtual ~TimeSource() = default;
  /// Time since an arbitrary start; never runs backwards.
  virtual std::chrono::nanoseconds now() noexcept = 0;
  /// Returns at `time` or later; may be early when the wait is interrupted.
  virtual void sleep_until(std::chrono::nanoseconds time) noexcept = 0;
  /// Returns at `time` as exactly as possible, at the cost of a busy core.
  virtual void spin_until(std::chrono::nanoseconds time) noexcept { sleep_until(time); }
};

/// The monotonic clock of the system.
TimeSource& steady_time() noexcept;

/// Time that only moves when told (or slept through): makes clock tests exact.
/// @thread any
class VirtualTime final : public TimeSource {
 public:
  std::chrono::nanoseconds now() noexcept override { return std::chrono::nanoseconds(now_.load()); }
  void sleep_until(std::chrono::nanoseconds time) noexcept override;
  void advance(std::chrono::nanoseconds by) noexcept { now_.fetch_add(by.count()); }

 private:
  std::atomic<std::int64_t> now_{0};
};

/// Policy of a fixed-rate clock for ticks whose time passed while an earlier one was still running.
enum class Overrun {
  skip,      ///< drop them: the next tick is the next one still ahead on the original grid
  catch_up,  ///< run them at once, back to back, until the grid is reached again
  stretch,   ///< shift the grid: the late tick is due now, later ones whole periods after it
};
std::string_view name(Overrun policy) noexcept;
/// Of "skip", "catch_up" and "stretch".
std::optional<Overrun> parse_overrun(std::string_view text) noexcept;

/// Counts of a clock, which cost nothing to read.
struct ClockCounts {
  std::uint64_t ticks = 0, missed = 0, skipped = 0;  ///< as in ClockReport
};

/// Ticks that were due between two looks at a clock, skipped ones among them, and those that were finished before the
/// next one was due.
struct DueTicks {
  std::uint64_t due = 0, met = 0;
};
DueTicks due_between(const ClockCounts& before, const ClockCounts& now) noexcept;

/// Statistics so far. Durations in nanoseconds; quantiles are upper bounds within 1/8 of the value.
struct ClockReport {
  std::uint64_t ticks = 0;     ///< ticks that ran
  std::uint64_t overruns = 0;  ///< times that a tick was finished after the next one was due
  std::uint64_t skipped = 0;   ///< ticks dropped by Overrun::skip
  std::uint64_t missed = 0;  ///< ticks of a fixed-rate clock that were finished later than a period after they were due
  std::chrono::nanoseconds last{0}, worst{0}, median{0}, p99{0}, p999{0};  ///< due -> finished
  /// Lateness: due -> begun, of each grant of a fixed-rate clock.
  std::chrono::nanoseconds late_median{0}, late_p99{0}, late_p999{0}, worst_start{0};
  /// Of the lateness, from one grant to the next: root of the mean square of the difference.
  std::chrono::nanoseconds jitter{0};
};

/// Says when ticks may run.
///   while (auto n = clock.await(64)) { executor.run(program, n); clock.finished(n); }
/// @thread await and finished: the driving thread; stop, report (and Stepped::step): any
class Clock {
 public:
  virtual ~Clock() = default;
  /// Waits until ticks are due; returns how many may run now, at most `wanted` (>= 1); 0 when stopped or interrupted.
  virtual std::uint64_t await(std::uint64_t wanted) noexcept = 0;
  /// Tells that the ticks granted by the last await have run.
  virtual void finished(std::uint64_t ticks) noexcept = 0;
  virtual ClockReport report() const noexcept = 0;
  virtual ClockCounts counts() const noexcept = 0;
  /// Ends the current and all later waits.
  virtual void stop() noexcept = 0;
};

/// As fast as the machine goes; for programs with one loop for every kind of clock. Latency of a tick is its share of
/// its grant's duration.
std::unique_ptr<Clock> make_free_clock(TimeSource& time = steady_time());

/// Ticks run when `step` allows them: for programs that drive a mesh from a debugger, a game loop or a test.
class SteppedClock : public Clock {
 public:
  /// Allows `ticks` more.
  virtual void step(std::uint64_t ticks) noexcept = 0;
};
std::unique_ptr<SteppedClock> make_stepped_clock(TimeSource& time = steady_time());

struct FixedRate {
  double hertz = 1000;
  Overrun overrun = Overrun::skip;
  /// Before each tick, so long ahead, the executor's workers are woken, and after it sent to sleep. The wait ends in a
  /// spin, of this length at most and as short as the system's wake-ups allow: what they were late by so far, and half
  /// a percent of the period.
  std::chrono::nanoseconds wake_ahead = std::chrono::microseconds(100);
  Executor* executor = nullptr;  ///< whom to wake; may be null
  /// Asked every 20 ms of a wait: true ends it (await returns 0), and the tick stays due.
  std::function<bool()> is_interrupted{};
};
/// The first tick is due at once, tick k after k periods (integer nanoseconds, rounded from hertz).
/// @error invalid_argument unless 1e-3 <= hertz <= 1e7, 0 <= wake_ahead <= 1 s and overrun is one of its three
Result<std::unique_ptr<Clock>> make_fixed_rate_clock(FixedRate rate, TimeSource& time = steady_time());

}  // namespace weft::scheduler
