// SPDX-License-Identifier: Apache-2.0
// An agent that reacts to changes of its task: its learning rates rise and fall again by records of the journal; killed
// at any call it goes on to the same end, replayed it has the same hashes, and changed it reacts to what it sees then.

#include "agent/replay.hpp"
#include "learning/drift/drift_watch.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include <sys/wait.h>

#include <signal.h>
#include <unistd.h>

#include "tests/agent/scripted.hpp"
#include "tests/mesh/testing.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace weft::agent::test::drift_test {
namespace {

using mesh::testing_support::must;
using storage::MemoryFileSystem;

const char* const kBest = R"("swap": "best", "swap_every": 10, "swap_samples": 8)";

mesh::NetworkSpec network(const std::string& schedule = "settle", const std::string& checkpoint = "true",
                          const std::string& actions = R"("swap": "none")") {
  auto spec = small_network();
  spec.learning = R"({"rule": "backprop", "schedule": ")" + schedule +
                  R"(", "optimizer": {"lr": 0.1}, "drift": {"detector": "ddm", "warm_up": 12, "rate_boost": 4,
                  "boost_samples": 6, "react_every": 1, "checkpoint": )" +
                  checkpoint + ", " + actions + "}}";
  return spec;
}

/// Counts calls; a reaction is a part of the call before.
class CallCounter final : public StateExtension {
 public:
  Status begin(ReplayableMesh& replayable) override {
    counter_.calls = 0;
    return counter_.begin(replayable);
  }
  std::string save() const override { return counter_.save(); }
  Status load(std::string_view json) override { return counter_.load(json); }
  Status replayed(const Record& record) override {
    return std::holds_alternative<ReactRecord>(record) ? Status() : counter_.replayed(record);
  }
  std::uint64_t& calls() noexcept { return counter_.calls; }

 private:
  Counter counter_;
};

/// Samples of a label that is another one from the 50th on.
std::vector<Call> script(std::uint64_t steps) {
  std::vector<Call> calls;
  for (std::uint64_t step = 0; step < steps; ++step) {
    calls.push_back([step](Agent& agent) {
      RandomStream random(11, step, RandomPurpose::test);
      std::vector<float> x(4);
      for (float& value : x) value = random.next_normal();
      const std::uint32_t label = step < 50 ? 0 : 1;
      const mesh::RunInput input{"x", x};
      const learning::Target target{"y", {&label, 1}};
      Status learned = agent.learn({&input, 1}, {&target, 1}, 1);
      agent.learner()->clear_scores();
      return learned;
    });
    if (step % 7 == 3) calls.push_back([](Agent& agent) { return agent.mark(); });
  }
  return calls;
}

struct Watched {
  VirtualTime time;
  Counter unused;
  CallCounter counter;
  Recovery recovery;
  std::unique_ptr<Agent> agent;

  Watched(storage::FileSystem& files, const mesh::NetworkSpec& spec, const std::string& directory = "agent") {
    Agent::Options options = deterministic_options(time, unused, Durability::Mode::tick);
    options.keep = 1000;
    options.extension = &counter;
    agent = must(Agent::open(files, directory, spec, std::move(options), recovery));
  }
  void run(std::uint64_t until, const std::vector<Call>& calls) {
    while (counter.calls() < until) must(calls[counter.calls()++](*agent));
  }
  float rate() const { return mesh::MeshAccess::weights(agent->mesh()).rates.of(1); }
};

TEST(DriftingAgent, RaisesItsRatesAtAChangeAndLetsThemFall) {
  MemoryFileSystem files;
  const auto calls = script(90);
  Watched watched(files, network());
  std::vector<float> rates;
  for (std::uint64_t call = 1; call <= calls.size(); ++call) {
    watched.run(call, calls);
    if (rates.empty() || rates.back() != watched.rate()) rates.push_back(watched.rate());
  }
  EXPECT_EQ(rates, (std::vector<float>{1, 4, 2, 1}));
  EXPECT_EQ(drift_of(*watched.agent->learner()).changes(), 1u);
  EXPECT_GT(watched.agent->statistics().checkpoint.written, 1u);
}

