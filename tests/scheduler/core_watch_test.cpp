// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/core_watch.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace weft::scheduler::internal::core_watch_test {
namespace {

using namespace std::chrono_literals;

// A thread that works all the time, and loses `lost` of each window of 10 ms to others.
class Worked {
 public:
  explicit Worked(Nanoseconds lost) : lost_(lost) {}
  bool look(CoreWatch& watch) {
    times_.wall += 10ms;
    times_.cpu += 10ms - lost_;
    times_.switches += lost_ != 0ms;
    return watch.is_taken(times_);
  }
  void rest_until(Nanoseconds end) { times_.wall = end; }
  Nanoseconds now() const { return times_.wall; }
  void lose(Nanoseconds lost) { lost_ = lost; }

 private:
  Nanoseconds lost_;
  ThreadTimes times_{1s, 0ms, 0};
};

TEST(CoreWatch, LeavesACoreOfItsOwnAlone) {
  CoreWatch watch;
  Worked quiet(0ms), hardly(1900us);  // less than a fifth
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(quiet.look(watch));
  }
  CoreWatch other;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(hardly.look(other));
  }
}

TEST(CoreWatch, NoticesATakenCoreAtTheSecondLookAndRestsLongerEachTime) {
  CoreWatch watch;
  Worked thread(5ms);
  EXPECT_FALSE(thread.look(watch)) << "nothing to compare with";
  Nanoseconds backoff = CoreWatch::kFirstBackoff;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(thread.look(watch));
    EXPECT_EQ(watch.backoff_ends() - thread.now(), backoff) << i;
    thread.rest_until(watch.backoff_ends());
    watch.restart();
    EXPECT_FALSE(thread.look(watch)) << "a new window";
    backoff = std::min(2 * backoff, CoreWatch::kLongestBackoff);
  }
  // The others are gone for long: the next backoff is a short one again.
  thread.lose(0ms);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(thread.look(watch));
  thread.lose(5ms);
  ASSERT_TRUE(thread.look(watch));
  EXPECT_EQ(watch.backoff_ends() - thread.now(), CoreWatch::kFirstBackoff);
}

TEST(CoreWatch, TimeAsleepIsNotLost) {
  CoreWatch watch;
  ThreadTimes times{1s, 0ms, 0};
  EXPECT_FALSE(watch.is_taken(times));
  times.wall += 50ms;  // not switched out: it slept
  EXPECT_FALSE(watch.is_taken(times));
  times.wall += 50ms, times.switches += 1;
  watch.restart();
  EXPECT_FALSE(watch.is_taken(times));
}

TEST(CoreWatch, RestsWithThreeThreadsAndMoreAQuarterAtATime) {
  EXPECT_FALSE(pays_to_back_off(8, 1));
  EXPECT_FALSE(pays_to_back_off(16, 2)) << "half of the threads";
  EXPECT_TRUE(pays_to_back_off(16, 16)) << "half the speed is better than what waiting may cost";
  EXPECT_TRUE(pays_to_back_off(64, 16));
  EXPECT_TRUE(pays_to_back_off(6, 3));
  EXPECT_EQ(most_backing_off(2), 0u);
  EXPECT_EQ(most_backing_off(3), 1u);
  EXPECT_EQ(most_backing_off(16), 4u);
}

TEST(CoreWatch, ReadsTheTimesOfTheThreadThatAsks) {
  const ThreadTimes before = thread_times();
  while (thread_times().wall - before.wall < 20ms) {
  }
  const ThreadTimes worked = thread_times();
  EXPECT_GT(worked.cpu, before.cpu);
  EXPECT_LE(worked.cpu - before.cpu, worked.wall - before.wall + 1ms);
  std::this_thread::sleep_for(20ms);
  const ThreadTimes slept = thread_times();
  EXPECT_LT(slept.cpu - worked.cpu, 15ms);
  EXPECT_GE(slept.switches, worked.switches);
}

}  // namespace
}  // namespace weft::scheduler::internal::core_watch_test
