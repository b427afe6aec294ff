// SPDX-License-Identifier: Apache-2.0

#include "actors/supervisor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace weft::actors::supervisor_test {
namespace {

struct Row {
  std::uint64_t tick;
  Decision expected;
};

void expect_table(SupervisionRule rule, const std::vector<Row>& rows, ActorStatus status) {
  Registry registry(3);
  Supervisor supervisor(registry);
  ASSERT_TRUE(supervisor.set_rule(1, rule));
  std::uint64_t restarts = 0;
  for (const Row& row : rows) {
    EXPECT_EQ(supervisor.decide({1, row.tick, FaultKind::threw}), row.expected) << "tick " << row.tick;
    restarts += row.expected.action == Policy::restart;
  }
  const ActorView view = registry.view(1);
  EXPECT_EQ(view.status, status);
  EXPECT_EQ(view.faults, rows.size());
  EXPECT_EQ(view.restarts, restarts);
  EXPECT_EQ(view.last_fault_tick, rows.back().tick);
  EXPECT_EQ(registry.count(ActorStatus::running), 2u);  // neighbours are not concerned
}

TEST(Supervisor, PlainPoliciesAnswerAlikeEveryTime) {
  expect_table({.policy = Policy::halt}, {{5, {Policy::halt, false, 0}}}, ActorStatus::halted);
  expect_table({.policy = Policy::hold}, {{5, {Policy::hold, false, 0}}, {6, {Policy::hold, false, 0}}},
               ActorStatus::held);
  expect_table({.policy = Policy::isolate}, {{0, {Policy::isolate, false, 0}}}, ActorStatus::isolated);
}

TEST(Supervisor, RestartsAreBoundedWithinTheWindow) {
  expect_table(
      {.policy = Policy::restart, .max_restarts = 2, .window = 100, .escalation = Policy::isolate},
      {{10, {Policy::restart, false, 1}}, {50, {Policy::restart, false, 2}}, {109, {Policy::isolate, true, 2}}},
      ActorStatus::isolated);
}

TEST(Supervisor, OldRestartsAreForgotten) {
  expect_table({.policy = Policy::restart, .max_restarts = 2, .window = 100, .escalation = Policy::halt},
               {{10, {Policy::restart, false, 1}},
                {50, {Policy::restart, false, 2}},
                {110, {Policy::restart, false, 2}},  // that of tick 10 is 100 ticks old
                {149, {Policy::halt, true, 2}},
                {150, {Policy::restart, false, 2}}},
               ActorStatus::restarted);
}

TEST(Supervisor, ZeroWindowCountsForEver) {
  expect_table({.policy = Policy::restart, .max_restarts = 1, .window = 0, .escalation = Policy::hold},
               {{1, {Policy::restart, false, 1}}, {1u << 30, {Policy::hold, true, 1}}}, ActorStatus::held);
}

TEST(Supervisor, NoRestartsAllowedEscalatesAtOnce) {
  expect_table({.policy = Policy::restart, .max_restarts = 0, .window = 10, .escalation = Policy::halt},
               {{1, {Policy::halt, true, 0}}}, ActorStatus::halted);
}

TEST(Supervisor, EventsTellWhatHappened) {
  Registry registry(2);
  Supervisor supervisor(registry, {.policy = Policy::hold}, 4);
  supervisor.decide({1, 7, FaultKind::output_not_finite});
  supervisor.decide({0, 9, FaultKind::reported});
  std::uint64_t first = 0;
  const auto events = supervisor.events().read(first);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].fault.actor, 1u);
  EXPECT_EQ(events[0].fault.tick, 7u);
  EXPECT_EQ(events[0].fault.kind, FaultKind::output_not_finite);
  EXPECT_EQ(events[1].decision.action, Policy::hold);
  EXPECT_EQ(first, 2u);
}

TEST(Supervisor, CountsByKindAndByDecision) {
  Registry registry(3);
  Supervisor supervisor(registry, {.policy = Policy::hold});
  ASSERT_TRUE(supervisor.set_rule(
      1, {.policy = Policy::restart, .max_restarts = 1, .window = 0, .escalation = Policy::isolate}));
  EXPECT_EQ(supervisor.counters(), SupervisionCounters{});
  supervisor.decide({0, 1, FaultKind::threw});
  supervisor.decide({0, 2, FaultKind::update_not_finite});
  supervisor.decide({1, 2, FaultKind::threw});
  supervisor.decide({1, 3, FaultKind::output_not_finite});
  supervisor.decide({2, 3, FaultKind::reported});
  const SupervisionCounters counters = supervisor.counters();
  EXPECT_EQ(counters.faults, (std::array<std::uint64_t, 4>{2, 1, 1, 1}));
  EXPECT_EQ(counters.decisions, (std::array<std::uint64_t, 4>{0, 3, 1, 1}));
  EXPECT_EQ(counters.escalations, 1u);
}