TEST(DriftingAgent, GoesOnFromAnyCallToTheSameEnd) {
  const std::string renews = R"("renew": 0.5)", begins = R"("swap": "initial")";
  for (const auto& [schedule, actions] :
       {std::pair("settle", renews), std::pair("pipelined", begins), std::pair("settle", kBest + (", " + renews))}) {
    const auto spec = network(schedule, "true", actions);
    const auto calls = script(80);
    MemoryFileSystem whole;
    Watched unbroken(whole, spec);
    unbroken.run(calls.size(), calls);
    ASSERT_GE(drift_of(*unbroken.agent->learner()).changes(), 1u);
    for (std::size_t cut = 1; cut < calls.size(); cut += 3) {
      MemoryFileSystem files;
      {
        Watched watched(files, spec);
        watched.run(cut, calls);
        files.process_crash();
      }
      Watched watched(files, spec);
      ASSERT_EQ(watched.counter.calls(), cut);
      watched.run(calls.size(), calls);
      ASSERT_EQ(watched.agent->hash(), unbroken.agent->hash()) << schedule << actions << " cut at " << cut;
    }
  }
}

// The journal's last record, the reaction, is cut off, as by a kill between a call and what follows it.
void expect_reaction_after_a_kill(const std::string& actions) {
  const auto spec = network("settle", "false", actions);
  const auto calls = script(80);
  MemoryFileSystem files;
  Hash128 reacted;
  std::uint64_t changed = 0;
  {
    Watched watched(files, spec);
    while (drift_of(*watched.agent->learner()).changes() == 0) watched.run(++changed, calls);
    reacted = watched.agent->hash();
    EXPECT_EQ(watched.rate(), 4.0f);
    files.process_crash();
  }
  tear_last_record(files);
  Watched watched(files, spec);
  EXPECT_GT(watched.recovery.torn_bytes, 0u);
  EXPECT_EQ(watched.counter.calls(), changed);
  EXPECT_EQ(watched.rate(), 4.0f);
  EXPECT_EQ(watched.agent->hash(), reacted);
  EXPECT_EQ(watched.recovery.hash, reacted);
}

TEST(DriftingAgent, ReactsWhenItWasKilledBeforeItCould) {
  for (const char* const actions : {R"("renew": 0.5)", R"("swap": "initial")", kBest}) {
    SCOPED_TRACE(actions);
    expect_reaction_after_a_kill(actions);
  }
}

/// An agent on the machine's own disk, in a process that kills itself after `calls` calls.
void run_and_kill(const std::string& directory, const mesh::NetworkSpec& spec, const std::vector<Call>& script,
                  std::uint64_t calls) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Watched watched(storage::real_file_system(), spec, directory);
    watched.run(calls, script);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

// The task changes at sample 50. From the last sample before it to the change that the detector sees, the process dies
// behind each call, with errors of the old task and of the new one on their way.
TEST(DriftingAgent, IsKilledOverAChangeWithErrorsInFlightOfPipelinedLearning) {
  for (const char* const actions : {R"("swap": "none")", R"("swap": "initial", "renew": 0.5)"}) {
    const auto spec = network("pipelined", "true", actions);
    const auto calls = script(80);
    MemoryFileSystem files;
    Watched unbroken(files, spec);
    std::uint64_t change = 0, seen = 0;
    for (std::uint64_t call = 1; call <= calls.size(); ++call) {
      unbroken.run(call, calls);
      if (change == 0 && unbroken.agent->learner()->samples() == 50) change = call;
      if (seen == 0 && drift_of(*unbroken.agent->learner()).changes() > 0) seen = call;
    }
    ASSERT_GT(seen, change);
    for (const std::uint64_t cut : {change, change + 1, change + 2, change + 4, seen, seen + 1}) {
      SCOPED_TRACE(cut);
      const storage::TemporaryDirectory folder;
      run_and_kill(folder.path() + "/agent", spec, calls, cut);
      Watched again(storage::real_file_system(), spec, folder.path() + "/agent");
      ASSERT_EQ(again.counter.calls(), cut);
      again.run(calls.size(), calls);
      EXPECT_EQ(again.agent->hash(), unbroken.agent->hash()) << actions;
    }
    // Something is on its way there: to learn it is another state.
    MemoryFileSystem other;
    Watched drained(other, spec);
    drained.run(change + 1, calls);
    const Hash128 before = drained.agent->hash();
    must(drained.agent->drain());
    EXPECT_NE(drained.agent->hash(), before);
  }
}

