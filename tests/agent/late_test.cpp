// SPDX-License-Identifier: Apache-2.0
// Samples that are observed now and taught later, in an agent: killed at any call, opened again, replayed and compared.

#include "agent/diff.hpp"
#include "agent/replay.hpp"

#include "tests/agent/scripted.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/thorough.hpp"
#include <map>
#include <string>
#include <vector>

namespace weft::agent::test::late_test {
namespace {

using storage::MemoryFileSystem;

struct Way {
  learning::Schedule schedule;
  learning::Late late;
  learning::Rule rule = learning::Rule::backprop;
  /// Each in turn, by the slice too.
  learning::OptimizerKind optimizer() const {
    return static_cast<learning::OptimizerKind>((static_cast<int>(rule) + 2 * static_cast<int>(schedule) +
                                                 static_cast<int>(late) + static_cast<int>(test_slice(5))) %
                                                5);
  }
};

/// Gradients of the caller go to rules that have a use for them.
bool takes_gradients(learning::Rule rule) {
  using learning::Rule;
  return rule != Rule::gap && rule != Rule::gap_original && rule != Rule::local_ce;
}

mesh::NetworkSpec network(const Way& way) {
  auto spec = small_network();
  spec.learning = R"({"rule":")" + std::string(name(way.rule)) + R"(","patience":16,"schedule":")" +
                  std::string(name(way.schedule)) + R"(","late":")" + std::string(name(way.late)) +
                  R"(","optimizer":{"type":")" + std::string(learning::name(way.optimizer())) + R"("}})";
  return spec;
}

/// Samples that are taught three calls later by turns by a label, a gradient and a label of weight 0, forgone, or left.
std::vector<Call> late_script(std::uint64_t steps, bool has_gradients = true) {
  std::vector<Call> calls;
  for (std::uint64_t step = 0; step < steps; ++step) {
    calls.push_back([step](Agent& agent) -> Status {
      RandomStream random(11, step, RandomPurpose::test);
      std::vector<float> x(4);
      for (float& value : x) value = random.next_normal();
      const mesh::RunInput input{"x", x};
      WEFT_TRY(const learning::Ticket ticket, agent.observe({&input, 1}));
      EXPECT_EQ(ticket, step);
      return {};
    });
    if (step >= 3 && step % 5 != 4)
      calls.push_back([step, has_gradients](Agent& agent) -> Status {
        const learning::Ticket ticket = step - 3;
        if (step % 5 == 3) return agent.forgo(ticket);
        const auto label = static_cast<std::uint32_t>(step % 3);
        const float weight = step % 5 == 2 ? 0.0f : 1.5f;
        const std::vector<float> gradient{0.5f, -0.25f, 0.125f};
        learning::Target target{.output = "y", .weights = {&weight, 1}};
        if (step % 5 == 1 && has_gradients)
          target.gradient = gradient;
        else
          target.labels = {&label, 1};
        Status taught = agent.teach(ticket, {&target, 1});
        agent.learner()->clear_scores();
        return taught;
      });
    if (step % 7 == 3) calls.push_back([](Agent& agent) { return agent.mark(); });
    if (step % 11 == 6)
      calls.push_back([](Agent& agent) -> Status {
        agent.learner()->clear_scores();
        return agent.drain();
      });
  }
  return calls;
}

class LateAgent : public ::testing::TestWithParam<Way> {};

TEST_P(LateAgent, GoesOnFromAnyCallToTheSameEnd) {
  const std::vector<Call> calls = late_script(40, takes_gradients(GetParam().rule));
  MemoryFileSystem whole;
  Hash128 end;
  {
    ScriptedAgent agent(whole, Durability::Mode::tick, {}, network(GetParam()));
    ASSERT_TRUE(agent.opened) << agent.opened.error().text();
    while (agent.counter.calls < calls.size()) {
      const Status called = agent.call(calls);
      ASSERT_TRUE(called) << called.error().text();
    }
    end = agent.hash();
    const learning::LateCounts counts = agent->learner()->late_counts();
    EXPECT_EQ(counts.observed, 40u);
    EXPECT_GT(counts.taught, 5u);
    EXPECT_GT(counts.expired, 1u);
    EXPECT_GT(counts.forgone, 2u);
  }
  for (std::size_t cut = 1; cut < calls.size(); cut += 5) {
    MemoryFileSystem files;
    {
      ScriptedAgent agent(files, Durability::Mode::tick, {}, network(GetParam()));
      while (agent.counter.calls < cut) ASSERT_TRUE(agent.call(calls));
    }
    ScriptedAgent agent(files, Durability::Mode::tick, {}, network(GetParam()));
    ASSERT_TRUE(agent.opened) << agent.opened.error().text();
    ASSERT_EQ(agent.counter.calls, cut);
    while (agent.counter.calls < calls.size()) {
      const Status called = agent.call(calls);
      ASSERT_TRUE(called) << called.error().text() << " after a cut at " << cut;
    }
    EXPECT_EQ(agent.hash(), end) << "cut at " << cut;
  }
}

