// SPDX-License-Identifier: Apache-2.0

#include "scheduler/clock.hpp"

#include "scheduler/internal/histogram.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

namespace weft::scheduler::clock_test {
namespace {

using namespace std::chrono_literals;
using Nanoseconds = std::chrono::nanoseconds;

// Counts what a clock tells an executor.
class PreparedExecutor final : public Executor {
 public:
  explicit PreparedExecutor(TimeSource& time) : time_(time) {}
  std::uint64_t run(TickProgram&, std::uint64_t n) noexcept override { return n; }
  std::size_t concurrency() const noexcept override { return 1; }
  std::string_view name() const noexcept override { return "prepared"; }
  void prepare() noexcept override { prepared.push_back(time_.now()); }
  std::vector<Nanoseconds> prepared;

 private:
  TimeSource& time_;
};

// Runs a clock at 1 kHz where tick i takes `cost[i]`; returns when each grant began and of how many ticks.
std::vector<std::pair<Nanoseconds, std::uint64_t>> drive(Overrun policy, const std::vector<Nanoseconds>& costs,
                                                         ClockReport* report = nullptr, std::uint64_t wanted = 64) {
  VirtualTime time;
  time.advance(5s);  // clocks start anywhere
  auto clock = std::move(make_fixed_rate_clock({.hertz = 1000, .overrun = policy}, time)).value();
  std::vector<std::pair<Nanoseconds, std::uint64_t>> grants;
  for (const Nanoseconds cost : costs) {
    const std::uint64_t ticks = clock->await(wanted);
    grants.emplace_back(time.now() - 5s, ticks);
    time.advance(cost);
    clock->finished(ticks);
  }
  if (report) *report = clock->report();
  return grants;
}

using Grants = std::vector<std::pair<Nanoseconds, std::uint64_t>>;

TEST(FixedRateClock, TicksOnTheGridWhileThereIsTime) {
  for (const Overrun policy : {Overrun::skip, Overrun::catch_up, Overrun::stretch}) {
    ClockReport report;
    EXPECT_EQ(drive(policy, {300us, 1000us, 0us, 999us}, &report), (Grants{{0us, 1}, {1ms, 1}, {2ms, 1}, {3ms, 1}}));
    EXPECT_EQ(report.ticks, 4u);
    EXPECT_EQ(report.overruns, 0u) << name(policy);
    EXPECT_EQ(report.skipped, 0u);
    EXPECT_EQ(report.worst, 1ms);
    EXPECT_EQ(report.last, 999us);
    EXPECT_EQ(report.worst_start, 0us);
  }
}

TEST(FixedRateClock, SkipDropsWhatPassedAndKeepsTheGrid) {
  ClockReport report;
  EXPECT_EQ(drive(Overrun::skip, {2500us, 100us, 1001us, 0us}, &report),
            (Grants{{0us, 1}, {3ms, 1}, {4ms, 1}, {6ms, 1}}));
  EXPECT_EQ(report.skipped, 3u);  // 1 and 2 ms, then 5 ms
  EXPECT_EQ(report.overruns, 2u);
  EXPECT_EQ(report.missed, 2u);
  EXPECT_EQ(report.ticks, 4u);
  EXPECT_EQ(report.worst, 2500us);
}

TEST(FixedRateClock, CatchUpRunsWhatPassedAtOnce) {
  ClockReport report;
  // 2.5 ms late: the ticks of 1 and 2 ms run at once.
  EXPECT_EQ(drive(Overrun::catch_up, {2500us, 100us, 100us}, &report), (Grants{{0us, 1}, {2500us, 2}, {3ms, 1}}));
  EXPECT_EQ(report.ticks, 4u);
  EXPECT_EQ(report.skipped, 0u);
  EXPECT_EQ(report.worst, 2500us);
  EXPECT_EQ(report.missed, 2u);  // that of 0 ms, and that of 1 ms, which ends at 2.6
  // No more at once than wanted: the backlog is worked off piece by piece.
  EXPECT_EQ(drive(Overrun::catch_up, {5500us, 0us, 0us, 0us, 0us}, &report, 2),
            (Grants{{0us, 1}, {5500us, 2}, {5500us, 2}, {5500us, 1}, {6ms, 1}}));
  EXPECT_EQ(report.missed, 5u);  // all but those of 5 and 6 ms
}

TEST(FixedRateClock, StretchShiftsTheGrid) {
  ClockReport report;
  EXPECT_EQ(drive(Overrun::stretch, {2500us, 100us, 100us}, &report), (Grants{{0us, 1}, {2500us, 1}, {3500us, 1}}));
  EXPECT_EQ(report.overruns, 1u);
  EXPECT_EQ(report.missed, 1u);
  EXPECT_EQ(report.skipped, 0u);
  EXPECT_EQ(report.worst_start, 0us);
}

TEST(FixedRateClock, CallersWhoStayAwayAreOverrunsToo) {
  VirtualTime time;
  auto clock = std::move(make_fixed_rate_clock({.hertz = 1000}, time)).value();
  EXPECT_EQ(clock->await(1), 1u);
  clock->finished(1);
  time.advance(3200us);
  EXPECT_EQ(clock->await(1), 1u);
  EXPECT_EQ(time.now(), 4ms);
  EXPECT_EQ(clock->report().skipped, 3u);
}

TEST(FixedRateClock, WhatWasCutShortStaysDue) {
  VirtualTime time;
  auto clock = std::move(make_fixed_rate_clock({.hertz = 1000, .overrun = Overrun::catch_up}, time)).value();
  EXPECT_EQ(clock->await(9), 1u);
  time.advance(3500us);
  clock->finished(1);
  EXPECT_EQ(clock->await(9), 3u);
  clock->finished(1);
  EXPECT_EQ(clock->await(9), 2u);
  clock->finished(2);
  EXPECT_EQ(clock->report().ticks, 4u);
}

TEST(FixedRateClock, WakesTheExecutorAheadOfEachTick) {
  VirtualTime time;
  PreparedExecutor executor(time);
  auto clock =
      std::move(make_fixed_rate_clock({.hertz = 100, .wake_ahead = 150us, .executor = &executor}, time)).value();
  for (int i = 0; i < 4; ++i) {
    clock->await(1);
    time.advance(1ms);
    clock->finished(1);
  }
  EXPECT_EQ(executor.prepared, (std::vector<Nanoseconds>{10ms - 150us, 20ms - 150us, 30ms - 150us}));
}

// Sleeps end late by so much each time.
class LateTime final : public TimeSource {
 public:
  Nanoseconds now() noexcept override { return now_; }
  void sleep_until(Nanoseconds time) noexcept override {
    if (time > now_) now_ = time + late;
    ++sleeps;
  }
  void spin_until(Nanoseconds time) noexcept override {
    if (time <= now_) return;
    spun += time - now_;
    now_ = time;
  }
  void advance(Nanoseconds by) { now_ += by; }
  Nanoseconds late{0}, spun{0};
  int sleeps = 0;

