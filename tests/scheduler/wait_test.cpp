// SPDX-License-Identifier: Apache-2.0

#include "scheduler/internal/wait.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace weft::scheduler::internal::wait_test {
namespace {

// One side of a game of ping-pong: waits for its turn asleep.
struct Side {
  std::atomic<std::uint64_t> ball{0};
  ParkingSpot spot;
  std::uint64_t timeouts = 0;

  void await(std::uint64_t turn) {
    while (ball.load(std::memory_order_acquire) < turn) {
      spot.arm();
      if (ball.load(std::memory_order_acquire) >= turn) {
        spot.disarm();
        return;
      }
      timeouts += !spot.park();
    }
  }
  void throw_ball(std::uint64_t turn) {
    ball.store(turn, std::memory_order_release);
    light_fence();
    if (spot.is_armed()) spot.unpark();
  }
};

TEST(ParkingSpot, WakeUpsAreNotLost) {
  constexpr std::uint64_t kRounds = 3000;
  Side ping, pong;
  std::thread other([&] {
    for (std::uint64_t turn = 1; turn <= kRounds; ++turn) {
      pong.await(turn);
      ping.throw_ball(turn);
    }
  });
  for (std::uint64_t turn = 1; turn <= kRounds; ++turn) {
    pong.throw_ball(turn);
    ping.await(turn);
  }
  other.join();
  // A sleeper's time may also run out because the machine is busy with other things, but not every other round.
  EXPECT_LT(ping.timeouts + pong.timeouts, kRounds / 4);
}

TEST(ParkingSpot, UnparkBeforeParkIsRemembered) {
  ParkingSpot spot;
  spot.arm();
  EXPECT_TRUE(spot.is_armed());
  spot.unpark();
  EXPECT_TRUE(spot.park());
  EXPECT_FALSE(spot.is_armed());
}

TEST(ParkingSpot, ForgottenSleepersWakeByThemselves) {
  ParkingSpot spot;
  spot.arm();
  EXPECT_FALSE(spot.park());
}

}  // namespace
}  // namespace weft::scheduler::internal::wait_test
