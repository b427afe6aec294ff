// SPDX-License-Identifier: Apache-2.0

#include "actors/mailbox.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace weft::actors::mailbox_test {
namespace {

struct Note {
  std::uint32_t sender = 0;
  std::uint32_t number = 0;
};

TEST(Mailbox, StampsCountFromTheFirst) {
  Mailbox<int> mailbox(4, 100);
  EXPECT_TRUE(mailbox.empty());
  EXPECT_EQ(*mailbox.push(7), 100u);
  EXPECT_EQ(*mailbox.push(8), 101u);
  EXPECT_FALSE(mailbox.empty());
  std::vector<std::pair<std::uint64_t, int>> seen;
  EXPECT_EQ(mailbox.drain([&](std::uint64_t stamp, int&& value) { seen.emplace_back(stamp, value); }), 2u);
  EXPECT_EQ(seen, (std::vector<std::pair<std::uint64_t, int>>{{100, 7}, {101, 8}}));
  EXPECT_TRUE(mailbox.empty());
  EXPECT_EQ(*mailbox.push(9), 102u);
}

TEST(Mailbox, RefusesWhenFullAndTakesAgainAfterADrain) {
  Mailbox<int> mailbox(3);
  ASSERT_EQ(mailbox.capacity(), 4u);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(mailbox.push(i));
    const auto refused = mailbox.push(99);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::full);
    int expected = 0;
    EXPECT_EQ(mailbox.drain([&](std::uint64_t, int&& value) { EXPECT_EQ(value, expected++); }), 4u);
  }
}

TEST(Mailbox, MessagesThatOnlyMoveAreReleasedWhenReceived) {
  auto first = std::make_shared<int>(5);
  Mailbox<std::unique_ptr<std::shared_ptr<int>>> mailbox(2);
  ASSERT_TRUE(mailbox.push(std::make_unique<std::shared_ptr<int>>(first)));
  EXPECT_EQ(first.use_count(), 2);
  mailbox.drain([](std::uint64_t, auto&& message) { EXPECT_EQ(**message, 5); });
  EXPECT_EQ(first.use_count(), 1);
  ASSERT_TRUE(mailbox.push(std::make_unique<std::shared_ptr<int>>(first)));
  mailbox.reset(0);
  EXPECT_EQ(first.use_count(), 1);
}

TEST(Mailbox, WhatIsSentDuringADrainWaitsForTheNext) {
  Mailbox<int> mailbox(8);
  ASSERT_TRUE(mailbox.push(1));
  EXPECT_EQ(mailbox.drain([&](std::uint64_t, int&& value) { ASSERT_TRUE(mailbox.push(value + 1)); }), 1u);
  EXPECT_EQ(mailbox.drain([&](std::uint64_t, int&& value) { EXPECT_EQ(value, 2); }), 1u);
}

TEST(Mailbox, StampsWrapAroundTheirType) {
  const std::uint64_t last = ~std::uint64_t{0};
  Mailbox<int> mailbox(4, last - 1);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(mailbox.push(i));
  EXPECT_FALSE(mailbox.push(4));
  std::vector<std::uint64_t> stamps;
  mailbox.drain([&](std::uint64_t stamp, int&&) { stamps.push_back(stamp); });
  EXPECT_EQ(stamps, (std::vector<std::uint64_t>{last - 1, last, 0, 1}));
}

TEST(Mailbox, KeepsOrderPerSenderAndLosesNothing) {
  constexpr std::uint32_t kSenders = 4, kNotes = 20000;
  Mailbox<Note> mailbox(64);
  std::atomic<std::uint32_t> finished{0};
  std::atomic<std::uint64_t> refused{0};
  std::vector<std::thread> senders;
  for (std::uint32_t sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&, sender] {
      std::uint64_t last = 0;
      for (std::uint32_t number = 0; number < kNotes;) {
        const auto stamp = mailbox.push({sender, number});
        if (!stamp) {
          ++refused;
          std::this_thread::yield();
          continue;
        }
        EXPECT_TRUE(number == 0 || *stamp > last);
        last = *stamp;
        ++number;
      }
      ++finished;
    });
  }
  std::vector<std::uint32_t> next(kSenders, 0);
  std::uint64_t stamp_expected = 0, wrong = 0;
  for (bool last_round = false;;) {
    mailbox.drain([&](std::uint64_t stamp, Note&& note) {
      wrong += stamp != stamp_expected++;
      wrong += note.number != next[note.sender]++;
    });
    if (last_round) break;
    last_round = finished == kSenders;
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(stamp_expected, std::uint64_t{kSenders} * kNotes);
  for (const std::uint32_t count : next) EXPECT_EQ(count, kNotes);
  EXPECT_TRUE(mailbox.empty());
}

}  // namespace
}  // namespace weft::actors::mailbox_test
