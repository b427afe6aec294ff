// SPDX-License-Identifier: Apache-2.0

#include "actors/actor.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

namespace weft::actors {
namespace {

struct Add {
  std::uint64_t value = 0;
};

// Its state depends on every message, its tick and its order.
class Counter final : public Actor<Add> {
 public:
  explicit Counter(ActorId id) : Actor(id, 32) {}
  std::uint64_t state = 1;
  std::vector<std::uint64_t> stamps;

 protected:
  void receive(std::uint64_t tick, std::uint64_t stamp, Add&& message) noexcept override {
    state = state * 6364136223846793005u + message.value * (tick + 1);
    stamps.push_back(stamp);
  }
};

struct World {
  explicit World(std::size_t actors) : registry(actors) {
    for (ActorId id = 0; id < actors; ++id) counters.push_back(std::make_unique<Counter>(id));
  }
  void boundary(std::uint64_t tick) {
    for (auto& counter : counters) {
      counter->deliver(tick, registry, &log);
      counter->state ^= tick;  // the tick itself
    }
  }
  Registry registry;
  std::vector<std::unique_ptr<Counter>> counters;
  DeliveryLog<Add> log;
};

TEST(Actor, ReceivesAtTheBoundaryInStampOrder) {
  World world(2);
  ASSERT_TRUE(world.counters[1]->mailbox().push({5}));
  ASSERT_TRUE(world.counters[1]->mailbox().push({6}));
  EXPECT_EQ(world.counters[1]->deliver(3, world.registry, &world.log), 2u);
  EXPECT_EQ(world.counters[1]->deliver(4, world.registry, &world.log), 0u);
  EXPECT_EQ(world.counters[1]->stamps, (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(world.registry.view(1).messages, 2u);
  EXPECT_EQ(world.registry.view(0).messages, 0u);
  ASSERT_EQ(world.log.deliveries().size(), 2u);
  EXPECT_EQ(world.log.deliveries()[1].tick, 3u);
  EXPECT_EQ(world.log.deliveries()[1].message.value, 6u);
}

TEST(ReplaySchedule, ARecordedRunReplaysExactly) {
  constexpr std::size_t kActors = 5;
  constexpr std::uint64_t kTicks = 300;
  World recorded(kActors);
  std::atomic<bool> stop{false};
  // Their timing is nobody's to say, but each has sent something before the first boundary: on a busy machine all ticks
  // may be over before a thread first runs.
  std::latch begun(3);
  std::vector<std::thread> senders;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    senders.emplace_back([&, seed] {
      RandomStream random(seed, 0, RandomPurpose::test);
      static_cast<void>(recorded.counters[seed]->mailbox().push({random.next_u32()}).has_value());
      begun.count_down();
      while (!stop) {
        static_cast<void>(
            recorded.counters[random.next_below(kActors)]->mailbox().push({random.next_u32()}).has_value());
        if (random.next_below(8) == 0) std::this_thread::yield();
      }
    });
  }
  begun.wait();
  for (std::uint64_t tick = 0; tick < kTicks; ++tick) {
    recorded.boundary(tick);
    std::this_thread::yield();
  }
  stop = true;
  for (std::thread& sender : senders) sender.join();

  const auto log = recorded.log.deliveries();
  ASSERT_GT(log.size(), 0u);
  ReplaySchedule<Add> schedule({log.begin(), log.end()});
  World replayed(kActors);
  std::size_t sent = 0;
  for (std::uint64_t tick = 0; tick < kTicks; ++tick) {
    const auto now = schedule.send_due(
        tick, [&](ActorId actor, Add message) { return replayed.counters[actor]->mailbox().push(message); });
    ASSERT_TRUE(now) << now.error().text();
    sent += *now;
    replayed.boundary(tick);
  }
  EXPECT_TRUE(schedule.done());
  EXPECT_EQ(sent, log.size());
  for (std::size_t i = 0; i < kActors; ++i) {
    EXPECT_EQ(replayed.counters[i]->state, recorded.counters[i]->state) << "actor " << i;
    EXPECT_EQ(replayed.registry.view(static_cast<ActorId>(i)).messages,
              recorded.registry.view(static_cast<ActorId>(i)).messages);
  }
}

TEST(ReplaySchedule, NoticesStrangersAndMissedTicks) {
  Mailbox<Add> mailbox(4);
  const auto push = [&](ActorId, Add message) { return mailbox.push(message); };
  ReplaySchedule<Add> schedule({{5, 0, 0, {1}}, {9, 0, 1, {2}}});
  EXPECT_EQ(*schedule.send_due(4, push), 0u);
  EXPECT_EQ(*schedule.send_due(5, push), 1u);
  ASSERT_TRUE(mailbox.push({77}));  // somebody else sends
  EXPECT_EQ(schedule.send_due(9, push).error().code(), Errc::corrupt);

  ReplaySchedule<Add> late({{5, 0, 0, {1}}});
  EXPECT_EQ(late.send_due(6, push).error().code(), Errc::corrupt);
  EXPECT_EQ(late.remaining().size(), 1u);

  Mailbox<Add> small(2);
  ReplaySchedule<Add> crowd({{0, 3, 0, {}}, {0, 3, 1, {}}, {0, 3, 2, {}}});
  const auto full = crowd.send_due(0, [&](ActorId, Add message) { return small.push(message); });
  EXPECT_EQ(full.error().code(), Errc::full);
  EXPECT_NE(full.error().text().find("actor 3"), std::string::npos);
}

TEST(Registry, StatusDecidesWhoComputes) {
  Registry registry(5);
  const ActorStatus all[] = {ActorStatus::running, ActorStatus::held, ActorStatus::isolated, ActorStatus::halted,
                             ActorStatus::restarted};
  for (ActorId i = 0; i < 5; ++i) {
    registry.set_status(i, all[i]);
    EXPECT_EQ(registry.status(i), all[i]);
    EXPECT_EQ(registry.is_active(i), i == 0 || i == 4);
  }
  for (const ActorStatus status : all) EXPECT_EQ(registry.count(status), 1u);
  EXPECT_EQ(name(ActorStatus::restarted), "restarted");
}

}  // namespace
}  // namespace weft::actors
