// SPDX-License-Identifier: Apache-2.0

// Every order in which messages may arrive and cells may fire gives the same bits, replies and times.

#include "mesh/persistence/snapshot.hpp"

#include "scheduler/deterministic.hpp"

#include "clerks.hpp"
#include "tests/scheduler/order_walk.hpp"
#include <algorithm>
#include <functional>
#include <numeric>

namespace weft::mesh::message_orders_test {
namespace {

using namespace clerk_network;
using scheduler::DeterministicExecutor;
using scheduler::test::OrderWalk;

constexpr std::uint64_t kTicks = 5;

/// in -> A -> B -> C -> D, four clerks and nothing else; A and C write to B, B and D to C.
NetworkSpec chain() {
  register_clerk();
  NetworkBuilder builder("chain", {1, 1, 5, 1});
  builder.input("in", 1);
  const auto clerk = [&](std::uint32_t x, Source from, double to) {
    builder.layer({0, 0, x, 0}, "clerk").from({std::move(from)}).option("friend", to);
  };
  clerk(1, "in", 2);
  builder.option("tells", std::vector<double>{0, 0, 2, 0});  // its commands too
  clerk(2, kA, 3), clerk(3, kB, 2), clerk(4, kC, 3);
  return builder.output("y", kD).spec();
}

Mesh deterministic_mesh(const NetworkSpec& spec, std::size_t threads, std::uint64_t seed = 0,
                        std::size_t sessions = 1) {
  return must(Mesh::build(spec, {.threads = threads,
                                 .sessions = sessions,
                                 .executor = ExecutorKind::deterministic,
                                 .executor_seed = seed,
                                 .grain_bytes = 0}));
}

DeterministicExecutor& executor_of(const Mesh& mesh) {
  return dynamic_cast<DeterministicExecutor&>(MeshAccess::executor(mesh));
}

struct Sent {
  Coord to;
  MessagePointer message;
};

/// All that a sender can see of a run, and the state after it.
struct Outcome {
  Hash128 state;
  std::vector<std::uint64_t> done_at;
  std::vector<std::vector<float>> answers;
  std::vector<std::string> texts;
  bool operator==(const Outcome&) const = default;
};

/// Messages of the small case: replies, a question passed on, two cells that command a third in the tick of a command
/// from outside, a target. All wait for the first tick.
std::vector<Sent> messages() {
  auto slower = make_command(CommandKind::set_period);
  slower->number = 2;
  return {{kB, make_mail(kEcho, {1})},
          {kB, make_mail(kAskOn, {float{kEcho}, 4.0f})},
          {kA, make_mail(kDisable)},
          {kC, make_mail(kDisable)},
          {kB, make_command(CommandKind::enable, 3)},
          {kC, make_mail(kForward, {2})},
          {kD, make_target({0.5f}, 0.1f)},
          {kD, make_mail(kDisable)},
          {kD, slower}};
}

/// Runs `ticks` ticks of a mesh.
using Run = std::function<void(Mesh& mesh, std::uint64_t ticks)>;
void run_at_once(Mesh& mesh, std::uint64_t ticks) { must(mesh.tick(ticks)); }

/// Sends them in the order of `places`, and runs.
Outcome outcome_of(Mesh& mesh, const std::vector<std::size_t>& places, const Run& run = run_at_once) {
  const std::vector<Sent> all = messages();
  must(mesh.set_input("in", std::vector<float>{0.25f}));
  for (const std::size_t place : places) must(mesh.tell(all[place].to, all[place].message));
  run(mesh, kTicks);
  Outcome outcome;
  outcome.state = mesh.state_hash();
  for (const Sent& one : all) {
    outcome.done_at.push_back(one.message->is_done() ? one.message->done_at() : UINT64_MAX);
    outcome.answers.push_back(one.message->answer());
    outcome.texts.push_back(one.message->status() ? "" : one.message->status().error().text());
  }
  return outcome;
}

/// Orders of all messages in which each cell's come as they are listed: what their stamps allow.
std::vector<std::vector<std::size_t>> arrivals() {
  const std::vector<Sent> all = messages();
  std::vector<std::size_t> cells;
  for (const Sent& one : all) cells.push_back(one.to.x);
  std::sort(cells.begin(), cells.end());
  std::vector<std::vector<std::size_t>> orders;
  do {
    std::vector<std::size_t> order, next(8, 0);
    for (const std::size_t cell : cells)
      for (std::size_t& i = next[cell]; i < all.size();)
        if (all[i++].to.x == cell) {
          order.push_back(i - 1);
          break;
        }
    orders.push_back(std::move(order));
  } while (std::next_permutation(cells.begin(), cells.end()));
  return orders;
}

std::vector<std::size_t> as_listed() {
  std::vector<std::size_t> places(messages().size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  return places;
}

Outcome reference() {
  Mesh mesh = must(Mesh::build(chain(), {.threads = 1, .pin = false}));
  return outcome_of(mesh, as_listed(), [](Mesh& own, std::uint64_t ticks) {
    for (std::uint64_t tick = 0; tick < ticks; ++tick) must(own.tick());
  });
}

TEST(MessageOrders, EveryOrderOfArrivalThatTheStampsAllowIsTheSame) {
  const Outcome expected = reference();
  for (const std::uint64_t done : expected.done_at) EXPECT_NE(done, UINT64_MAX) << "every message is handled";
  EXPECT_EQ(expected.answers[0], std::vector<float>{1});
  const auto orders = arrivals();
  EXPECT_EQ(orders.size(), 1260u * 4);  // 9! / (1! 3! 2! 3!)
  Mesh mesh = deterministic_mesh(chain(), 2, 3);
  Snapshot begin;
  mesh.take_snapshot(begin);
  for (const auto& order : orders) {
    must(mesh.restore_snapshot(begin));
    ASSERT_EQ(outcome_of(mesh, order), expected);
  }
}

// Two ticks after another at a time: neighbours are never further apart.
TEST(MessageOrders, EveryOrderOfDeliveryAndFiringIsTheSame) {
  const Outcome expected = reference();
  Mesh mesh = deterministic_mesh(chain(), 2);
  ASSERT_EQ(mesh.plan().regions.size(), 2u);
  Snapshot begin;
  mesh.take_snapshot(begin);
  for (std::uint64_t first = 0; first + 2 <= kTicks; ++first) {
    OrderWalk walk;
    std::size_t orders = 0;
    const auto run = [&](Mesh& own, std::uint64_t ticks) {
      must(own.tick(first));
      executor_of(own).follow(&walk);
      must(own.tick(2));
      executor_of(own).follow(nullptr);
      must(own.tick(ticks - first - 2));
    };
    do {
      must(mesh.restore_snapshot(begin));
      ASSERT_EQ(outcome_of(mesh, as_listed(), run), expected) << "from tick " << first << ", order " << orders;
      ASSERT_FALSE(walk.is_broken());
      ++orders;
    } while (walk.next());
    EXPECT_GT(orders, 100u) << first;
  }
}

TEST(MessageOrders, DrawnOrdersOfALargerMeshAreTheSame) {
  const actors::SupervisionRule rule{actors::Policy::restart, 9, 10, actors::Policy::hold};
  const auto run = [](Mesh& mesh, std::uint64_t at_once) {
    std::vector<std::string> hashes = live(mesh, 0, 24, at_once);
    must(mesh.tell(kC, make_mail(kThrow)));
    must(mesh.tell(kD, make_mail(kDisable)));
    for (std::string& hash : live(mesh, 24, 48, at_once)) hashes.push_back(std::move(hash));
    return hashes;
  };
  for (const std::uint64_t at_once : {1u, 4u}) {
    Mesh plain = must(Mesh::build(clerks(true, rule), {.threads = 1, .sessions = 2, .pin = false}));
    const auto expected = run(plain, at_once);
    EXPECT_EQ(view_of(plain, kC).restarts, 1u);
    for (const std::size_t threads : {1u, 2u, 3u, 6u})
      for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        Mesh mesh = deterministic_mesh(clerks(true, rule), threads, seed, 2);
        ASSERT_EQ(run(mesh, at_once), expected) << threads << " threads, seed " << seed;
      }
  }
}

TEST(MessageOrders, AMessageThatWaitsForItsTickIsAsOneThatCameInIt) {
  Mesh early = deterministic_mesh(chain(), 2, 5), late = deterministic_mesh(chain(), 2, 6);
  const auto messages_at = [](std::uint64_t tick) {
    std::vector<Sent> all = messages();
    for (const Sent& one : all) one.message->not_before = std::max(one.message->not_before, tick);
    return all;
  };
  const auto first = messages_at(7), second = messages_at(0);
  for (const Sent& one : first) must(early.tell(one.to, one.message));
  for (std::uint64_t tick = 0; tick < 16; ++tick) {
    for (Mesh* mesh : {&early, &late}) must(mesh->set_input("in", noise(1, tick)));
    if (tick == 7)
      for (const Sent& one : second) must(late.tell(one.to, one.message));
    must(early.tick());
    must(late.tick());
  }
  EXPECT_EQ(early.state_hash(), late.state_hash());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].message->done_at(), second[i].message->done_at()) << i;
    EXPECT_EQ(first[i].message->answer(), second[i].message->answer()) << i;
  }
}

}  // namespace
}  // namespace weft::mesh::message_orders_test
