// SPDX-License-Identifier: Apache-2.0
// Agents that act, with a detector of drift: what it takes, and what is done at a change, whatever kills them, whoever
// replays them, and however their steps are divided.

#include "agent/environment_loop.hpp"
#include "agent/replay.hpp"
#include "learning/drift/drift_watch.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/isa.hpp"

#include "tests/agent/acting.hpp"
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weft::agent::test::acting_drift_test {
namespace {

using learning::DriftLevel;
using mesh::testing_support::ForIsa;
using mesh::testing_support::must;
using storage::MemoryFileSystem;

constexpr std::uint64_t kTurn = 1280;  // steps of a turn: forty episodes

const std::string kByReturn = R"("input": "return", "detector": "page_hinkley", "warm_up": 20, "threshold": 40,
                                 "tolerance": 2)";
const std::string kByError = R"("input": "td_error", "detector": "page_hinkley", "warm_up": 30, "threshold": 6,
                                "tolerance": 0.05)";
const std::string kBoost = R"("rate_boost": 4, "boost_samples": 4, "react_every": 8)";

/// Towards a target and away from it by turns, by dense layers alone, whose units may begin anew.
mesh::NetworkSpec chasing(const std::string& drift, std::size_t environments = 1) {
  auto spec = must(mesh::read_network(R"({"weft": 2, "seed": 3, "grid": {"x": 4}, "inputs": {"o": [8]}, "layers": [
    {"at": [0, 0, 0, 0], "type": "dense", "out": 16, "activation": "tanh", "from": ["o"]},
    {"at": [0, 0, 1, 0], "type": "dense", "out": 4},
    {"at": [0, 0, 2, 0], "type": "dense", "out": 8, "activation": "tanh", "from": ["o"]},
    {"at": [0, 0, 3, 0], "type": "dense", "out": 1}],
    "outputs": {"policy": [0, 0, 1, 0], "value": [0, 0, 3, 0]}})",
                                      "chasing"));
  spec.learning =
      R"({"late": "meet", "patience": 1, "traces": true, "optimizer": {"type": "sgd", "lr": 1}, "drift": {)" + drift +
      "}}";
  spec.reinforcement = R"({"environment": {"type": "chase", "every": )" + std::to_string(kTurn) +
                       R"(}, "discount": 0.5, "environments": )" + std::to_string(environments) + R"(, "seed": 5})";
  return spec;
}

const learning::DriftWatch& watch_of(ReplayableMesh& made) { return learning::drift_of(*made.learner()); }

/// An agent whose checkpoints are far from each other, so that its journal is what it comes back by.
struct Watched {
  VirtualTime time;
  Counter counter;
  Recovery recovery;
  std::unique_ptr<Agent> agent;

  Watched(MemoryFileSystem& files, const mesh::NetworkSpec& spec) {
    Agent::Options options = options_of(time, counter);
    options.checkpoint_every = 100000;
    options.journal.segment_bytes = 100000;
    agent = must(Agent::open(files, "agent", spec, std::move(options), recovery));
  }
};

float rate_of(const mesh::Mesh& mesh) { return mesh::MeshAccess::weights(mesh).rates.of(1); }

// The same detector beside the loop, given the returns that the loop tells of.
TEST(ActingDrift, IsSeenByTheReturnsOfEpisodes) {
  auto made = must(ReplayableMesh::begin(chasing(kByReturn), true, shape(1)));
  must(made.act(3 * kTurn));
  const EnvironmentLoop& loop = *made.loop();
  const auto beside = learning::make_detector(made.learner()->options().drift.detector);
  std::vector<std::uint64_t> wanted, found;
  for (const Episode& episode : loop.ended())
    if (beside->add(-episode.sum) == DriftLevel::change) wanted.push_back(episode.last_step);
  for (const learning::DriftEvent& event : loop.drift_events())
    if (event.level == static_cast<std::uint64_t>(DriftLevel::change)) found.push_back(event.sample);
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(watch_of(made).scores(), loop.ended().size());
  EXPECT_EQ(watch_of(made).changes(), wanted.size());
  // None while it learns its first task, one soon after each change.
  ASSERT_GE(found.size(), 2u);
  EXPECT_GT(found[0], kTurn);
  EXPECT_LT(found[0], 3 * kTurn / 2);
}

