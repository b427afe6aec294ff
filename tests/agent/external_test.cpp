// SPDX-License-Identifier: Apache-2.0
// Environments outside of the process: their lines, and agents whose journal holds their answers.

#include "agent/agent.hpp"
#include "agent/external/protocol.hpp"
#include "agent/replay.hpp"

#include "mesh/network/network_json.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "tests/agent/scripted.hpp"
#include "tests/agent/worlds.hpp"
#include "tests/mesh/testing.hpp"
#include "tests/support/memory_file_system.hpp"
#include <memory>
#include <string>
#include <vector>

namespace weft::agent::external_test {
namespace {

using mesh::testing_support::must;
using storage::MemoryFileSystem;

constexpr EnvironmentShape kShape{.observations = 2, .choices = 3};

std::string text_of(const Error& error) { return std::string(name(error.code())) + ": " + error.text(); }

TEST(ExternalProtocol, AsksInLines) {
  EXPECT_EQ(describe_request(), R"({"protocol":1,"request":"describe"})");
  EXPECT_EQ(reset_request(7, 18446744073709551615u), R"({"episode":18446744073709551615,"request":"reset","seed":7})");
  EXPECT_EQ(step_request({2, {}}), R"({"action":2,"request":"step"})");
  const std::vector<float> values{0.1f, -2.0f, 1e18f};
  EXPECT_EQ(step_request({0, values}), R"({"action":[0.1,-2.0,1e+18],"request":"step"})");
  EXPECT_EQ(close_request(), R"({"request":"close"})");
}

TEST(ExternalProtocol, ReadsAnswers) {
  EXPECT_EQ(must(read_description(R"({"protocol": 1, "name": "g", "observations": 2, "actions": 3})", kShape)), "g");
  const Answer reset = must(read_reset_answer(R"({"observation": [1, -2.5], "info": {"any": [1]}})", kShape));
  EXPECT_TRUE(reset.is_reset);
  EXPECT_EQ(reset.observation, (std::vector<float>{1, -2.5f}));
  const Answer step = must(read_step_answer(
      R"({"observation": [0.1, 16777217], "reward": 0.1, "terminated": false, "truncated": true})", {2, {}}, kShape));
  EXPECT_FALSE(step.is_reset);
  EXPECT_EQ(step.action, 2u);
  EXPECT_EQ(step.observation, (std::vector<float>{0.1f, 16777216.0f}));  // to the nearest of binary32
  EXPECT_EQ(step.outcome.reward, 0.1);
  EXPECT_FALSE(step.outcome.terminated);
  EXPECT_TRUE(step.outcome.truncated);
}

TEST(ExternalProtocol, NamesWhatIsWrong) {
  const auto refused = [](const char* line, const std::string& text) {
    const auto answer = read_step_answer(line, {}, kShape);
    ASSERT_FALSE(answer) << line;
    EXPECT_NE(text_of(answer.error()).find(text), std::string::npos) << text_of(answer.error());
  };
  refused("", "parse_failed: the answer is no JSON object: ''");
  refused("hello", "parse_failed: the answer is no JSON object: 'hello'");
  refused(R"({"observation": [1,)", "parse_failed");
  refused(R"({"observation": [1, NaN]})", "not_finite: the answer has NaN");
  refused(R"({"observation": [1, "2"], "reward": 0, "terminated": false, "truncated": false})", "observation[1]");
  refused(R"({"observation": [1, 1e39], "reward": 0, "terminated": false, "truncated": false})", "out_of_range");
  // Squares of such numbers are infinite in binary32: one silenced learning for good, or halted the mesh at each start.
  refused(R"({"observation": [1, 3e38], "reward": 0, "terminated": false, "truncated": false})",
          "out_of_range: answer.observation[1]");
  refused(R"({"observation": [1, 2], "reward": -1e200, "terminated": false, "truncated": false})",
          "out_of_range: answer.reward");
  refused(R"({"observation": [1, null], "reward": 0, "terminated": false, "truncated": false})", "observation[1]");
  refused(R"({"observation": [1], "reward": 0, "terminated": false, "truncated": false})", "shape_mismatch");
  refused(R"({"observation": [1, 2], "terminated": false, "truncated": false})",
          R"(not_found: answer: key "reward" is missing)");
  refused(R"({"observation": [1, 2], "reward": 0, "terminated": false, "truncated": false, "x": 1})", "answer.x");
  refused(R"({"error": "no"})", "invalid_argument: it answered with an error: no");
  const auto other = read_description(R"({"protocol": 2, "observations": 2, "actions": 3})", kShape);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Errc::unsupported);
  EXPECT_FALSE(read_description(R"({"protocol": 1, "observations": 3, "actions": 3})", kShape));
  constexpr EnvironmentShape kOfValues{.observations = 2, .values = 2};
  EXPECT_TRUE(read_description(R"({"protocol": 1, "observations": 2, "values": 2})", kOfValues));
  const auto choices = read_description(R"({"protocol": 1, "observations": 2, "actions": 2})", kOfValues);
  ASSERT_FALSE(choices);
  EXPECT_EQ(choices.error().text(), "it describes itself with 2 actions, and reinforcement.environment.actions is 0");
  EXPECT_FALSE(read_description(R"({"protocol": 1, "observations": 2, "values": 3})", kOfValues));
}

/// A world of whole numbers: two counters that actions move, and draws of seed and episode. Of an action that is two
/// values, what is larger than a half moves a counter.
class Counters final : public AnswerSource {
 public:
  struct Options {
    std::uint64_t fails_at = UINT64_MAX;  // of all its steps
    bool comes_back = true;
  };
  Counters() = default;
  explicit Counters(Options options) : options_(options) {}

