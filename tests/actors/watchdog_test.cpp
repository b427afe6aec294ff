// SPDX-License-Identifier: Apache-2.0

#include "actors/watchdog.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weft::actors::watchdog_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

/// An activity table, a detector and a clock of their own.
class Detector : public testing::Test {
 protected:
  ActivityTable activity{2};
  HangDetector detector{activity, seconds(10), seconds(3)};
  nanoseconds now{seconds(1000)};
  std::vector<std::string> told;

  /// Looks every second for `time`.
  void pass(seconds time) {
    for (seconds each(0); each < time; each += seconds(1)) {
      now += seconds(1);
      look();
    }
  }
  void look() {
    detector.look(now, [&](const Hang& hang) {
      told.push_back(std::string(hang.is_over ? "over " : "hangs ") + std::to_string(hang.worker) + " at " +
                     std::to_string(hang.actor) + ", tick " + std::to_string(hang.tick) + ", " +
                     std::to_string(std::chrono::duration_cast<seconds>(hang.stood).count()) + " s");
    });
  }
};

TEST_F(Detector, TellsOnceOfAWorkerThatStandsAndOnceWhenItGoesOn) {
  look();
  activity.begin(1, 77);
  activity.enter(1, 5, 1);
  look();
  pass(seconds(9));
  EXPECT_EQ(told, std::vector<std::string>{});
  pass(seconds(1));
  EXPECT_EQ(told, std::vector<std::string>{"hangs 1 at 5, tick 77, 10 s"});
  pass(seconds(30));
  ASSERT_EQ(told.size(), 1u);
  ASSERT_EQ(detector.hanging().size(), 1u);
  EXPECT_EQ(detector.hanging()[0].stood, seconds(40));
  activity.enter(1, 6, 1);
  pass(seconds(1));
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[1], "over 1 at 5, tick 77, 40 s");
  EXPECT_TRUE(detector.hanging().empty());
  pass(seconds(10));
  EXPECT_EQ(told.back(), "hangs 1 at 6, tick 77, 10 s");
}

TEST_F(Detector, TakesAWorkerThatCameRoundForOneThatMoves) {
  for (std::uint64_t step = 0; step < 100; ++step) {
    activity.enter(0, 3, step);  // the only actor of its worker, in every step
    pass(seconds(1));
  }
  EXPECT_TRUE(told.empty());
}

TEST_F(Detector, LeavesIdleWorkersAlone) {
  pass(seconds(100));
  activity.enter(0, 3, 7);
  pass(seconds(5));
  activity.leave(0);
  pass(seconds(100));
  activity.enter(0, 3, 7);
  pass(seconds(9));
  EXPECT_TRUE(told.empty());
}

TEST_F(Detector, CountsOnlyTimeThatItWatched) {
  // The process was stopped, or the machine paused, for an hour in the middle of a cell.
  activity.enter(0, 3, 7);
  pass(seconds(4));
  now += seconds(3600);
  look();
  EXPECT_TRUE(told.empty()) << "3 s of the hour count at most";
  pass(seconds(2));
  EXPECT_TRUE(told.empty());
  pass(seconds(4));
  EXPECT_EQ(told.size(), 1u) << "a true hang is still found";
}

TEST_F(Detector, IsNotDisturbedByAClockThatStepsBack) {
  activity.enter(0, 3, 7);
  look();
  now -= seconds(500);
  pass(seconds(1));  // nothing has passed, as far as this clock can tell
  pass(seconds(9));
  EXPECT_TRUE(told.empty());
  pass(seconds(1));
  EXPECT_EQ(told.size(), 1u);
}

/// Reports of a watchdog's thread, to wait for.
class Told {
 public:
  void operator()(const Hang& hang) {
    const std::lock_guard hold(mutex_);
    hangs_.push_back(hang);
    changed_.notify_all();
  }
  std::vector<Hang> wait_for(std::size_t count) {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [&] { return hangs_.size() >= count; });
    return hangs_;
  }
  std::size_t count() {
    const std::lock_guard hold(mutex_);
    return hangs_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Hang> hangs_;
};

TEST(Watchdog, TellsOfAHangAndOfItsEnd) {
  ActivityTable activity(3);
  Told told;
  Watchdog watchdog(activity, 8, {.limit = milliseconds(20), .told = std::ref(told)});
  activity.begin(2, 41);
  activity.enter(2, 7, 1);
  const Hang hang = told.wait_for(1)[0];
  EXPECT_EQ(hang.worker, 2u);
  EXPECT_EQ(hang.actor, 7u);
  EXPECT_EQ(hang.tick, 41u);
  EXPECT_GE(hang.stood, milliseconds(20));
  EXPECT_FALSE(hang.is_over);
  EXPECT_EQ(watchdog.hangs(), 1u);
  while (watchdog.hanging().empty()) std::this_thread::yield();  // published after it was told
  EXPECT_EQ(watchdog.hanging()[0].actor, 7u);
  activity.leave(2);
  EXPECT_TRUE(told.wait_for(2)[1].is_over);
  EXPECT_EQ(watchdog.hangs(), 1u);
  while (!watchdog.hanging().empty()) std::this_thread::yield();
}

