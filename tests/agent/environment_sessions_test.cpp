// SPDX-License-Identifier: Apache-2.0
// An agent in several environments at once, each a session: its equations against float64, its bits on every machine,
// killed and opened again, and what it refuses.

#include "agent/environment_loop.hpp"
#include "agent/replay.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/isa.hpp"

#include "tests/agent/acting.hpp"
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace weft::agent::test::environment_sessions_test {
namespace {

using mesh::testing_support::ForIsa;
using mesh::testing_support::must;
using storage::MemoryFileSystem;

std::string section(std::size_t environments, const std::string& more = "") {
  return R"({"environment": {"type": "cartpole"}, "seed": 5, "environments": )" + std::to_string(environments) + more +
         "}";
}

std::string hash_after(const mesh::NetworkSpec& spec, std::uint64_t steps, const mesh::MeshOptions& options) {
  auto made = must(ReplayableMesh::begin(spec, true, options));
  must(made.loop()->run(steps));
  return to_string(made.hash());
}

/// A linear layer that several sessions move by traces of their own.
struct Shared {
  Numbers w, b;
  std::vector<Linear> of;
  Shared(const Numbers& weights, const Numbers& bias, std::size_t sessions) : w(weights), b(bias) {
    for (std::size_t s = 0; s < sessions; ++s) of.emplace_back(weights, bias);
  }
  Numbers values(const Numbers& x) const { return Linear(w, b).of(x); }
  /// The step of session `s`, as if it were alone, from weights of 0.
  void rise(std::size_t s, const Numbers& x, const Numbers& dy, double error, double bound, bool ends) {
    Linear& own = of[s];
    own.w.assign(w.size(), 0.0);
    own.b.assign(b.size(), 0.0);
    own.rise(x, dy, error, 0.99 * 0.8, bound, ends);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += own.w[i];
    for (std::size_t i = 0; i < b.size(); ++i) b[i] += own.b[i];
  }
};

// Two worlds, normalizers that both feed, steps that add up. Within 1e-4 after 120 steps of both.
TEST(EnvironmentSessions, LearnAsTheEquationsSay) {
  constexpr std::size_t kSessions = 2;
  auto made = must(ReplayableMesh::begin(network(section(kSessions), 0), true, shape(1)));
  ASSERT_EQ(made.mesh().sessions(), kSessions);
  ASSERT_EQ(made.loop()->environments(), kSessions);
  mesh::WeightStore& store = mesh::MeshAccess::weights(made.mesh());
  const auto read = [&](std::size_t p) {
    const auto values = store.read(store.parameters()[p]);
    return Numbers(values.begin(), values.end());
  };
  Shared actor(read(0), read(1), kSessions), critic(read(2), read(3), kSessions);
  struct World {
    std::unique_ptr<Environment> world = make_environment({EnvironmentKind::cartpole});
    std::uint64_t episodes = 0;
    double sum = 0;
    Numbers x;
  };
  std::vector<World> worlds(kSessions);
  Seen observations, sums;
  const auto look = [&](World& of) {
    of.x = observations.normal({of.world->observation().begin(), of.world->observation().end()});
  };
  struct Moved {
    Numbers x, up;
    double error;
    bool ends, terminated;
  };
  for (std::uint64_t step = 0; step < 120; ++step) {
    for (std::size_t s = 0; s < kSessions; ++s) {
      World& of = worlds[s];
      if (!of.x.empty()) continue;
      of.world->reset(5, of.episodes++ * kSessions + s);
      of.sum = 0;
      look(of);
    }
    std::vector<Moved> moves;
    std::vector<Numbers> policies;
    std::vector<std::uint32_t> actions;
    for (std::size_t s = 0; s < kSessions; ++s) {
      const Numbers logits = actor.values(worlds[s].x);
      const double p1 = 1 / (1 + std::exp(logits[0] - logits[1]));
      policies.push_back({1 - p1, p1});
      RandomStream random(5, step * kSessions + s, RandomPurpose::explore);
      actions.push_back(random.next_uniform() < policies[s][0] ? 0 : 1);
    }
    for (std::size_t s = 0; s < kSessions; ++s) {
      World& of = worlds[s];
      const Numbers seen = of.x;
      const Outcome outcome = of.world->step({actions[s], {}});
      look(of);
      of.sum = 0.99 * of.sum + outcome.reward;
      const double reward = outcome.reward / sums.deviation({of.sum})[0];
      moves.push_back(
          {seen, {}, reward - critic.values(seen)[0], outcome.terminated || outcome.truncated, outcome.terminated});
    }
    for (std::size_t s = 0; s < kSessions; ++s) {
      Moved& move = moves[s];
      if (!move.terminated) move.error += 0.99 * critic.values(worlds[s].x)[0];
      const Numbers& p = policies[s];
      const double entropy = -p[0] * std::log(p[0]) - p[1] * std::log(p[1]);
      for (std::size_t j = 0; j < 2; ++j)
        move.up.push_back((j == actions[s] ? 1 : 0) - p[j] +
                          0.01 * (move.error > 0 ? 1 : -1) * -p[j] * (std::log(p[j]) + entropy));
      if (move.ends) worlds[s].x.clear();
    }
    for (std::size_t s = 0; s < kSessions; ++s) {
      actor.rise(s, moves[s].x, moves[s].up, moves[s].error, 3, moves[s].ends);
      critic.rise(s, moves[s].x, {1}, moves[s].error, 2, moves[s].ends);
    }
    must(made.loop()->run(1));
    for (std::size_t s = 0; s < kSessions; ++s) {
      const std::span<const double> state = made.loop()->environment(s).state(), wanted = worlds[s].world->state();
      ASSERT_EQ(std::vector(state.begin(), state.end()), std::vector(wanted.begin(), wanted.end()))
          << "another action in step " << step << " of session " << s;
    }
  }
  EXPECT_GT(worlds[0].episodes, 2u);
  EXPECT_GT(worlds[1].episodes, 2u);
  EXPECT_EQ(made.loop()->episodes(), worlds[0].episodes + worlds[1].episodes);
  const std::vector<Numbers> wanted{actor.w, actor.b, critic.w, critic.b};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (std::size_t j = 0; j < wanted[i].size(); ++j) EXPECT_NEAR(read(i)[j], wanted[i][j], 1e-4) << i << ", " << j;
}

// The hash that this agent had before there could be several environments.
TEST(EnvironmentSessions, OneHasTheBitsThatItAlwaysHad) {
  const std::string wanted = "e708e2af3bd94cb378506eec11b1a459";
  EXPECT_EQ(hash_after(network(kCartPole), 300, shape(1)), wanted);
  EXPECT_EQ(hash_after(network(section(1)), 300, shape(1)), wanted);
  EXPECT_NE(hash_after(network(section(2)), 300, shape(1)), wanted);
}

TEST(EnvironmentSessions, EndInTheSameStateOnEveryMachineShape) {
  for (const char* const more : {"", R"(, "algorithm": "sarsa", "critic": "policy", "explore_steps": 50)", "values"}) {
    const bool has_values = more == std::string("values");
    auto spec = has_values ? swinging(R"(, "environments": 5)") : network(section(5, more));
    if (*more && !has_values) spec.layers.pop_back(), spec.outputs.pop_back();
    const std::string alone = hash_after(spec, 120, shape(1));
    for (const kernels::Isa isa : kernels::available_isas()) {
      const ForIsa scope(isa);
      for (const auto executor :
           {mesh::ExecutorKind::resident, mesh::ExecutorKind::graph, mesh::ExecutorKind::deterministic})
        for (const std::size_t threads : {1, 2, 7}) {
          mesh::MeshOptions options = shape(threads);
          options.executor = executor;
          EXPECT_EQ(hash_after(spec, 120, options), alone) << name(isa) << threads << more;
        }
    }
  }
}

TEST(EnvironmentSessions, HaveDrawsAndEpisodesOfTheirOwn) {
  auto made = must(ReplayableMesh::begin(network(section(3)), true, shape(1)));
  EnvironmentLoop& loop = *made.loop();
  must(loop.run(150));
  std::set<std::vector<double>> states;
  for (std::size_t s = 0; s < 3; ++s)
    states.insert({loop.environment(s).state().begin(), loop.environment(s).state().end()});
  EXPECT_EQ(states.size(), 3u);
  std::set<std::uint64_t> numbers;
  std::vector<std::uint64_t> steps(3);
  double sum = 0;
  for (const Episode& episode : loop.ended()) {
    EXPECT_TRUE(numbers.insert(episode.number).second) << episode.number;
    EXPECT_EQ(episode.number % 3, episode.session);
    steps[episode.session] += episode.steps;
    EXPECT_EQ(episode.last_step, steps[episode.session]);
    sum += episode.sum;
  }
  ASSERT_GT(numbers.size(), 9u);
  EXPECT_DOUBLE_EQ(loop.mean_return(), sum / static_cast<double>(numbers.size()));
}

TEST(EnvironmentSessions, GoOnFromAnyCallToTheSameEnd) {
  for (const auto& spec : {network(section(4)), swinging(R"(, "environments": 3)")}) {
    const std::vector<Call> calls = acting_script(50);
    MemoryFileSystem whole;
    Acting unbroken(whole, spec);
    unbroken.run(calls.size(), calls);
    ASSERT_GE(unbroken.agent->loop()->episodes(), 3u);
    expect_same_end_from_any_call(spec, calls, *unbroken.agent, 5);
    Replay replay = open_verifying(whole);
    must(replay.run());
    EXPECT_GT(replay.compared(), 5u);
    EXPECT_EQ(replay.replayable().hash(), unbroken.agent->hash());
  }
}

TEST(EnvironmentSessions, AreAskedWhatIf) {
  MemoryFileSystem files;
  const std::vector<Call> calls = acting_script(40);
  Acting acting(files, network(section(4)));
  acting.run(calls.size(), calls);
  const auto end = [&](const char* change) { return replay_changed(files, change).replayable().hash(); };
  EXPECT_EQ(end("reinforcement.discount=0.99"), acting.agent->hash());
  EXPECT_NE(end("reinforcement.lambda=0"), acting.agent->hash());
}

TEST(EnvironmentSessions, RefuseWhatTheyDoNotGoWith) {
  const auto refused = [](const mesh::NetworkSpec& spec, const mesh::MeshOptions& options,
                          const std::vector<std::string>& texts) {
    const auto made = ReplayableMesh::begin(spec, true, options);
    ASSERT_FALSE(made);
    for (const std::string& text : texts)
      EXPECT_NE(made.error().text().find(text), std::string::npos) << made.error().text();
  };
  refused(network(section(0)), shape(1), {"reinforcement.environments", "0"});
  refused(network(R"({"environment": {"type": "external", "observations": 4, "actions": 2}, "environments": 16})"),
          shape(1), {"reinforcement.environments: 16", "'external'", "give 1"});
  mesh::MeshOptions three = shape(1);
  three.sessions = 3;
  refused(network(section(4)), three, {"reinforcement.environments: 4", "3 sessions"});
  auto two_learners = network(section(4));
  two_learners.learning.insert(1, R"("learners": 2, )");
  refused(two_learners, shape(1), {"learning.learners: 2", "reinforcement.environments 4"});
  auto gated = network(section(4));
  gated.layers[1].type = "gru";
  gated.layers[1].layers.clear();
  gated.layers[1].out = 1;
  refused(gated, shape(1), {"learning.traces: 4 learners", "sums over them"});
}

TEST(EnvironmentSessions, RefuseAStateOfAnotherNumber) {
  auto four = must(ReplayableMesh::begin(network(section(4)), true, shape(1)));
  auto three = must(ReplayableMesh::begin(network(section(3)), true, shape(1)));
  must(four.loop()->run(10));
  const std::vector<std::byte> bytes = four.loop()->save();
  must(four.loop()->load(bytes));
  EXPECT_FALSE(three.loop()->load(bytes));
  std::vector<std::byte> other = bytes;
  other[8] = std::byte{3};  // environments
  EXPECT_FALSE(four.loop()->load(other));
}

}  // namespace
}  // namespace weft::agent::test::environment_sessions_test
