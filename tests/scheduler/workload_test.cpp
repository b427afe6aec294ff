// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/workload.hpp"

#include <gtest/gtest.h>

namespace weft::scheduler::internal::workload_test {
namespace {

using namespace std::chrono_literals;

// Runs of `n` steps that take `step` each on one thread, `gap` apart; returns how many of the last 50 were alone.
int alone_runs(Workload& workload, std::uint64_t n, Nanoseconds step, Nanoseconds gap, bool present, int runs = 100) {
  static const int program = 0;
  Nanoseconds now = 1s;
  int alone = 0;
  for (int i = 0; i < runs; ++i) {
    const bool is_alone = workload.is_alone_better(&program, 2, n, now, present);
    const Nanoseconds serial = step * static_cast<std::int64_t>(n);
    const Nanoseconds end = now + (is_alone ? serial : serial / 2 + 200ns * static_cast<std::int64_t>(n) + 1500ns);
    workload.note(n, is_alone ? 1 : 2, now, end);
    now = end + gap;
    alone += is_alone && i >= runs - 50;
  }
  return alone;
}

TEST(Workload, EmptyStepsAreNeverShared) {
  for (const std::uint64_t n : {1, 100, 1000000}) {
    for (const bool present : {false, true}) {
      Workload workload(20us, 100us);
      EXPECT_EQ(alone_runs(workload, n, 10ns, 1ms, present), 50) << n;
    }
  }
}

TEST(Workload, LongRunsAreShared) {
  Workload many(20us, 100us), heavy(20us, 100us);
  EXPECT_EQ(alone_runs(many, 1000, 3us, 1ms, false), 0);
  EXPECT_EQ(alone_runs(heavy, 1, 500us, 1ms, false), 0);
}

TEST(Workload, ShortRunsFarApartStayAloneUnlessHelpIsAwake) {
  Workload asleep(20us, 100us), awake(20us, 100us), close(20us, 100us);
  EXPECT_EQ(alone_runs(asleep, 1, 10us, 1ms, false), 50);
  EXPECT_EQ(alone_runs(awake, 1, 10us, 1ms, true), 0);
  EXPECT_EQ(alone_runs(close, 1, 10us, 1us, false), 0);
}

TEST(Workload, OnePreemptedRunChangesNothing) {
  Workload workload(20us, 100us);
  alone_runs(workload, 1, 100ns, 1ms, false);
  workload.note(1, 1, 2s, 2s + 10ms);
  EXPECT_EQ(alone_runs(workload, 1, 100ns, 1ms, false, 50), 50);
}

TEST(Workload, ZeroAlwaysShares) {
  Workload workload(0ns, 100us);
  EXPECT_EQ(alone_runs(workload, 1, 1ns, 1ms, false), 0);
}

}  // namespace
}  // namespace weft::scheduler::internal::workload_test