  Result<bool> can_go_on(const EpisodePlace& place) override {
    if (episode_ == place.episode && steps_ == place.steps && is_begun_) return true;
    if (!options_.comes_back || place.known() != place.steps) return false;
    Hash128 chain = chained({}, must(reset(place.seed, place.episode)));
    for (std::size_t i = 0; i < place.known(); ++i) chain = chained(chain, moved(place.action(i)));
    EXPECT_EQ(chain, place.answers);
    ++returns;
    return true;
  }
  Result<Answer> reset(std::uint64_t seed, std::uint64_t episode) override {
    seed_ = seed, episode_ = episode, steps_ = 0, is_begun_ = true;
    RandomStream random(seed, episode, RandomPurpose::test);
    a_ = random.next_below(5), b_ = random.next_below(5);
    return Answer{true, 0, {}, seen()};
  }
  Result<Answer> step(const Action& action) override {
    if (all_++ == options_.fails_at) return fail(Errc::timed_out, "no answer");
    return moved(action);
  }
  std::uint64_t returns = 0;

 private:
  std::vector<float> seen() const { return {static_cast<float>(a_), static_cast<float>(b_)}; }
  Answer moved(const Action& action) {
    const bool first = action.values.empty() ? action.choice == 1 : action.values[0] > 0.5f;
    const bool second = action.values.empty() ? action.choice == 2 : action.values[1] > 0.5f;
    a_ += first, b_ += second;
    ++steps_;
    const bool is_over = a_ + b_ >= 9, is_cut = !is_over && steps_ >= 12;
    const double reward = first || second ? 0.5 * (a_ > b_) : -0.25;
    return {false, action.choice, {reward, is_over, is_cut}, seen(), {action.values.begin(), action.values.end()}};
  }
  Options options_;
  std::uint64_t seed_ = 0, episode_ = 0, steps_ = 0, all_ = 0;
  std::uint32_t a_ = 0, b_ = 0;
  bool is_begun_ = false;
};

mesh::NetworkSpec network(const std::string& more = "", const std::string& actions = R"("actions": 3)") {
  const std::string out = actions == R"("actions": 3)" ? "3" : "4";
  return must(mesh::read_network(R"({"weft": 2, "seed": 3, "grid": {"x": 2}, "inputs": {"o": [2]}, "layers": [
      {"at": [0, 0, 0, 0], "type": "dense", "from": ["o"], "out": )" +
                                     out + R"(},
      {"at": [0, 0, 1, 0], "type": "dense", "out": 1, "from": ["o"]}],
      "outputs": {"policy": [0, 0, 0, 0], "value": [0, 0, 1, 0]},
      "learning": {"late": "meet", "patience": 1, "traces": true, "optimizer": {"type": "sgd", "lr": 1}},
      "reinforcement": {"environment": {"type": "external", "observations": 2, )" +
                                     actions + more + R"(}, "seed": 5}})",
                                 "external"));
}

/// Whose actions are two real values.
mesh::NetworkSpec of_values(const std::string& more = "") { return network(more, R"("values": 2)"); }

Agent::Options options_of() {
  Agent::Options options;
  options.background = false;
  options.durability.mode = Durability::Mode::tick;
  options.checkpoint_every = 60;
  options.keep = 1000;
  options.mesh.threads = 1;
  return options;
}

struct Acting {
  Recovery recovery;
  std::shared_ptr<Counters> world;
  std::unique_ptr<Agent> agent;
  explicit Acting(MemoryFileSystem& files, Counters::Options options = {}, const mesh::NetworkSpec& spec = network())
      : world(std::make_shared<Counters>(options)) {
    agent = must(Agent::open(files, "agent", spec, options_of(), recovery));
    agent->loop()->connect(world);
  }
  std::uint64_t steps() const { return agent->loop()->steps(); }
  Status until(std::uint64_t steps_wanted) {
    while (steps() < steps_wanted) WEFT_CHECK(agent->act(std::min<std::uint64_t>(7, steps_wanted - steps())));
    return agent->mark();
  }
};

Hash128 whole_run(std::uint64_t steps, const mesh::NetworkSpec& spec = network()) {
  MemoryFileSystem files;
  Acting acting(files, {}, spec);
  must(acting.until(steps));
  EXPECT_GT(acting.agent->loop()->episodes(), 5u);
  return acting.agent->hash();
}

TEST(ExternalAgent, GoesOnFromAnyStepToTheSameEnd) {
  for (const auto& spec : {network(), of_values()}) {
    const Hash128 whole = whole_run(90, spec);
    std::uint64_t returns = 0;
    for (std::uint64_t cut = 1; cut < 90; cut += 2) {
      MemoryFileSystem files;
      {
        Acting first(files, {}, spec);
        must(first.until(cut));
        files.process_crash();
      }
      Acting second(files, {}, spec);
      ASSERT_EQ(second.steps(), cut);
      must(second.until(90));
      EXPECT_EQ(second.agent->hash(), whole) << cut;
      returns += second.world->returns;
    }
    EXPECT_GT(returns, 25u);
  }
}

TEST(ExternalAgent, KeepsAllStepsBeforeOneThatIsBrokenOff) {
  const Hash128 whole = whole_run(90);
  for (std::uint64_t at = 0; at < 89; ++at) {
    MemoryFileSystem files;
    {
      Acting first(files, {.fails_at = at});
      const Status failed = first.until(90);
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().code(), Errc::timed_out);
      EXPECT_NE(failed.error().text().find("step " + std::to_string(at + 1) + ", episode "), std::string::npos)
          << failed.error().text();
      // An agent that stands within a step is of no use.
      EXPECT_FALSE(first.agent->act(1));
      EXPECT_FALSE(first.agent->mark());
      EXPECT_FALSE(first.agent->checkpoint_and_wait());
    }
    Acting second(files);
    ASSERT_EQ(second.steps(), at);
    must(second.until(90));
    EXPECT_EQ(second.agent->hash(), whole) << at;
  }
}