TEST(Watchdog, IsOffWithoutALimitButStillSamples) {
  ActivityTable activity(2);
  Told told;
  Watchdog watchdog(activity, 8, {.limit = nanoseconds(0), .told = std::ref(told)});
  activity.enter(0, 3, 1);
  EXPECT_TRUE(watchdog.busiest(4).empty()) << "nobody asked, so nothing was sampled";
  watchdog.sample_for(seconds(600));
  while (watchdog.busiest(4).empty()) std::this_thread::sleep_for(milliseconds(1));
  const auto shares = watchdog.busiest(4);
  ASSERT_EQ(shares.size(), 1u);
  EXPECT_EQ(shares[0].actor, 3u);
  EXPECT_EQ(shares[0].share, 0.5) << "one of two workers, all the time";
  EXPECT_EQ(told.count(), 0u);
}

TEST(Watchdog, NamesTheBusiestFirstAndStopsSamplingWhenNobodyLooks) {
  ActivityTable activity(3);
  activity.enter(0, 4, 1);
  activity.enter(1, 4, 1);
  activity.enter(2, 2, 1);
  Watchdog watchdog(activity, 8, {.limit = nanoseconds(0)});
  watchdog.sample_for(milliseconds(30));
  while (watchdog.busiest(8).size() < 2) std::this_thread::sleep_for(milliseconds(1));
  auto shares = watchdog.busiest(8);
  EXPECT_EQ(shares[0].actor, 4u);
  EXPECT_DOUBLE_EQ(shares[0].share, 2.0 / 3);
  EXPECT_EQ(shares[1].actor, 2u);
  EXPECT_DOUBLE_EQ(shares[1].share, 1.0 / 3);
  EXPECT_EQ(watchdog.busiest(1).size(), 1u);
  // All move to actor 1. Once nobody looks, whatever has been counted stays as it is.
  for (std::size_t worker = 0; worker < 3; ++worker) activity.enter(worker, 1, 2);
  std::this_thread::sleep_for(milliseconds(100));
  shares = watchdog.busiest(8);
  std::this_thread::sleep_for(milliseconds(20));
  const auto later = watchdog.busiest(8);
  ASSERT_EQ(later.size(), shares.size());
  for (std::size_t i = 0; i < later.size(); ++i) EXPECT_EQ(later[i].share, shares[i].share);
  // A later look begins anew.
  watchdog.sample_for(seconds(600));
  do shares = watchdog.busiest(8);
  while (shares.empty());
  EXPECT_EQ(shares[0].actor, 1u);
  EXPECT_EQ(shares[0].share, 1.0);
}

using WatchdogDeath = testing::Test;

TEST(WatchdogDeath, EndsTheProcessWhenToldTo) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        ActivityTable activity(1);
        Watchdog watchdog(activity, 1, {.limit = milliseconds(5), .on_hang = OnHang::abort, .told = [](const Hang&) {
                                          std::fputs("told\n", stderr);
                                        }});
        activity.enter(0, 0, 1);
        for (;;) std::this_thread::sleep_for(seconds(1));
      },
      "told");
}

TEST(Watchdog, AnswersHaveNames) {
  for (const OnHang answer : {OnHang::report, OnHang::abort}) EXPECT_EQ(parse_on_hang(name(answer)), answer);
  EXPECT_FALSE(parse_on_hang("restart"));
}

TEST(Watchdog, LooksOnWhileManyWorkersMove) {
  constexpr std::size_t kWorkers = 4;
  ActivityTable activity(kWorkers);
  Watchdog watchdog(activity, 64, {.limit = seconds(600)});
  watchdog.sample_for(seconds(600));
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
  for (std::size_t worker = 0; worker < kWorkers; ++worker)
    workers.emplace_back([&, worker] {
      for (std::uint64_t step = 0; !stop; ++step) {
        activity.begin(worker, step);
        for (ActorId actor = 0; actor < 64; ++actor) activity.enter(worker, actor, step);
        activity.leave(worker);
      }
    });
  while (watchdog.busiest(64).size() < 8) std::this_thread::sleep_for(milliseconds(1));
  double all = 0;
  for (const auto& [actor, share] : watchdog.busiest(64)) all += share;
  EXPECT_LE(all, 1.0 + 1e-9);
  stop = true;
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(watchdog.hangs(), 0u);
}

}  // namespace
}  // namespace weft::actors::watchdog_test