 private:
  Nanoseconds now_ = 7s;
};

TEST(FixedRateClock, SpinsNoLongerThanWakeUpsAreLate) {
  LateTime time;
  time.late = 10us;
  auto clock = std::move(make_fixed_rate_clock({.hertz = 1000}, time)).value();
  const auto run = [&](int ticks) {
    time.spun = 0ns;
    for (int i = 0; i < ticks; ++i) {
      ASSERT_EQ(clock->await(1), 1u);
      clock->finished(1);
    }
  };
  run(200);
  run(100);
  EXPECT_LT(time.spun, 100 * 8us) << "it learned that it may sleep until 14 us before";
  EXPECT_EQ(clock->report().late_p999, 0ns);
  // Slower wake-ups: late once, then it spins longer.
  time.late = 30us;
  run(100);
  EXPECT_GT(clock->report().worst_start, 0ns);
  const Nanoseconds worst = clock->report().worst_start;
  run(1000);
  EXPECT_EQ(clock->report().worst_start, worst);
}

TEST(FixedRateClock, LowRatesSpinHalfAPercentAtMost) {
  LateTime time;
  time.late = 3ms;  // wake-ups that nothing can be learned from
  auto clock = std::move(make_fixed_rate_clock({.hertz = 100}, time)).value();
  const Nanoseconds begin = time.now();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(clock->await(1), 1u);
    clock->finished(1);
  }
  EXPECT_LE(time.spun * 200, time.now() - begin);
}

TEST(FixedRateClock, TellsLatenessAndJitter) {
  LateTime time;
  auto clock = std::move(make_fixed_rate_clock({.hertz = 1000, .overrun = Overrun::catch_up}, time)).value();
  // Every other tick takes 1.1 ms, so that the next one begins 100 us late.
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(clock->await(1), 1u);
    time.advance(i % 2 ? 0us : 1100us);
    clock->finished(1);
  }
  const ClockReport report = clock->report();
  EXPECT_EQ(report.late_median, 0ns);
  EXPECT_GE(report.late_p99, 100us);
  EXPECT_LE(report.late_p99, 113us) << "an eighth above at most";
  EXPECT_EQ(report.worst_start, 100us);
  EXPECT_EQ(report.jitter, 100us);
}