TEST_P(LateAgent, ReplaysToTheSameHashes) {
  const std::vector<Call> calls = late_script(40, takes_gradients(GetParam().rule));
  MemoryFileSystem files;
  ScriptedAgent agent(
      files, Durability::Mode::tick, [](Agent::Options& options) { options.keep = 1000; }, network(GetParam()));
  std::map<std::uint64_t, Hash128> hashes;
  while (agent.counter.calls < calls.size()) {
    ASSERT_TRUE(agent.call(calls));
    hashes[agent->mesh().ticks()] = agent.hash();
  }
  ReplayOptions options;
  options.mesh.threads = 1;
  options.verifies = true;
  options.from = 0;
  auto replay = Replay::open(files, "agent", options);
  ASSERT_TRUE(replay) << replay.error().text();
  const Status ran = replay->run();
  ASSERT_TRUE(ran) << ran.error().text();
  EXPECT_EQ(replay->replayable().hash(), agent.hash());
  for (const auto& [tick, hash] : hashes) {
    auto part = Replay::open(files, "agent", options);
    ASSERT_TRUE(part->run(tick));
    ASSERT_EQ(part->tick(), tick);
    EXPECT_EQ(part->replayable().hash(), hash) << "tick " << tick;
  }
}

TEST_P(LateAgent, WritesNothingDownOfWhatIsRefused) {
  MemoryFileSystem files;
  ScriptedAgent agent(files, Durability::Mode::tick, {}, network(GetParam()));
  const std::uint64_t before = agent->statistics().at.record;
  const std::uint32_t label = 1;
  const learning::Target target{"y", {&label, 1}};
  EXPECT_FALSE(agent->teach(3, {&target, 1}));
  EXPECT_FALSE(agent->forgo(3));
  EXPECT_EQ(agent->statistics().at.record, before);
}

// Labels and weights that no learner has both of teach nothing, and take no ticks.
TEST(LateAgents, ReplayTakesATargetOfNobodyForOneThatTakesNoTime) {
  auto spec = small_network();
  spec.learning = R"({"rule":"backprop","late":"again","learners":2})";
  MemoryFileSystem files;
  ScriptedAgent agent(
      files, Durability::Mode::tick, [](Agent::Options& options) { options.mesh.sessions = 2; }, spec);
  ASSERT_TRUE(agent.opened) << agent.opened.error().text();
  const std::vector<float> x(8, 0.5f), weights{0.0f, 1.0f};
  const std::vector<std::uint32_t> labels{2, learning::kNoLabel};
  const mesh::RunInput input{"x", x};
  const learning::Target target{.output = "y", .labels = labels, .weights = weights};
  const auto ticket = agent->observe({&input, 1});
  ASSERT_TRUE(ticket);
  const std::uint64_t tick = agent->mesh().ticks();
  ASSERT_TRUE(agent->teach(*ticket, {&target, 1}));
  ASSERT_EQ(agent->mesh().ticks(), tick);
  const Hash128 taught = agent.hash();
  ASSERT_TRUE(agent->observe({&input, 1}));
  ReplayOptions options;
  options.mesh.threads = 1;
  options.from = 0;
  auto replay = Replay::open(files, "agent", options);
  ASSERT_TRUE(replay) << replay.error().text();
  ASSERT_TRUE(replay->run(tick));
  EXPECT_EQ(replay->replayable().hash(), taught);
}