TEST(ExternalAgent, IsReplayedToTheSameValues) {
  MemoryFileSystem files;
  Acting acting(files, {}, of_values());
  must(acting.until(60));
  Replay replay = test::open_verifying(files);
  must(replay.run());
  EXPECT_GT(replay.compared(), 0u);
  EXPECT_EQ(replay.replayable().hash(), acting.agent->hash());
  // Another agent acts otherwise, which nobody has an answer to.
  ReplayOptions options;
  options.mesh.threads = 1;
  options.from = 0;
  options.set = {"reinforcement.lambda=0"};
  Replay changed = must(Replay::open(files, "agent", options));
  const Status ended = changed.run();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code(), Errc::differs);
  EXPECT_NE(ended.error().text().find("the agent takes action ["), std::string::npos) << ended.error().text();
}

TEST(ExternalAgent, IsToldWhichActionsItHas) {
  for (const char* const actions : {R"("actions": 3, "values": 2)", R"("actions": 0)"}) {
    const auto made = ReplayableMesh::begin(network("", actions), true, options_of().mesh);
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().text().find("give one of the two"), std::string::npos) << made.error().text();
  }
}

TEST(ExternalAgent, IsReplayedToTheSameHashesAtEachStep) {
  MemoryFileSystem files;
  Acting acting(files);
  must(acting.until(60));
  Replay replay = test::open_verifying(files);
  must(replay.run());
  EXPECT_GT(replay.compared(), 0u);
  EXPECT_EQ(replay.replayable().hash(), acting.agent->hash());
  MemoryFileSystem others;
  Acting stepped(others);
  const std::uint64_t ticks = stepped.agent->learner()->ticks_per_sample();
  for (std::uint64_t step = 1; step < 40; ++step) {
    must(stepped.agent->act(1));
    Replay part = test::open_verifying(files);
    must(part.run(step * ticks));
    ASSERT_EQ(part.replayable().loop()->steps(), step);
    EXPECT_EQ(part.replayable().hash(), stepped.agent->hash()) << step;
  }
}