TEST(ActingDrift, IsSeenByTheErrorsOfSteps) {
  for (const std::size_t environments : {1, 3}) {
    auto made = must(ReplayableMesh::begin(chasing(kByError, environments), true, shape(1)));
    must(made.act(kTurn + kTurn / 2));
    EXPECT_EQ(watch_of(made).scores(), environments * (kTurn + kTurn / 2));
    const auto events = made.loop()->drift_events();
    EXPECT_TRUE(std::ranges::any_of(events, [](const auto& event) {
      return event.level == static_cast<std::uint64_t>(DriftLevel::change) && event.sample > kTurn;
    })) << environments;
  }
}

TEST(ActingDrift, IsPutBackInTheMiddleOfItsWindow) {
  const auto spec = chasing(R"("input": "return", "detector": "adwin", "clock": 4)");
  auto whole = must(ReplayableMesh::begin(spec, true, shape(1)));
  must(whole.act(2 * kTurn));
  MemoryFileSystem files;
  for (std::uint64_t step = 0; step < 2 * kTurn; step += 80) {
    Watched acting(files, spec);
    must(acting.agent->act(80));
    must(acting.agent->checkpoint_and_wait());
    files.process_crash();
  }
  Watched last(files, spec);
  EXPECT_EQ(last.agent->hash(), whole.hash());
  EXPECT_EQ(learning::drift_of(*last.agent->learner()).scores(), watch_of(whole).scores());
}

TEST(ActingDrift, RaisesRatesAndLetsThemFall) {
  MemoryFileSystem files;
  Watched acting(files, chasing(kByReturn + ", " + kBoost + R"(, "checkpoint": true)"));
  std::vector<float> rates;
  for (std::uint64_t step = 0; step < 2 * kTurn; step += 8) {
    must(acting.agent->act(8));
    if (rates.empty() || rates.back() != rate_of(acting.agent->mesh())) rates.push_back(rate_of(acting.agent->mesh()));
  }
  ASSERT_GE(rates.size(), 4u);
  rates.resize(4);
  EXPECT_EQ(rates, (std::vector<float>{1, 4, 2, 1}));
}

/// Each reaction alone. react_every does not divide the calls.
std::vector<std::string> reactions() {
  return {kByReturn + ", " + kBoost, kByReturn + R"(, "swap": "initial", "react_every": 8)",
          kByError + R"(, "renew": 0.5, "react_every": 12)"};
}

// 7 steps a call, 1 step, all at once, without a data directory, and in a process that is killed.
TEST(ActingDrift, EndsTheSameHoweverItsStepsAreDivided) {
  constexpr std::uint64_t kSteps = 3 * kTurn / 2 + 3;
  for (const std::string& drift : reactions()) {
    SCOPED_TRACE(drift);
    const auto spec = chasing(drift);
    auto alone = must(ReplayableMesh::begin(spec, true, shape(1)));
    must(alone.act(kSteps));
    const std::string wanted = to_string(alone.hash());
    ASSERT_GE(watch_of(alone).changes(), 1u);
    auto plain = must(ReplayableMesh::begin(spec, true, shape(1)));
    must(plain.loop()->run(kSteps));
    EXPECT_NE(to_string(plain.hash()), wanted) << "nothing was done";
    for (const std::uint64_t part : {std::uint64_t{7}, std::uint64_t{1}, kSteps}) {
      MemoryFileSystem files;
      std::uint64_t steps = 0;
      while (steps < kSteps) {
        Watched acting(files, spec);
        for (int calls = 0; calls < 150 && steps < kSteps; ++calls) {
          must(acting.agent->act(std::min(part, kSteps - steps)));
          steps = acting.agent->loop()->steps();
        }
        must(acting.agent->mark());
        if (steps == kSteps) {
          EXPECT_EQ(to_string(acting.agent->hash()), wanted) << part;
        }
        files.process_crash();
      }
      Replay replay = open_verifying(files);
      must(replay.run());
      EXPECT_EQ(to_string(replay.replayable().hash()), wanted);
    }
  }
}

