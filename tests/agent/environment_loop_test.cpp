// SPDX-License-Identifier: Apache-2.0
// An agent in an environment: its equations against float64, killed at any step and opened again, replayed, changed and
// replayed.

#include "agent/environment_loop.hpp"

#include "agent/replay.hpp"
#include "learning/drift/drift_watch.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/isa.hpp"

#include "tests/agent/acting.hpp"
#include "tests/agent/worlds.hpp"
#include "tests/mesh/testing.hpp"
#include "tests/support/memory_file_system.hpp"
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::agent::test::environment_loop_test {
namespace {

using learning::weight_changes;
using mesh::testing_support::ForIsa;
using mesh::testing_support::must;
using storage::MemoryFileSystem;

// Stream actor-critic with linear layers, from its equations. Actions are those that the loop took: draws are told
// apart by them at once. Within 1e-4 after 120 steps, four episodes or more.
TEST(EnvironmentLoop, LearnsAsTheEquationsSay) {
  const auto spec = network(kCartPole, 0);
  auto made = must(ReplayableMesh::begin(spec, true, shape(1)));
  mesh::WeightStore& store = mesh::MeshAccess::weights(made.mesh());
  const auto read = [&](std::size_t p) {
    const auto values = store.read(store.parameters()[p]);
    return Numbers(values.begin(), values.end());
  };
  ASSERT_EQ(store.parameters().size(), 4u);
  Linear actor(read(0), read(1)), critic(read(2), read(3));
  const auto world = make_environment({EnvironmentKind::cartpole});
  Seen observations, sums;
  std::uint64_t episode = 0;
  double sum = 0;
  Numbers x;
  const auto look = [&] { x = observations.normal({world->observation().begin(), world->observation().end()}); };
  for (std::uint64_t step = 0; step < 120; ++step) {
    if (x.empty()) {
      world->reset(5, episode++);
      sum = 0;
      look();
    }
    const Numbers logits = actor.of(x), seen = x;
    const double p1 = 1 / (1 + std::exp(logits[0] - logits[1])), value = critic.of(x)[0];
    const Numbers p{1 - p1, p1};
    RandomStream random(5, step, RandomPurpose::explore);
    const std::uint32_t action = random.next_uniform() < p[0] ? 0 : 1;
    const Outcome outcome = world->step({action, {}});
    look();
    sum = 0.99 * sum + outcome.reward;
    const double error =
        outcome.reward / sums.deviation({sum})[0] + (outcome.terminated ? 0.0 : 0.99 * critic.of(x)[0]) - value;
    const double entropy = -p[0] * std::log(p[0]) - p[1] * std::log(p[1]);
    Numbers up;
    for (std::size_t j = 0; j < 2; ++j)
      up.push_back((j == action ? 1 : 0) - p[j] + 0.01 * (error > 0 ? 1 : -1) * -p[j] * (std::log(p[j]) + entropy));
    const bool ends = outcome.terminated || outcome.truncated;
    actor.rise(seen, up, error, 0.99 * 0.8, 3, ends);
    critic.rise(seen, {1}, error, 0.99 * 0.8, 2, ends);
    if (ends) x.clear();
    must(made.loop()->run(1));
    ASSERT_EQ(made.loop()->environment().steps(), world->steps());
    ASSERT_EQ(std::vector(made.loop()->environment().state().begin(), made.loop()->environment().state().end()),
              std::vector(world->state().begin(), world->state().end()))
        << "another action in step " << step;
  }
  EXPECT_GT(episode, 3u);
  EXPECT_EQ(made.loop()->episodes(), episode);
  const std::vector<Numbers> wanted{actor.w, actor.b, critic.w, critic.b};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (std::size_t j = 0; j < wanted[i].size(); ++j) EXPECT_NEAR(read(i)[j], wanted[i][j], 1e-4) << i << ", " << j;
}

/// The same with values of actions: q by the best next action, sarsa by the next one that is taken.
void expect_values_learned(const std::string& algorithm) {
  const bool is_q = algorithm == "q";
  const auto spec = by_values(algorithm, 0);
  auto made = must(ReplayableMesh::begin(spec, true, shape(1)));
  mesh::WeightStore& store = mesh::MeshAccess::weights(made.mesh());
  const auto read = [&](std::size_t p) {
    const auto values = store.read(store.parameters()[p]);
    return Numbers(values.begin(), values.end());
  };
  Linear critic(read(0), read(1));
  const auto world = make_environment({EnvironmentKind::cartpole});
  std::uint64_t episode = 0, explored = 0;
  Numbers x;
  const auto look = [&] { x.assign(world->observation().begin(), world->observation().end()); };
  std::optional<std::uint32_t> next;
  const auto draw = [&](std::uint64_t step, const Numbers& values) {
    const double share = step >= 80 ? 0.1 : 1.0 + (0.1 - 1.0) * static_cast<double>(step) / 80;
    RandomStream random(5, step, RandomPurpose::explore);
    if (random.next_uniform() < share) return random.next_below(2);
    return values[1] > values[0] ? 1u : 0u;
  };
  for (std::uint64_t step = 0; step < 160; ++step) {
    if (x.empty()) {
      world->reset(5, episode++);
      next.reset();
      look();
    }
    const Numbers values = critic.of(x), seen = x;
    const std::uint32_t action = next.value_or(draw(step, values));
    const bool is_best = values[action] == std::max(values[0], values[1]);
    explored += !is_best;
    const Outcome outcome = world->step({action, {}});
    look();
    double after = 0;
    next.reset();
    if (!outcome.terminated) {
      const Numbers others = critic.of(x);
      if (!is_q) next = draw(step + 1, others);
      after = is_q ? std::max(others[0], others[1]) : others[*next];
    }
    const double error = outcome.reward + 0.9 * after - values[action];
    const bool ends = outcome.terminated || outcome.truncated;
    critic.rise(seen, {action == 0 ? 1.0 : 0.0, action == 1 ? 1.0 : 0.0}, error, is_q && !is_best ? 0.0 : 0.9 * 0.5, 2,
                ends);
    if (ends) x.clear();
    must(made.loop()->run(1));
    ASSERT_EQ(std::vector(made.loop()->environment().state().begin(), made.loop()->environment().state().end()),
              std::vector(world->state().begin(), world->state().end()))
        << "another action in step " << step;
  }
  EXPECT_GT(episode, 3u);
  EXPECT_GT(explored, 10u);
  for (std::size_t j = 0; j < critic.w.size(); ++j) EXPECT_NEAR(read(0)[j], critic.w[j], 1e-4) << j;
  for (std::size_t j = 0; j < critic.b.size(); ++j) EXPECT_NEAR(read(1)[j], critic.b[j], 1e-4) << j;
}

TEST(EnvironmentLoop, LearnsValuesOfActionsByTheBestNextOne) { expect_values_learned("q"); }
TEST(EnvironmentLoop, LearnsValuesOfActionsByTheNextOne) { expect_values_learned("sarsa"); }

TEST(EnvironmentLoop, SavesTheActionThatIsDrawnAhead) {
  for (const char* const algorithm : {"q", "sarsa"}) {
    auto one = must(ReplayableMesh::begin(by_values(algorithm, 8), true, shape(1)));
    must(one.loop()->run(90));
    const std::string before = to_string(one.hash());
    const std::vector<std::byte> bytes = one.loop()->save();
    must(one.loop()->load(bytes));
    EXPECT_EQ(to_string(one.hash()), before);
  }
}

// Stream actor-critic of real values with linear layers, from its equations in float64: means m and numbers r of the
// deviations s = 0.2 + log(1 + exp(r)). Within 1e-3; the world of each step begins where the loop's stands, since what
// binary32 moves it by would grow.
TEST(EnvironmentLoop, LearnsRealValuesAsTheEquationsSay) {
  auto made = must(ReplayableMesh::begin(swinging(R"(, "least_deviation": 0.2, "entropy": 0.1)", 0), true, shape(1)));
  mesh::WeightStore& store = mesh::MeshAccess::weights(made.mesh());
  const auto read = [&](std::size_t p) {
    const auto values = store.read(store.parameters()[p]);
    return Numbers(values.begin(), values.end());
  };
  Linear actor(read(0), read(1)), critic(read(2), read(3));
  const auto world = make_environment({EnvironmentKind::pendulum});
  Seen observations, sums;
  std::uint64_t episode = 0;
  double sum = 0;
  Numbers x;
  const auto look = [&] { x = observations.normal({world->observation().begin(), world->observation().end()}); };
  for (std::uint64_t step = 0; step < 250; ++step) {
    if (x.empty()) {
      world->reset(5, episode++);
      sum = 0;
      look();
    }
    const Numbers out = actor.of(x), seen = x;
    const double value = critic.of(x)[0], s = 0.2 + std::log1p(std::exp(out[1]));
    RandomStream random(5, step, RandomPurpose::explore);
    const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(random.next_uniform())));
    const double e = radius * std::cos(2 * 3.14159265358979323846 * static_cast<double>(random.next_uniform()));
    const auto torque = static_cast<float>(out[0] + s * e);
    const Outcome outcome = world->step({0, {&torque, 1}});
    look();
    sum = 0.99 * sum + outcome.reward;
    const double error = outcome.reward / sums.deviation({sum})[0] + 0.99 * critic.of(x)[0] - value;
    const double sign = error > 0 ? 1 : -1, slope = 1 / (1 + std::exp(-out[1]));
    actor.rise(seen, {e / s, (e * e - 1 + 0.1 * sign) / s * slope}, error, 0.99 * 0.8, 3, outcome.truncated);
    critic.rise(seen, {1}, error, 0.99 * 0.8, 2, outcome.truncated);
    if (outcome.truncated) x.clear();
    must(made.loop()->run(1));
    ASSERT_EQ(made.loop()->environment().steps(), world->steps());
    for (std::size_t i = 0; i < 2; ++i)
      ASSERT_NEAR(made.loop()->environment().state()[i], world->state()[i], 1e-3) << "step " << step;
    ASSERT_TRUE(load(*world, saved(made.loop()->environment())));
  }
  EXPECT_EQ(episode, 2u);
  const std::vector<Numbers> wanted{actor.w, actor.b, critic.w, critic.b};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    for (std::size_t j = 0; j < wanted[i].size(); ++j) EXPECT_NEAR(read(i)[j], wanted[i][j], 1e-3) << i << ", " << j;
}