TEST(ExternalAgent, LeavesAnEpisodeThatCannotBeGoneOnWith) {
  MemoryFileSystem files;
  std::uint64_t left = 0;
  for (std::uint64_t until = 5; until <= 60; until += 5) {
    Acting acting(files, {.comes_back = false});
    must(acting.until(until));
    for (const Episode& episode : acting.agent->loop()->ended()) left += episode.last_step == until - 5;
  }
  EXPECT_GT(left, 5u);
  Acting last(files);
  Replay replay = test::open_verifying(files);
  must(replay.run());
  EXPECT_EQ(replay.replayable().hash(), last.agent->hash());
}

TEST(ExternalAgent, KeepsAsManyActionsAsItMay) {
  MemoryFileSystem files;
  const auto spec = network(R"(, "resend": 3)");
  std::uint64_t steps = 0;
  {
    Acting first(files, {}, spec);
    while (first.agent->loop()->environment().steps() <= 3) must(first.until(++steps));
  }
  Acting second(files, {}, spec);
  must(second.until(steps + 1));
  EXPECT_EQ(second.world->returns, 0u);
  EXPECT_EQ(second.agent->loop()->environment().steps(), 1u);
}

TEST(ExternalAgent, SavesItsStateToTheByte) {
  for (const auto& spec : {network(), of_values()}) {
    MemoryFileSystem files;
    Acting acting(files, {}, spec);
    must(acting.until(40));
    EnvironmentLoop& loop = *acting.agent->loop();
    const std::vector<std::byte> bytes = loop.save();
    MemoryFileSystem others;
    Acting other(others, {}, spec);
    must(other.until(7));
    must(other.agent->loop()->load(bytes));
    EXPECT_EQ(other.agent->loop()->save(), bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(other.agent->loop()->load(ByteSpan(bytes).first(size))) << size;
    std::vector<std::byte> longer = bytes;
    longer.push_back({});
    EXPECT_FALSE(other.agent->loop()->load(longer));
  }
}

TEST(ExternalAgent, RefusesToActWithoutAnEnvironment) {
  MemoryFileSystem files;
  Acting acting(files);
  acting.agent->loop()->connect(nullptr);
  const Status refused = acting.agent->act(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::unsupported);
  // Nothing changed.
  acting.agent->loop()->connect(acting.world);
  must(acting.until(90));
  EXPECT_EQ(acting.agent->hash(), whole_run(90));
}

TEST(ExternalAgent, RefusesAJournalWithOtherAnswers) {
  MemoryFileSystem files;
  Acting acting(files);
  must(acting.agent->act(5));
  const EnvironmentLoop& loop = *acting.agent->loop();
  const std::vector<Answer> answers(loop.answers().begin(), loop.answers().end());
  ASSERT_EQ(loop.whole_steps(), 5u);
  const auto replayed = [&](std::vector<Answer> given, bool is_changed = false) {
    auto made = must(ReplayableMesh::begin(network(), true, options_of().mesh));
    const Status done = made.loop()->run_recorded(5, given, is_changed);
    return done ? std::string("good") : std::string(name(done.error().code()));
  };
  EXPECT_EQ(replayed(answers), "good");
  std::vector<Answer> fewer = answers, more = answers, other = answers;
  fewer.pop_back();
  more.push_back(answers.back());
  other[1].action = (other[1].action + 1) % 3;
  EXPECT_EQ(replayed(fewer), "corrupt");
  EXPECT_EQ(replayed(more), "corrupt");
  EXPECT_EQ(replayed(other), "corrupt");
  EXPECT_EQ(replayed(other, true), "differs");
}

TEST(ExternalAgent, DividesItsRecordsByTheirSteps) {
  ActExternalRecord record;
  record.steps = 3;
  for (const bool is_reset : {true, false, true, false, false}) record.answers.push_back({is_reset, 0, {}, {1.0f}});
  EXPECT_EQ(record.of(0, 1).size(), 2u);
  EXPECT_EQ(record.of(1, 1).size(), 2u);
  EXPECT_EQ(record.of(1, 1).data(), record.answers.data() + 2);
  EXPECT_EQ(record.of(2, 1).size(), 1u);
  EXPECT_EQ(record.of(0, 3).size(), 5u);
}

TEST(ExternalAgent, WritesItsRecordsToTheBit) {
  std::vector<Answer> answers{{true, 0, {}, {0.1f, -0.0f}}, {false, 300, {-1e300, true, false}, {1.0f, 1e-38f}}};
  for (const std::size_t count : {0, 1, 2}) {
    RecordBytes bytes;
    bytes.begin().put_act_external(1, std::span(answers).first(count), true);
    const Record read = must(read_record(static_cast<std::uint32_t>(RecordKind::act_external), bytes.bytes()));
    const auto& record = std::get<ActExternalRecord>(read);
    EXPECT_EQ(record.steps, 1u);
    EXPECT_TRUE(record.halted);
    ASSERT_EQ(record.answers.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(chained({}, record.answers[i]), chained({}, answers[i]));
      EXPECT_EQ(record.answers[i].is_reset, answers[i].is_reset);
    }
    for (std::size_t size = 0; size < bytes.bytes().size(); ++size)
      EXPECT_FALSE(read_record(static_cast<std::uint32_t>(RecordKind::act_external), bytes.bytes().first(size)));
  }
  // Of actions that are values; without them a record is one of choices.
  answers[1].action = 0;
  answers[1].values = {0.1f, -1e18f};
  RecordBytes bytes;
  bytes.begin().put_act_external(1, answers, false);
  const Record read = must(read_record(static_cast<std::uint32_t>(RecordKind::act_external), bytes.bytes()));
  const auto& record = std::get<ActExternalRecord>(read);
  ASSERT_EQ(record.answers.size(), 2u);
  EXPECT_TRUE(record.answers[0].values.empty());
  EXPECT_EQ(record.answers[1].values, answers[1].values);
  EXPECT_FALSE(
      read_record(static_cast<std::uint32_t>(RecordKind::act_external), bytes.bytes().first(bytes.bytes().size() - 1)));
}

}  // namespace
}  // namespace weft::agent::external_test