TEST(FixedRateClock, AnInterruptedTickStaysDue) {
  VirtualTime time;
  bool is_interrupted = false;
  auto clock =
      std::move(make_fixed_rate_clock({.hertz = 0.5, .is_interrupted = [&] { return is_interrupted; }}, time)).value();
  EXPECT_EQ(clock->await(1), 1u);
  clock->finished(1);
  is_interrupted = true;
  EXPECT_EQ(clock->await(1), 0u);
  EXPECT_LT(time.now(), 1s);
  is_interrupted = false;
  EXPECT_EQ(clock->await(1), 1u);
  EXPECT_EQ(time.now(), 2s);
  EXPECT_EQ(clock->report().ticks, 1u);
}

TEST(Overrun, HasNames) {
  for (const Overrun policy : {Overrun::skip, Overrun::catch_up, Overrun::stretch})
    EXPECT_EQ(parse_overrun(name(policy)), policy);
  EXPECT_EQ(parse_overrun("catch-up"), std::nullopt);
  EXPECT_EQ(parse_overrun(""), std::nullopt);
}

TEST(FixedRateClock, RealTimeKeepsThePace) {
  auto clock = std::move(make_fixed_rate_clock({.hertz = 2000, .overrun = Overrun::catch_up})).value();
  const Nanoseconds begin = steady_time().now();
  std::uint64_t ticks = 0;
  while (ticks < 40) {
    const std::uint64_t now = clock->await(40 - ticks);
    ticks += now;
    clock->finished(now);
  }
  EXPECT_GE(steady_time().now() - begin, 39 * 500us);  // never early
  EXPECT_EQ(clock->report().ticks, 40u);
}

TEST(FixedRateClock, StopEndsALongWait) {
  auto clock = std::move(make_fixed_rate_clock({.hertz = 0.01})).value();
  EXPECT_EQ(clock->await(1), 1u);
  clock->finished(1);
  std::thread stopper([&] {
    std::this_thread::sleep_for(5ms);
    clock->stop();
  });
  EXPECT_EQ(clock->await(1), 0u);
  stopper.join();
  EXPECT_EQ(clock->await(1), 0u);
}

TEST(FixedRateClock, RefusesImpossibleRates) {
  for (const double hertz : {0.0, -1.0, 1e8, 1e-4, std::nan("")}) {
    EXPECT_EQ(make_fixed_rate_clock({.hertz = hertz}).error().code(), Errc::invalid_argument);
  }
  for (const std::chrono::nanoseconds ahead : {std::chrono::nanoseconds(-1), std::chrono::nanoseconds::max()}) {
    EXPECT_EQ(make_fixed_rate_clock({.wake_ahead = ahead}).error().code(), Errc::invalid_argument);
  }
  EXPECT_EQ(make_fixed_rate_clock({.overrun = static_cast<Overrun>(9)}).error().code(), Errc::invalid_argument);
}

TEST(FreeClock, GrantsAllAndMeasuresTheShareOfATick) {
  VirtualTime time;
  auto clock = make_free_clock(time);
  EXPECT_EQ(clock->await(10), 10u);
  time.advance(50us);
  clock->finished(10);
  EXPECT_EQ(clock->report().ticks, 10u);
  EXPECT_EQ(clock->report().last, 5us);
  clock->stop();
  EXPECT_EQ(clock->await(1), 0u);
}

TEST(SteppedClock, GrantsWhatWasAllowed) {
  auto clock = make_stepped_clock();
  clock->step(5);
  EXPECT_EQ(clock->await(3), 3u);
  clock->finished(3);
  EXPECT_EQ(clock->await(3), 2u);
  clock->finished(1);  // cut short
  EXPECT_EQ(clock->await(3), 1u);
  clock->finished(1);
  std::atomic<bool> granted{false};
  std::thread other([&] {
    std::this_thread::sleep_for(2ms);
    clock->step(1);
    while (!granted) std::this_thread::sleep_for(1ms);
    clock->stop();
  });
  EXPECT_EQ(clock->await(3), 1u);
  clock->finished(1);
  granted = true;
  EXPECT_EQ(clock->await(3), 0u);
  other.join();
  EXPECT_EQ(clock->report().ticks, 6u);
}

TEST(Histogram, QuantilesAreWithinAnEighth) {
  RandomStream random(1, 0, RandomPurpose::test);
  internal::Histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0ns);
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(static_cast<std::int64_t>(random.next_u32() >> random.next_below(32)));
    histogram.record(Nanoseconds(values.back()));
  }
  std::sort(values.begin(), values.end());
  for (const double share : {0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const std::int64_t exact = values[static_cast<std::size_t>(std::ceil(share * 20000)) - 1];
    const std::int64_t found = histogram.quantile(share).count();
    EXPECT_GE(found, exact) << share;
    EXPECT_LE(found, exact + exact / 8) << share;
  }
}

}  // namespace
}  // namespace weft::scheduler::clock_test
