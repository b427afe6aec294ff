// SPDX-License-Identifier: Apache-2.0

#include "scheduler/clock.hpp"

#include "scheduler/internal/histogram.hpp"
#include "scheduler/internal/wait.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <utility>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace weft::scheduler {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

constexpr Nanoseconds kLongestAhead = std::chrono::seconds(1);

class SteadyTime final : public TimeSource {
 public:
  Nanoseconds now() noexcept override { return internal::now(); }
  void sleep_until(Nanoseconds time) noexcept override {
#if defined(__linux__)
    // The system may put a thread's timers off by 50 us to join them with others, unless told that it may not.
    const int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    if (slack > 1) prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
#endif
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(time));
#if defined(__linux__)
    if (slack > 1) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack), 0, 0, 0);
#endif
  }
  void spin_until(Nanoseconds time) noexcept override {
    while (now() < time) internal::pause();
  }
};

// The statistics every clock keeps. Written by the driving thread; relaxed, since each stands for itself.
class ClockRecorder {
 public:
  void add_tick(Nanoseconds latency, std::uint64_t count = 1) noexcept {
    ticks_.fetch_add(count, std::memory_order_relaxed);
    last_.store(latency.count(), std::memory_order_relaxed);
    raise(worst_, latency);
    latencies_.record(latency, count);
  }
  void add_start(Nanoseconds late) noexcept {
    raise(worst_start_, late);
    lateness_.record(late);
    const double change = static_cast<double>((late - last_start_).count());
    if (starts_++ > 0)
      squares_.store(squares_.load(std::memory_order_relaxed) + change * change, std::memory_order_relaxed);
    last_start_ = late;
    changes_.store(starts_ - 1, std::memory_order_relaxed);
  }
  void add_overrun() noexcept { overruns_.fetch_add(1, std::memory_order_relaxed); }
  void add_missed() noexcept { missed_.fetch_add(1, std::memory_order_relaxed); }
  void add_skipped(std::uint64_t count) noexcept { skipped_.fetch_add(count, std::memory_order_relaxed); }

  ClockCounts counts() const noexcept {
    return {ticks_.load(std::memory_order_relaxed), missed_.load(std::memory_order_relaxed),
            skipped_.load(std::memory_order_relaxed)};
  }
  ClockReport report() const noexcept {
    ClockReport report;
    const ClockCounts all = counts();
    report.ticks = all.ticks;
    report.overruns = overruns_.load(std::memory_order_relaxed);
    report.missed = all.missed;
    report.skipped = all.skipped;
    report.last = Nanoseconds(last_.load(std::memory_order_relaxed));
    report.worst = Nanoseconds(worst_.load(std::memory_order_relaxed));
    report.worst_start = Nanoseconds(worst_start_.load(std::memory_order_relaxed));
    report.median = latencies_.quantile(0.5);
    report.p99 = latencies_.quantile(0.99);
    report.p999 = latencies_.quantile(0.999);
    report.late_median = lateness_.quantile(0.5);
    report.late_p99 = lateness_.quantile(0.99);
    report.late_p999 = lateness_.quantile(0.999);
    if (const std::uint64_t changes = changes_.load(std::memory_order_relaxed))
      report.jitter =
          Nanoseconds(std::llround(std::sqrt(squares_.load(std::memory_order_relaxed) / static_cast<double>(changes))));
    return report;
  }

 private:
  static void raise(std::atomic<std::int64_t>& most, Nanoseconds value) noexcept {
    if (value.count() > most.load(std::memory_order_relaxed)) most.store(value.count(), std::memory_order_relaxed);
  }
  std::atomic<std::uint64_t> ticks_{0}, overruns_{0}, skipped_{0}, missed_{0};
  std::atomic<std::int64_t> last_{0}, worst_{0}, worst_start_{0};
  internal::Histogram latencies_, lateness_;
  std::atomic<double> squares_{0};
  std::atomic<std::uint64_t> changes_{0};
  // The driving thread's.
  std::uint64_t starts_ = 0;
  Nanoseconds last_start_{0};
};

class FreeClock final : public Clock {
 public:
  explicit FreeClock(TimeSource& time) : time_(time) {}
  std::uint64_t await(std::uint64_t wanted) noexcept override {
    if (stopped_.load(std::memory_order_relaxed)) return 0;
    begun_ = time_.now();
    return wanted;
  }
  void finished(std::uint64_t ticks) noexcept override {
    if (ticks > 0) statistics_.add_tick((time_.now() - begun_) / static_cast<std::int64_t>(ticks), ticks);
  }
  ClockReport report() const noexcept override { return statistics_.report(); }
  ClockCounts counts() const noexcept override { return statistics_.counts(); }
  void stop() noexcept override { stopped_.store(true, std::memory_order_relaxed); }

