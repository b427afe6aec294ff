// SPDX-License-Identifier: Apache-2.0

#include "actors/actor.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace weft::actors::actor_test {
namespace {

struct Add {
  std::uint64_t value = 0;
};

// Its state depends on every message, its tick and its order.
class Counter final : public Actor<Add> {
 public:
  explicit Counter(ActorId id) : Actor(id, 32) {}
  struct Received {
    std::uint64_t tick = 0, stamp = 0, value = 0;
  };
  std::uint64_t state = 1;
  std::vector<Received> received;

 protected:
  void receive(std::uint64_t tick, std::uint64_t stamp, Add&& message) noexcept override {
    state = state * 6364136223846793005u + message.value * (tick + 1);
    received.push_back({tick, stamp, message.value});
  }
};

struct World {
  explicit World(std::size_t actors) : registry(actors) {
    for (ActorId id = 0; id < actors; ++id) counters.push_back(std::make_unique<Counter>(id));
  }
  void boundary(std::uint64_t tick) {
    for (auto& counter : counters) {
      counter->deliver(tick, registry);
      counter->state ^= tick;  // the tick itself
    }
  }
  Registry registry;
  std::vector<std::unique_ptr<Counter>> counters;
};

TEST(Actor, ReceivesAtTheBoundaryInStampOrder) {
  World world(2);
  ASSERT_TRUE(world.counters[1]->mailbox().push({5}));
  ASSERT_TRUE(world.counters[1]->mailbox().push({6}));
  EXPECT_EQ(world.counters[1]->deliver(3, world.registry), 2u);
  EXPECT_EQ(world.counters[1]->deliver(4, world.registry), 0u);
  EXPECT_EQ(world.registry.view(1).messages, 2u);
  EXPECT_EQ(world.registry.view(0).messages, 0u);
  const auto& received = world.counters[1]->received;
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].stamp, 0u);
  EXPECT_EQ(received[1].stamp, 1u);
  EXPECT_EQ(received[1].tick, 3u);
  EXPECT_EQ(received[1].value, 6u);
}

TEST(Actor, ARunComesOutTheSameWhenItsMessagesAreSentAgainBeforeTheirTicks) {
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

  World replayed(kActors);
  std::vector<std::size_t> sent(kActors, 0);
  for (std::uint64_t tick = 0; tick < kTicks; ++tick) {
    for (std::size_t i = 0; i < kActors; ++i)
      for (const auto& all = recorded.counters[i]->received; sent[i] < all.size() && all[sent[i]].tick == tick;
           ++sent[i]) {
        const auto stamp = replayed.counters[i]->mailbox().push({all[sent[i]].value});
        ASSERT_TRUE(stamp);
        EXPECT_EQ(*stamp, all[sent[i]].stamp);
      }
    replayed.boundary(tick);
  }
  std::size_t all = 0;
  for (std::size_t i = 0; i < kActors; ++i) {
    EXPECT_EQ(sent[i], recorded.counters[i]->received.size());
    all += sent[i];
    EXPECT_EQ(replayed.counters[i]->state, recorded.counters[i]->state) << "actor " << i;
    EXPECT_EQ(replayed.registry.view(static_cast<ActorId>(i)).messages,
              recorded.registry.view(static_cast<ActorId>(i)).messages);
  }
  EXPECT_GE(all, 3u);
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
}  // namespace weft::actors::actor_test