/// State hash at the end of a replay from the beginning, with these changes; without any each hash on the way is
/// compared.
auto hash_replayed(MemoryFileSystem& files, const std::vector<std::string>& set) {
  ReplayOptions options;
  options.mesh.threads = 1;
  options.verifies = set.empty();
  options.from = 0;
  options.set = set;
  Replay replay = must(Replay::open(files, "agent", options));
  must(replay.run());
  if (set.empty()) {
    EXPECT_GT(replay.compared(), 5u);
  }
  return replay.replayable().hash();
}

TEST(DriftingAgent, ReplaysToTheSameHashesAndReactsAnewWhereItIsChanged) {
  MemoryFileSystem files;
  const auto calls = script(80);
  Watched watched(files, network());
  watched.run(calls.size(), calls);
  const auto replayed = [&](const std::vector<std::string>& set) { return hash_replayed(files, set); };
  EXPECT_EQ(replayed({}), watched.agent->hash());
  // The same network: what it sees is what it saw.
  EXPECT_EQ(replayed({"learning.drift.boost_samples=6"}), watched.agent->hash());
  EXPECT_NE(replayed({"learning.drift.rate_boost=8"}), watched.agent->hash());
  EXPECT_NE(replayed({"learning.drift.rate_boost=1"}), watched.agent->hash());
  for (const std::string change : {"renew=0.5", "swap=\"initial\"", "swap=\"best\""})
    EXPECT_NE(replayed({"learning.drift." + change}), watched.agent->hash()) << change;
}

// Changes of weights are made anew by a replay of the records, whatever was changed beside them.
TEST(DriftingAgent, ReplaysWhatItDidToItsWeights) {
  for (const char* const actions : {R"("renew": 0.5)", R"("swap": "initial")", kBest}) {
    MemoryFileSystem files;
    const auto calls = script(80);
    Watched watched(files, network("settle", "true", actions));
    watched.run(calls.size(), calls);
    const learning::WeightChanges done = learning::weight_changes(*watched.agent->learner());
    // The weights of now may be right most often: that others take over, tests/learning/weight_swap_test.cpp shows.
    if (actions != kBest) {
      EXPECT_GE(done.swaps + done.renewed, 1u) << actions;
    }
    const auto replayed = [&](const std::vector<std::string>& set) { return hash_replayed(files, set); };
    EXPECT_EQ(replayed({}), watched.agent->hash()) << actions;
    EXPECT_EQ(replayed({"learning.drift.boost_samples=6"}), watched.agent->hash()) << actions;
    const std::string without = network("settle", "true", R"("renew": 0)").learning;
    EXPECT_NE(replayed({"learning=" + without}), watched.agent->hash()) << actions;
  }
}

// A change at which nothing was to be done is over when a replay is told to do something at the next.
TEST(DriftingAgent, LeavesEarlierChangesAloneInAChangedReplay) {
  auto spec = small_network();
  spec.learning = R"({"optimizer": {"lr": 0.1}, "drift": {"detector": "ddm", "warm_up": 12, "react_every": 1}})";
  MemoryFileSystem files;
  const auto calls = script(70);
  Watched watched(files, spec);
  watched.run(calls.size(), calls);
  ASSERT_GE(drift_of(*watched.agent->learner()).changes(), 1u);
  must(watched.agent->checkpoint_and_wait());
  const std::uint64_t before = drift_of(*watched.agent->learner()).changes(), tick = watched.agent->mesh().ticks();
  must(script(75).back()(*watched.agent));
  ASSERT_EQ(drift_of(*watched.agent->learner()).changes(), before);
  ReplayOptions options;
  options.mesh.threads = 1;
  options.from = tick;
  options.set = {"learning.drift.rate_boost=2", "learning.drift.checkpoint=true"};
  Replay replay = must(Replay::open(files, "agent", options));
  EXPECT_FALSE(drift_of(*replay.replayable().learner()).due().checkpoint);
}

}  // namespace
}  // namespace weft::agent::test::drift_test