TEST(EnvironmentLoop, EndsInTheSameStateOnEveryMachineShape) {
  for (const auto& spec : {network(kCartPole), swinging()}) {
    const auto hash = [&](std::size_t threads) {
      auto made = must(ReplayableMesh::begin(spec, true, shape(threads)));
      must(made.loop()->run(300));
      return to_string(made.hash());
    };
    const std::string alone = hash(1);
    for (const kernels::Isa isa : kernels::available_isas()) {
      const ForIsa scope(isa);
      for (const std::size_t threads : {1, 2, 7}) EXPECT_EQ(hash(threads), alone) << name(isa) << threads;
    }
  }
}

TEST(EnvironmentLoop, TellsOfItsEpisodes) {
  auto made = must(ReplayableMesh::begin(network(kCartPole), true, shape(1)));
  EnvironmentLoop& loop = *made.loop();
  EXPECT_EQ(loop.mean_return(), 0.0);
  must(loop.run(200));
  ASSERT_GT(loop.ended().size(), 3u);
  std::uint64_t number = 0, steps = 0;
  double sum = 0;
  for (const Episode& episode : loop.ended()) {
    EXPECT_EQ(episode.number, number++);
    steps += episode.steps;
    EXPECT_EQ(episode.last_step, steps);
    EXPECT_EQ(episode.sum, static_cast<double>(episode.steps));
    sum += episode.sum;
  }
  EXPECT_EQ(loop.mean_return(), sum / static_cast<double>(number));
  loop.clear_ended();
  EXPECT_TRUE(loop.ended().empty());
}