TEST(ActingDrift, ReactsWhenItWasKilledBeforeItCould) {
  for (const std::string& drift : reactions()) {
    SCOPED_TRACE(drift);
    const auto spec = chasing(drift);
    MemoryFileSystem files;
    std::string reacted;
    std::uint64_t steps = 0;
    {
      Watched acting(files, spec);
      while (steps % acting.agent->learner()->options().drift.react_every != 0 || steps == 0 ||
             learning::drift_of(*acting.agent->learner()).changes() == 0) {
        must(acting.agent->act(1));
        ++steps;
      }
      reacted = to_string(acting.agent->hash());
      files.process_crash();
    }
    tear_last_record(files);
    Watched acting(files, spec);
    EXPECT_GT(acting.recovery.torn_bytes, 0u);
    EXPECT_EQ(acting.agent->loop()->steps(), steps);
    EXPECT_EQ(to_string(acting.agent->hash()), reacted);
  }
}

// As the changed agent, had it been so from the beginning, whatever calls its journal has.
TEST(ActingDrift, IsAskedWhatIf) {
  MemoryFileSystem files;
  const auto spec = chasing(kByReturn + ", " + kBoost);
  constexpr std::uint64_t kSteps = 3 * kTurn / 2;
  Watched acting(files, spec);
  must(acting.agent->act(kSteps));
  const auto replayed = [&](const std::string& change) {
    return to_string(replay_changed(files, change).replayable().hash());
  };
  const auto begun = [&](const std::string& drift) {
    auto made = must(ReplayableMesh::begin(chasing(drift), true, shape(1)));
    must(made.act(kSteps));
    return to_string(made.hash());
  };
  const std::string now = to_string(acting.agent->hash());
  EXPECT_EQ(replayed("learning.drift.rate_boost=4"), now);
  const std::string without = replayed("learning.drift.rate_boost=1");
  EXPECT_NE(without, now);
  EXPECT_EQ(without, begun(kByReturn));
  // Looks that are closer than the journal's calls.
  const std::string closer = replayed("learning.drift.react_every=3");
  EXPECT_NE(closer, now);
  EXPECT_EQ(closer, begun(kByReturn + R"(, "rate_boost": 4, "boost_samples": 4, "react_every": 3)"));
}

TEST(ActingDrift, EndsInTheSameStateOnEveryMachineShape) {
  const auto hash = [&](std::size_t threads) {
    auto made = must(ReplayableMesh::begin(chasing(reactions()[2], 2), true, shape(threads)));
    must(made.act(kTurn));
    return to_string(made.hash());
  };
  const std::string alone = hash(1);
  for (const kernels::Isa isa : kernels::available_isas()) {
    const ForIsa scope(isa);
    for (const std::size_t threads : {1, 2, 7}) EXPECT_EQ(hash(threads), alone) << name(isa) << threads;
  }
}

TEST(ActingDrift, IsOfAgentsThatAct) {
  auto spec = chasing(kByReturn);
  spec.reinforcement.clear();
  const auto made = ReplayableMesh::begin(spec, true, shape(1));
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text().find("learning.drift.input: 'return' is of an agent that acts"), std::string::npos)
      << made.error().text();
  const auto plain = learning::read_learning(R"({"drift": {"detector": "adwin", "input": "td_error"}})");
  ASSERT_FALSE(plain);
  EXPECT_NE(plain.error().text().find("learning.traces false"), std::string::npos) << plain.error().text();
  auto best = chasing(kByReturn + R"(, "swap": "best")");
  const auto refused = ReplayableMesh::begin(best, true, shape(1));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("late 'meet'"), std::string::npos) << refused.error().text();
}

}  // namespace
}  // namespace weft::agent::test::acting_drift_test
