// SPDX-License-Identifier: Apache-2.0
// Journal and checkpoints written beside the running agent, on the real file system, give the run that the calls give
// when they write themselves.

#include "agent/replay.hpp"

#include "storage/file_system.hpp"

#include "tests/agent/scripted.hpp"
#include "tests/support/temporary_directory.hpp"

namespace weft::agent::test::background_test {
namespace {

const std::vector<Call> kScript = script(80);

Hash128 hash_of(const Agent& agent) {
  return fold_sessions(agent.mesh().sessions(), [&](std::size_t s) { return agent.mesh().state_hash(s); });
}

class Background : public ::testing::TestWithParam<Durability::Mode> {
 protected:
  std::unique_ptr<Agent> open(const std::string& directory, bool background) {
    Agent::Options options = deterministic_options(time_, counter_, GetParam());
    options.background = background;
    options.now = steady_now;
    options.checkpoint_every = 6;
    if (background) {
      options.mesh.executor = mesh::ExecutorKind::automatic;
      options.mesh.threads = 2;
    }
    auto agent = Agent::open(storage::real_file_system(), directory, small_network(), std::move(options), recovery_);
    EXPECT_TRUE(agent) << agent.error().text();
    return agent ? *std::move(agent) : nullptr;
  }
  void run(Agent& agent, std::uint64_t until) {
    while (counter_.calls < until) {
      time_.now += std::chrono::microseconds(300);
      const Status ran = kScript[counter_.calls++](agent);
      ASSERT_TRUE(ran) << ran.error().text();
      // Looked at from here while the others write.
      const AgentStatistics statistics = agent.statistics();
      ASSERT_LE(statistics.acknowledged.record, statistics.at.record);
      // A disk that is slower than this short run would see it end before the second checkpoint.
      if (counter_.calls % 20 == 0) {
        ASSERT_TRUE(agent.checkpoint_and_wait());
      }
    }
  }
  VirtualTime time_;
  Counter counter_;
  Recovery recovery_;
};

TEST_P(Background, GivesTheSameRunAsInTheCalls) {
  ASSERT_GT(kScript.size(), 200u);
  const storage::TemporaryDirectory inline_directory, background_directory;
  Hash128 whole;
  {
    const auto agent = open(inline_directory.path(), false);
    ASSERT_TRUE(agent);
    run(*agent, kScript.size());
    whole = hash_of(*agent);
  }
  counter_.calls = 0;
  std::uint64_t written = 0;
  for (std::uint64_t until = 45; counter_.calls < kScript.size(); until += 45) {
    const std::uint64_t before = counter_.calls;
    counter_.calls = 0;
    const auto agent = open(background_directory.path(), true);
    ASSERT_TRUE(agent);
    ASSERT_EQ(counter_.calls, before) << "all that was acknowledged at the end of the last run";
    run(*agent, std::min<std::uint64_t>(until, kScript.size()));
    const Status kept = agent->acknowledge();
    ASSERT_TRUE(kept) << kept.error().text();
    EXPECT_FALSE(agent->statistics().last_error);
    written += agent->statistics().checkpoint.written;
    if (counter_.calls == kScript.size()) {
      EXPECT_EQ(hash_of(*agent), whole);
    }
  }
  EXPECT_GT(written, 5u);
  for (const auto* directory : {&inline_directory, &background_directory}) {
    ReplayOptions options;
    options.verifies = true;
    options.mesh.threads = 1;
    auto replay = Replay::open(storage::real_file_system(), directory->path(), options);
    ASSERT_TRUE(replay) << replay.error().text();
    const Status ran = replay->run();
    ASSERT_TRUE(ran) << ran.error().text();
    EXPECT_EQ(replay->replayable().hash(), whole);
  }
}

std::string mode_name(const ::testing::TestParamInfo<Durability::Mode>& mode) {
  return to_string(Durability{mode.param}).substr(0, to_string(Durability{mode.param}).find('='));
}

INSTANTIATE_TEST_SUITE_P(Agent, Background,
                         ::testing::Values(Durability::Mode::tick, Durability::Mode::interval,
                                           Durability::Mode::checkpoint),
                         mode_name);

}  // namespace
}  // namespace weft::agent::test::background_test