// A program that acts for months and never asks keeps the episodes of one call alone.
TEST(ActingAgent, KeepsTheEpisodesOfItsLastCall) {
  MemoryFileSystem files;
  Acting acting(files, network(kCartPole));
  must(acting.agent->act(200));
  ASSERT_GT(acting.agent->loop()->ended().size(), 3u);
  must(acting.agent->act(1));
  EXPECT_LE(acting.agent->loop()->ended().size(), 1u);
}

TEST(ActingAgent, HasASessionOfEachEnvironmentAndNoOther) {
  MemoryFileSystem files;
  Acting acting(files, network(kCartPole));
  must(acting.agent->act(20));
  const auto added = acting.agent->add_session();
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().text().find("acts in 1 environments (reinforcement.environments)"), std::string::npos)
      << added.error().text();
  EXPECT_FALSE(acting.agent->remove_session(0));
  EXPECT_FALSE(acting.agent->attach_session({}, false));
  must(acting.agent->act(20));
  must(acting.agent->checkpoint_and_wait());
  acting.agent.reset();
  Acting again(files, network(kCartPole));
  EXPECT_EQ(again.agent->loop()->steps(), 40u);
}

// Its journal is a few bytes, so their number alone would leave all steps to be acted again.
TEST(ActingAgent, TakesACheckpointAfterSoManySteps) {
  MemoryFileSystem files;
  Agent::Options options;
  options.background = false;
  options.mesh = shape(1);
  options.checkpoint_steps = 50;
  Recovery found;
  auto agent = must(Agent::open(files, "agent", network(kCartPole), options, found));
  for (int i = 0; i < 13; ++i) must(agent->act(10));
  agent.reset();
  agent = must(Agent::open(files, "agent", network(kCartPole), options, found));
  EXPECT_EQ(agent->loop()->steps(), 130u);
  EXPECT_EQ(found.checkpoint, 100u);
  EXPECT_EQ(Agent::Options().checkpoint_steps, 100000u);
}