TEST(Supervisor, KeepsWhatAnExceptionSaidInPlainCharacters) {
  Registry registry(1);
  Supervisor supervisor(registry, {.policy = Policy::hold});
  const std::string tabbed = "line\nbreak \x1b[31m", longer(500, 'x');
  supervisor.decide({0, 1, FaultKind::threw, fault_reason(tabbed.c_str())});
  supervisor.decide({0, 2, FaultKind::threw, fault_reason(longer.c_str())});
  supervisor.decide({0, 3, FaultKind::threw});
  std::uint64_t first = 0;
  const auto events = supervisor.events().read(first);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_STREQ(events[0].fault.reason.data(), "line?break ?[31m");
  EXPECT_EQ(std::string(events[1].fault.reason.data()), std::string(119, 'x'));
  EXPECT_STREQ(events[2].fault.reason.data(), "");
}

TEST(Supervisor, RestoredHistoryDecidesAlike) {
  const SupervisionRule rule{.policy = Policy::restart, .max_restarts = 3, .window = 50, .escalation = Policy::halt};
  Registry registry(1), registry_again(1);
  Supervisor supervisor(registry, rule), again(registry_again, rule);
  for (const std::uint64_t tick : {10, 20, 30}) supervisor.decide({0, tick, FaultKind::threw});
  ASSERT_TRUE(again.restore(0, supervisor.restarts(0)));
  registry_again.restore(0, registry.view(0));
  for (const std::uint64_t tick : {40, 62, 63, 75, 200}) {
    EXPECT_EQ(again.decide({0, tick, FaultKind::threw}), supervisor.decide({0, tick, FaultKind::threw})) << tick;
  }
  EXPECT_EQ(registry_again.view(0).faults, registry.view(0).faults);
}

TEST(Supervisor, RefusesImpossibleRules) {
  Registry registry(2);
  Supervisor supervisor(registry);
  EXPECT_EQ(supervisor.set_rule(2, {}).error().code(), Errc::out_of_range);
  EXPECT_EQ(supervisor.set_rule(0, {.max_restarts = 65}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(supervisor.set_rule(0, {.policy = Policy::restart, .escalation = Policy::restart}).error().code(),
            Errc::invalid_argument);
  EXPECT_EQ(supervisor.rule(0), SupervisionRule{});
  EXPECT_EQ(supervisor.restore(5, {}).error().code(), Errc::out_of_range);
  EXPECT_EQ(supervisor.restore(0, std::vector<std::uint64_t>{3, 2}).error().code(), Errc::invalid_argument);
}

TEST(Supervisor, PoliciesHaveNames) {
  for (const Policy policy : {Policy::halt, Policy::hold, Policy::restart, Policy::isolate}) {
    EXPECT_EQ(parse_policy(name(policy)), policy);
  }
  EXPECT_FALSE(parse_policy("panic"));
}

TEST(Supervisor, ActorsFailTogetherOnManyThreads) {
  constexpr std::uint32_t kActors = 8, kFaults = 2000;
  Registry registry(kActors);
  Supervisor supervisor(registry, {.policy = Policy::restart, .max_restarts = 5, .window = 10}, 64);
  std::atomic<bool> stop{false};
  std::uint64_t read = 0, wrong = 0;
  std::thread reader([&] {
    std::uint64_t first = 0;
    for (bool last = false; !last;) {
      last = stop;
      for (const SupervisionEvent& event : supervisor.events().read(first)) {
        ++read;
        // Each writer writes tick = number * kActors + actor: a torn copy would not fit.
        wrong += event.fault.tick % kActors != event.fault.actor;
      }
      for (std::uint32_t actor = 0; actor < kActors; ++actor) wrong += registry.view(actor).faults > kFaults;
    }
  });
  std::vector<std::thread> threads;
  for (std::uint32_t actor = 0; actor < kActors; ++actor) {
    threads.emplace_back([&, actor] {
      for (std::uint64_t i = 0; i < kFaults; ++i) supervisor.decide({actor, i * kActors + actor, FaultKind::threw});
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(read, 0u);
  EXPECT_EQ(supervisor.events().appended(), std::uint64_t{kActors} * kFaults);
  for (std::uint32_t actor = 0; actor < kActors; ++actor) EXPECT_EQ(registry.view(actor).faults, kFaults);
}

}  // namespace
}  // namespace weft::actors::supervisor_test