 private:
  TimeSource& time_;
  std::atomic<bool> stopped_{false};
  Nanoseconds begun_{0};
  ClockRecorder statistics_;
};

class SteppedClockImpl final : public SteppedClock {
 public:
  explicit SteppedClockImpl(TimeSource& time) : time_(time) {}

  void step(std::uint64_t ticks) noexcept override {
    allowed_.fetch_add(ticks, std::memory_order_release);  // pairs with the acquire in await
    ring();
  }
  void stop() noexcept override {
    stopped_.store(true, std::memory_order_release);  // pairs with the acquire in await
    ring();
  }
  std::uint64_t await(std::uint64_t wanted) noexcept override {
    for (;;) {
      // Read before the conditions: a ring after this makes the wait return at once.
      const std::uint32_t rings = rings_.load(std::memory_order_acquire);
      if (stopped_.load(std::memory_order_acquire)) return 0;
      const std::uint64_t open = allowed_.load(std::memory_order_acquire) - taken_;
      if (open > 0) {
        granted_ = std::min(open, wanted);
        taken_ += granted_;
        begun_ = time_.now();
        return granted_;
      }
      rings_.wait(rings, std::memory_order_acquire);
    }
  }
  void finished(std::uint64_t ticks) noexcept override {
    ticks = std::min(ticks, granted_);
    taken_ -= granted_ - ticks;  // what was cut short stays allowed
    granted_ = 0;
    if (ticks > 0) statistics_.add_tick((time_.now() - begun_) / static_cast<std::int64_t>(ticks), ticks);
  }
  ClockReport report() const noexcept override { return statistics_.report(); }
  ClockCounts counts() const noexcept override { return statistics_.counts(); }

 private:
  void ring() noexcept {
    rings_.fetch_add(1, std::memory_order_release);
    rings_.notify_all();
  }
  TimeSource& time_;
  std::atomic<std::uint64_t> allowed_{0};
  std::atomic<std::uint32_t> rings_{0};
  std::atomic<bool> stopped_{false};
  std::uint64_t taken_ = 0, granted_ = 0;
  Nanoseconds begun_{0};
  ClockRecorder statistics_;
};

class FixedRateClock final : public Clock {
 public:
  FixedRateClock(FixedRate rate, TimeSource& time)
      : rate_(std::move(rate)),
        period_(std::max<std::int64_t>(1, std::llround(1e9 / rate_.hertz))),
        longest_spin_(std::min(rate_.wake_ahead, std::max<Nanoseconds>(kLeastSpin, period_ / 200))),
        spin_(longest_spin_),
        time_(time) {}

  std::uint64_t await(std::uint64_t wanted) noexcept override {
    const Nanoseconds now = time_.now();
    if (!started_) {
      started_ = true;
      next_ = last_end_ = now;
    }
    granted_ = 1;
    // Late by its own doing, or by a caller that was away for whole periods.
    if (last_end_ > next_ || now >= next_ + period_) {
      statistics_.add_overrun();
      make_up(now, wanted);
    }
    if (!wait_for(next_)) return 0;
    due_ = next_;
    next_ += static_cast<std::int64_t>(granted_) * period_;
    begun_ = time_.now();
    statistics_.add_start(begun_ - due_);
    return granted_;
  }

  void finished(std::uint64_t ticks) noexcept override {
    last_end_ = time_.now();
    ticks = std::min(ticks, granted_);
    next_ -= static_cast<std::int64_t>(granted_ - ticks) * period_;  // what was cut short stays due
    granted_ = 0;
    if (rate_.executor && next_ - last_end_ > 2 * rate_.wake_ahead) rate_.executor->dismiss();
    for (std::uint64_t i = 0; i < ticks; ++i) {
      const Nanoseconds latency = last_end_ - (due_ + static_cast<std::int64_t>(i) * period_);
      statistics_.add_tick(latency);
      if (latency > period_) statistics_.add_missed();
    }
  }
  ClockReport report() const noexcept override { return statistics_.report(); }
  ClockCounts counts() const noexcept override { return statistics_.counts(); }
  void stop() noexcept override { stopped_.store(true, std::memory_order_relaxed); }