// World and agent: whatever of them is not saved shows.
TEST(ActingAgent, GoesOnFromAnyCallToTheSameEnd) {
  for (const auto& spec : {network(kCartPole), swinging()}) {
    const std::vector<Call> calls = acting_script(spec.inputs[0].shape == Shape{4} ? 60 : 130);
    MemoryFileSystem whole;
    Acting unbroken(whole, spec);
    unbroken.run(calls.size(), calls);
    ASSERT_GE(unbroken.agent->loop()->episodes(), 2u);
    expect_same_end_from_any_call(spec, calls, *unbroken.agent, 4);
  }
}

/// Acts by dense layers alone, whose units begin anew and whose weights are pulled back.
mesh::NetworkSpec renewed_network(const std::string& renew) {
  auto spec = must(mesh::read_network(R"({"weft": 2, "seed": 3, "grid": {"x": 4}, "inputs": {"o": [4]}, "layers": [
    {"at": [0, 0, 0, 0], "type": "dense", "out": 16, "activation": "leaky_relu", "from": ["o"]},
    {"at": [0, 0, 1, 0], "type": "dense", "out": 2},
    {"at": [0, 0, 2, 0], "type": "dense", "out": 16, "activation": "leaky_relu", "from": ["o"]},
    {"at": [0, 0, 3, 0], "type": "dense", "out": 1}],
    "outputs": {"policy": [0, 0, 1, 0], "value": [0, 0, 3, 0]}})",
                                      "renewed"));
  spec.learning = R"({"late": "meet", "patience": 1, "traces": true, "optimizer": {"type": "sgd", "lr": 1},
    "renew": )" + renew +
                  R"(, "plasticity": {"pull": "initial", "every": 20, "share": 0.01}})";
  spec.reinforcement = kCartPole;
  return spec;
}

const char* const kRenewals[] = {R"({"method": "redo", "every": 25, "threshold": 0.5})",
                                 R"({"method": "continual", "rate": 0.01, "maturity": 10})"};

TEST(ActingAgent, WhoseUnitsBeginAnewGoesOnFromAnyCallToTheSameEnd) {
  for (const char* const renew : kRenewals) {
    const auto spec = renewed_network(renew);
    const std::vector<Call> calls = acting_script(60);
    MemoryFileSystem whole;
    Acting unbroken(whole, spec);
    unbroken.run(calls.size(), calls);
    EXPECT_GT(weight_changes(*unbroken.agent->learner()).renewed, 5u);
    expect_same_end_from_any_call(spec, calls, *unbroken.agent, 7);
    Replay replay = test::open_verifying(whole);
    must(replay.run());
    EXPECT_EQ(replay.replayable().hash(), unbroken.agent->hash());
  }
}

TEST(EnvironmentLoop, WhoseUnitsBeginAnewEndsInTheSameStateOnEveryMachineShape) {
  for (const char* const renew : kRenewals) {
    const auto hash = [&](std::size_t threads) {
      auto made = must(ReplayableMesh::begin(renewed_network(renew), true, shape(threads)));
      must(made.loop()->run(300));
      return to_string(made.hash());
    };
    const std::string alone = hash(1);
    for (const kernels::Isa isa : kernels::available_isas()) {
      const ForIsa scope(isa);
      for (const std::size_t threads : {1, 2, 7}) EXPECT_EQ(hash(threads), alone) << name(isa) << threads;
    }
  }
}

