// SPDX-License-Identifier: Apache-2.0
// Answers in time around changes of the task, against cases worked out by hand.

#include "learning/drift/change_availability.hpp"

#include "scheduler/clock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace weft::learning::change_availability_test {
namespace {

/// A sample: hit or not, the accuracy of the window of four with it, answers that were due with it, and those in time.
struct Sample {
  bool hit;
  double accuracy;
  std::uint64_t due, met;
};

void add(const std::vector<Sample>& samples, AdaptationTracker& tracker, ChangeAvailability& answers) {
  for (const Sample& sample : samples) {
    tracker.add(sample.hit, sample.accuracy);
    answers.add(sample.due, sample.met, tracker);
  }
}

TEST(ChangeAvailability, IsOfAnswersDueFromAChangeUntilItIsOver) {
  AdaptationTracker tracker(4);
  ChangeAvailability answers;
  add({{true, 1, 1, 1}, {true, 1, 5, 0}, {true, 1, 1, 1}, {true, 1, 1, 1}}, tracker, answers);
  EXPECT_FALSE(answers.spread()) << "no change, and nothing around it";
  tracker.declare(1.0);
  // Seven samples until the window is back: ten answers due, five in time.
  add({{false, 0.75, 1, 1},
       {false, 0.5, 1, 0},
       {false, 0.25, 2, 1},
       {true, 0.25, 1, 1},
       {true, 0.5, 1, 1},
       {true, 0.75, 3, 0},
       {true, 1, 1, 1}},
      tracker, answers);
  ASSERT_EQ(tracker.changes()[0].to_99, 7u);
  add({{true, 1, 1, 0}, {false, 0.75, 4, 0}}, tracker, answers);  // it is over
  EXPECT_EQ(answers.of(4), 0.5);
  EXPECT_FALSE(answers.of(5));
  // A change that a detector alone saw, not over: three of four.
  tracker.detect(0.75);
  add({{false, 0.5, 1, 1}, {false, 0.25, 1, 1}, {false, 0.0, 2, 1}}, tracker, answers);
  EXPECT_EQ(answers.of(13), 0.75);
  EXPECT_EQ(answers.of(4), 0.5);
  ASSERT_TRUE(answers.spread());
  EXPECT_DOUBLE_EQ(answers.spread()->mean, 0.625);
  EXPECT_NEAR(answers.spread()->deviation, 0.25 / std::sqrt(2.0), 1e-15);
}

TEST(ChangeAvailability, OfAProcessThatGoesOnIsOfItsOwnAnswers) {
  AdaptationTracker tracker(1);
  ChangeAvailability before;
  tracker.declare(1.0);
  add({{true, 1, 1, 0}}, tracker, before);
  EXPECT_EQ(before.of(0), 0.0);
  ChangeAvailability after(tracker.scores());
  add({{true, 1, 1, 1}}, tracker, after);  // the change was over
  EXPECT_FALSE(after.of(0));
  tracker.declare(1.0);
  add({{false, 0, 0, 0}, {false, 0, 2, 1}}, tracker, after);
  EXPECT_EQ(after.of(2), 0.5);
}

// Ten samples a second. The task changes after the first; work of 50, 150, 50, 350 and 50 ms follows.
//   due at   100 200 300 400 500 600 700 800 900 ms
//   ends at  150 350  -  450 850  -   -   -  950
// 200 and 500 end after the next one is due, and those that passed meanwhile are skipped: three of nine are in time.
TEST(ChangeAvailability, OfAClockThatSkipsIsWhatTheGridSays) {
  using namespace std::chrono_literals;
  scheduler::VirtualTime time;
  const auto clock = std::move(scheduler::make_fixed_rate_clock({.hertz = 10, .wake_ahead = 0ms}, time)).value();
  AdaptationTracker tracker(100);
  ChangeAvailability answers;
  scheduler::ClockCounts before;
  const auto count = [&] {
    const scheduler::DueTicks now = scheduler::due_between(std::exchange(before, clock->counts()), clock->counts());
    answers.add(now.due, now.met, tracker);
  };
  bool is_first = true;
  for (const auto work : {50ms, 50ms, 150ms, 50ms, 350ms, 50ms}) {
    ASSERT_EQ(clock->await(1), 1u);
    count();
    if (!std::exchange(is_first, false) && tracker.changes().empty()) tracker.declare(1.0);
    tracker.add(true, 0.0);
    time.advance(work);
    clock->finished(1);
  }
  count();
  EXPECT_EQ(time.now(), 950ms);
  const scheduler::DueTicks all = scheduler::due_between({}, clock->counts());
  EXPECT_EQ(all.due, 10u);
  EXPECT_EQ(all.met, 4u);
  ASSERT_TRUE(answers.of(1));
  EXPECT_DOUBLE_EQ(*answers.of(1), 3.0 / 9.0);
}

}  // namespace
}  // namespace weft::learning::change_availability_test