TEST_P(LateAgent, AsksWhatIf) {
  const std::vector<Call> calls = late_script(40, takes_gradients(GetParam().rule));
  MemoryFileSystem files;
  ScriptedAgent agent(
      files, Durability::Mode::tick, [](Agent::Options& options) { options.keep = 1000; }, network(GetParam()));
  agent.run(calls.size(), calls);
  ReplayOptions options;
  options.mesh.threads = 1;
  options.from = 0;
  options.set = {"layers[0].dtype=int8"};
  auto replay = Replay::open(files, "agent", options);
  ASSERT_TRUE(replay) << replay.error().text();
  const Status ran = replay->run();
  ASSERT_TRUE(ran) << ran.error().text();
  EXPECT_EQ(replay->tick(), agent->mesh().ticks());
  EXPECT_NE(replay->replayable().hash(), agent.hash());
  const learning::LateCounts now = replay->replayable().learner()->late_counts(),
                             then = agent->learner()->late_counts();
  EXPECT_EQ(now.taught, then.taught);
  EXPECT_EQ(now.expired, then.expired);
}

TEST_P(LateAgent, IsComparedWithOneThatWasTaughtOtherwise) {
  const std::vector<Call> calls = late_script(40, takes_gradients(GetParam().rule));
  const auto live = [&](MemoryFileSystem& files, const std::string& directory, std::size_t other) {
    ScriptedAgent agent(files, Durability::Mode::tick, {}, network(GetParam()), directory);
    while (agent.counter.calls < calls.size()) {
      // One target is another one's.
      const bool is_other = agent.counter.calls == other;
      if (!is_other) {
        ASSERT_TRUE(agent.call(calls));
        continue;
      }
      ++agent.counter.calls;
      const std::uint32_t label = 2;
      const learning::Target target{.output = "y", .labels = {&label, 1}};
      const learning::Ticket newest = agent->learner()->next_ticket() - 1;
      ASSERT_TRUE(agent->teach(newest, {&target, 1}));
      agent->learner()->clear_scores();
    }
  };
  // The call of step 36 that teaches the sample of step 33: there it teaches its own, and three samples follow.
  std::size_t call = 1;
  for (std::uint64_t step = 0; step < 36; ++step) call += late_script(step + 1).size() - late_script(step).size();
  MemoryFileSystem files;
  live(files, "a", SIZE_MAX);
  live(files, "same", SIZE_MAX);
  live(files, "b", call);
  const mesh::MeshOptions one{.threads = 1, .executor = mesh::ExecutorKind::deterministic};
  const auto equal = diff(files, "a", "same", one);
  ASSERT_TRUE(equal) << equal.error().text();
  EXPECT_FALSE(equal->divergence);
  const auto apart = diff(files, "a", "b", one);
  ASSERT_TRUE(apart) << apart.error().text();
  ASSERT_TRUE(apart->divergence);
  // With all common checkpoints given up, they differ where the records begin, and what came before is not known.
  EXPECT_EQ(apart->divergence->external_since.has_value(), apart->divergence->tick > apart->from);
  if (GetParam().schedule == learning::Schedule::settle || GetParam().late == learning::Late::meet)
    EXPECT_GT(apart->divergence->tick, apart->from);
}

std::vector<Way> ways() {
  using learning::Late, learning::Rule, learning::Schedule;
  std::vector<Way> all;
  for (std::size_t i = 0; i < learning::rule_names().size(); ++i)
    for (const Schedule schedule : {Schedule::settle, Schedule::pipelined})
      for (const Late late : {Late::meet, Late::again}) {
        const auto rule = static_cast<Rule>(i);
        // Pipelined local errors keep no past; of rules beside backprop one lateness each, in turn.
        const bool is_refused = rule == Rule::local_ce && schedule == Schedule::pipelined && late == Late::meet;
        const bool is_spared = !is_thorough() && rule != Rule::backprop && rule != Rule::local_ce &&
                               late != ((i + test_slice(2)) % 2 ? Late::meet : Late::again);
        if (!is_refused && !is_spared) all.push_back({schedule, late, rule});
      }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Of, LateAgent, ::testing::ValuesIn(ways()), [](const auto& row) {
  return std::string(name(row.param.rule)) + "_" + std::string(name(row.param.schedule)) + "_" +
         std::string(name(row.param.late));
});

}  // namespace
}  // namespace weft::agent::test::late_test