TEST(ActingAgent, ReplaysToTheSameHashesAtEachStep) {
  MemoryFileSystem files;
  const std::vector<Call> calls = acting_script(30);
  Acting acting(files, network(kCartPole));
  acting.run(calls.size(), calls);
  Replay replay = test::open_verifying(files);
  must(replay.run());
  EXPECT_GT(replay.compared(), 5u);
  EXPECT_EQ(replay.replayable().hash(), acting.agent->hash());
  // A record of several steps is divided.
  auto stepped = must(ReplayableMesh::begin(network(kCartPole), true, shape(1)));
  const std::uint64_t ticks = stepped.learner()->ticks_per_sample();
  for (std::uint64_t step = 1; step < 20; ++step) {
    must(stepped.loop()->run(1));
    Replay part = test::open_verifying(files);
    must(part.run(step * ticks));
    ASSERT_EQ(part.replayable().loop()->steps(), step);
    ASSERT_EQ(part.tick(), step * ticks);
  }
}

TEST(ActingAgent, AsksWhatIfItsActionsWereOthers) {
  MemoryFileSystem files;
  const std::vector<Call> calls = acting_script(60);
  Acting acting(files, swinging());
  acting.run(calls.size(), calls);
  Replay verified = test::open_verifying(files);
  must(verified.run());
  EXPECT_EQ(verified.replayable().hash(), acting.agent->hash());
  const auto end = [&](const char* change) { return replay_changed(files, change).replayable().hash(); };
  EXPECT_EQ(end("reinforcement.least_deviation=0.01"), acting.agent->hash());
  EXPECT_NE(end("reinforcement.least_deviation=0.5"), acting.agent->hash());
}

TEST(ActingAgent, AsksWhatIf) {
  MemoryFileSystem files;
  const std::vector<Call> calls = acting_script(60);
  Acting acting(files, network(kCartPole));
  acting.run(calls.size(), calls);
  const auto end = [&](const char* change) {
    Replay replay = replay_changed(files, change);
    EXPECT_EQ(replay.replayable().loop()->steps(), acting.agent->loop()->steps());
    return replay.replayable().hash();
  };
  EXPECT_EQ(end("reinforcement.discount=0.99"), acting.agent->hash());
  // A step at its bound does not hang on the rate.
  EXPECT_NE(end("reinforcement.actor_bound=6"), acting.agent->hash());
  EXPECT_NE(end("reinforcement.lambda=0"), acting.agent->hash());
  ReplayOptions options;
  options.mesh.threads = 1;
  options.set = {R"(reinforcement.environment={"type": "memory_chain"})"};
  EXPECT_FALSE(Replay::open(files, "agent", options));
}

// A program with a world of its own: its teaching is in the journal with the signals.
TEST(ActingAgent, KeepsSignalsThatAProgramTeachesWith) {
  auto spec = network(kCartPole);
  spec.reinforcement.clear();
  std::vector<Call> calls;
  for (std::uint64_t s = 0; s < 24; ++s)
    calls.push_back([s](Agent& agent) -> Status {
      if (s % 2 == 0) {
        std::vector<float> x(4);
        RandomStream random(1, s, RandomPurpose::test);
        for (float& value : x) value = random.next_normal();
        const mesh::RunInput input{"o", x};
        const auto ticket = agent.observe({&input, 1});
        return ticket ? Status() : Status(fail(ticket.error()));
      }
      const std::vector<float> policy{0.5f, -0.5f}, value{-1.0f};
      const learning::TraceSignal signal{s % 4 == 1 ? 0.75f : -0.125f, 0.8f, 2.0f, s % 6 == 5};
      const std::vector<learning::Target> targets{{.output = "policy", .gradient = policy, .signal = signal},
                                                  {.output = "value", .gradient = value, .signal = signal}};
      Status taught = agent.teach(s / 2, targets);
      agent.learner()->clear_scores();
      return taught;
    });
  MemoryFileSystem whole, files;
  Acting unbroken(whole, spec);
  unbroken.run(calls.size(), calls);
  {
    Acting cut(files, spec);
    cut.run(13, calls);
    files.process_crash();
  }
  Acting acting(files, spec);
  acting.run(calls.size(), calls);
  EXPECT_EQ(acting.agent->hash(), unbroken.agent->hash());
}