 private:
  void make_up(Nanoseconds now, std::uint64_t wanted) noexcept {
    const Nanoseconds late = std::max(now, last_end_) - next_;
    const std::uint64_t passed = static_cast<std::uint64_t>(late / period_);  // grid points after next_ that passed too
    switch (rate_.overrun) {
      case Overrun::skip: {
        const std::uint64_t dropped = late.count() == 0 ? 0 : passed + (late % period_ != Nanoseconds(0));
        next_ += static_cast<std::int64_t>(dropped) * period_;
        statistics_.add_skipped(dropped);
        break;
      }
      case Overrun::catch_up:
        granted_ = std::min(wanted, passed + 1);
        break;
      case Overrun::stretch:
        next_ += late;
        break;
    }
  }

  // False when stopped. Sleeps in slices, so that stop is heard within one.
  bool wait_for(Nanoseconds due) noexcept {
    constexpr Nanoseconds kSlice = std::chrono::milliseconds(20);
    bool is_to_wake = rate_.executor && rate_.wake_ahead.count() > 0;
    for (;;) {
      if (stopped_.load(std::memory_order_relaxed) || (rate_.is_interrupted && rate_.is_interrupted())) return false;
      const Nanoseconds now = time_.now();
      if (now >= due) return true;
      if (is_to_wake && now >= due - rate_.wake_ahead) {
        rate_.executor->prepare();
        is_to_wake = false;
      } else if (const Nanoseconds wake = due - (is_to_wake ? rate_.wake_ahead : spin_); now < wake) {
        sleep_until(std::min(wake, now + kSlice));
      } else {
        time_.spin_until(std::min(due, now + kSlice));
      }
    }
  }

  // Learns by how much wake-ups are late: more at once, less by and by.
  void sleep_until(Nanoseconds time) noexcept {
    time_.sleep_until(time);
    const Nanoseconds late = time_.now() - time;
    spin_ = std::clamp(std::max(late + late / 4 + kMargin, spin_ - spin_ / 16), Nanoseconds(0), longest_spin_);
  }

  static constexpr Nanoseconds kLeastSpin = std::chrono::microseconds(50), kMargin = std::chrono::microseconds(2);
  const FixedRate rate_;
  const Nanoseconds period_, longest_spin_;
  Nanoseconds spin_;
  TimeSource& time_;
  std::atomic<bool> stopped_{false};
  bool started_ = false;
  std::uint64_t granted_ = 0;
  Nanoseconds next_{0}, due_{0}, begun_{0}, last_end_{0};
  ClockRecorder statistics_;
};

}  // namespace

TimeSource& steady_time() noexcept {
  static SteadyTime time;
  return time;
}

void VirtualTime::sleep_until(Nanoseconds time) noexcept {
  std::int64_t now = now_.load();
  while (now < time.count() && !now_.compare_exchange_weak(now, time.count())) {
  }
}

DueTicks due_between(const ClockCounts& before, const ClockCounts& now) noexcept {
  const std::uint64_t ticks = now.ticks - before.ticks;
  return {ticks + now.skipped - before.skipped, ticks - std::min(now.missed - before.missed, ticks)};
}

std::string_view name(Overrun policy) noexcept {
  switch (policy) {
    case Overrun::skip:
      return "skip";
    case Overrun::catch_up:
      return "catch_up";
    case Overrun::stretch:
      return "stretch";
  }
  return "skip";
}

std::optional<Overrun> parse_overrun(std::string_view text) noexcept {
  for (const Overrun policy : {Overrun::skip, Overrun::catch_up, Overrun::stretch})
    if (name(policy) == text) return policy;
  return std::nullopt;
}

std::unique_ptr<Clock> make_free_clock(TimeSource& time) { return std::make_unique<FreeClock>(time); }
std::unique_ptr<SteppedClock> make_stepped_clock(TimeSource& time) { return std::make_unique<SteppedClockImpl>(time); }

Result<std::unique_ptr<Clock>> make_fixed_rate_clock(FixedRate rate, TimeSource& time) {
  if (!(rate.hertz >= 1e-3 && rate.hertz <= 1e7)) {
    return fail(Errc::invalid_argument, "clock: " + std::to_string(rate.hertz) + " Hz, from 0.001 to 10000000");
  }
  if (rate.wake_ahead < Nanoseconds(0) || rate.wake_ahead > kLongestAhead) {
    return fail(Errc::invalid_argument,
                "clock: wakes " + std::to_string(rate.wake_ahead.count()) + " ns ahead, from 0 to 1 s");
  }
  if (rate.overrun > Overrun::stretch) {
    return fail(Errc::invalid_argument, "clock: overrun policy " + std::to_string(static_cast<unsigned>(rate.overrun)) +
                                            " is none of catch_up, skip, stretch");
  }
  return std::unique_ptr<Clock>(std::make_unique<FixedRateClock>(std::move(rate), time));
}

}  // namespace weft::scheduler