TEST(EnvironmentLoop, RefusesNetworksThatDoNotFit) {
  const auto refused = [](const mesh::NetworkSpec& spec, const char* text) {
    const auto made = ReplayableMesh::begin(spec, true, shape(1));
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().text().find(text), std::string::npos) << made.error().text();
  };
  refused(network(R"({"environment": {"type": "acrobot"}})"), "'o' has 4 values, acrobot has 6");
  refused(network(R"({"environment": {"type": "pendulum"}})"), "'o' has 4 values, pendulum has 3");
  refused(network_of(3, 1, R"({"environment": {"type": "pendulum"}})", 0, R"("optimizer": {"type": "sgd"})"),
          "'policy' has 1 values, and an action of pendulum is 1 real values, each by two of them");
  refused(swinging(R"(, "algorithm": "sarsa")"), "'sarsa' has a value for each of several actions");
  refused(swinging(R"(, "least_deviation": 0)"), "reinforcement.least_deviation");
  refused(network(R"({"environment": {"type": "cartpole"}, "actor": "left"})"), "no output is named 'left'");
  refused(network(R"({"environment": {"type": "cartpole"}, "critic": "policy"})"), "'policy' has 2 values");
  refused(network(R"({"environment": {"type": "chess"}})"), "reinforcement.environment.type");
  refused(network(R"({"algorithm": "actor_critic"})"), "reinforcement: key \"environment\" is missing");
  // Options that would do nothing.
  refused(network(R"({"environment": {"type": "cartpole"}, "least_deviation": 0.5})"),
          "reinforcement.least_deviation: 0.5 with reinforcement.environment.type 'cartpole', where an action is one "
          "of 2");
  for (const char* const key : {"explore_begin", "explore_end", "explore_steps"})
    refused(network(R"({"environment": {"type": "cartpole"}, ")" + std::string(key) + R"(": 1})"), key);
  for (const auto& [type, key, value, kinds] :
       {std::tuple("cartpole", "length", "16", "memory_chain"), std::tuple("chase", "first", R"("snake")", "turns"),
        std::tuple("chase", "second", R"("lanes")", "turns"), std::tuple("pendulum", "every", "5", "turns or chase"),
        std::tuple("acrobot", "observations", "6", "external"), std::tuple("acrobot", "actions", "3", "external"),
        std::tuple("pendulum", "values", "1", "external"), std::tuple("turns", "timeout", "10", "external"),
        std::tuple("cartpole", "resend", "100", "external")}) {
    const std::string text =
        "reinforcement.environment." + std::string(key) + ": counts only with type " + kinds + "; it is " + type;
    refused(network(R"({"environment": {"type": ")" + std::string(type) + R"(", ")" + key + R"(": )" + value + "}}"),
            text.c_str());
  }
  auto plain = network(kCartPole);
  plain.stream = R"({"csv": "x.csv"})";
  refused(plain, "stream: a network with 'reinforcement'");
  plain = network(kCartPole);
  plain.learning = R"({"late": "meet"})";
  refused(plain, "needs learning.traces");
  const std::string traces = network(kCartPole).learning;
  for (const auto& [section, text] :
       {std::pair(R"("drift": {"detector": "page_hinkley"})",
                  "learning.drift.input: 'error' is of the scores of labels, and a network with 'reinforcement'"),
        std::pair(R"("drift": {"detector": "ddm", "input": "return"})", "input: 'return' with learning.drift.detector"),
        std::pair(R"("anomaly": {"score": "loss"})", "learning.anomaly: it takes the scores of labels")}) {
    plain.learning = "{" + std::string(section) + ", " + traces.substr(traces.find('{') + 1);
    refused(plain, text);
  }
}

TEST(EnvironmentLoop, RefusesAStateThatIsNotItsOwn) {
  auto made = must(ReplayableMesh::begin(network(kCartPole), true, shape(1)));
  must(made.loop()->run(10));
  std::vector<std::byte> bytes = made.loop()->save();
  must(made.loop()->load(bytes));
  EXPECT_FALSE(made.loop()->load(ByteSpan(bytes).first(bytes.size() - 1)));
  std::vector<std::byte> other = bytes;
  other[0] = std::byte{1};
  EXPECT_FALSE(made.loop()->load(other));
  std::vector<std::byte> broken = bytes;
  broken[24] = std::byte{9};  // in_episode
  EXPECT_FALSE(made.loop()->load(broken));
}

}  // namespace
}  // namespace weft::agent::test::environment_loop_test
