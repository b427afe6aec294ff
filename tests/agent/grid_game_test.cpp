// SPDX-License-Identifier: Apache-2.0
// The grid games and chase against rollouts of a second writing of their rules (tools/make_grid_goldens.py), and what
// they keep: each step goes on from a saved world, and turns change as they should.

#include "agent/environments/grid_game.hpp"

#include "agent/environment_loop.hpp"
#include "agent/replayable_mesh.hpp"

#include "mesh/network/network_json.hpp"

#include "core/json.hpp"
#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "tests/agent/worlds.hpp"
#include "tests/mesh/testing.hpp"
#include "tests/support/source_path.hpp"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

namespace weft::agent::grid_game_test {
namespace {

using mesh::testing_support::must;
using namespace test;

const std::vector<std::string> kGames{"falling", "lanes", "shooter", "snake"};

std::unique_ptr<Environment> made(const std::string& name, std::uint64_t every = 20000) {
  EnvironmentOptions options;
  const auto& names = environment_names();
  options.kind = static_cast<EnvironmentKind>(std::find(names.begin(), names.end(), name) - names.begin());
  options.every = every;
  return make_environment(options);
}

Json goldens() {
  std::ifstream file(source_path("tests/data/grid_games.json"));
  std::stringstream text;
  text << file.rdbuf();
  return must(parse_json(text.str(), "grid_games.json"));
}

/// Numbers of a world that its goldens have: of chase not those of its turn.
std::vector<std::int64_t> numbers(const Environment& world, const std::string& game) {
  const auto state = world.state().subspan(game == "chase" ? 2 : 0);
  return {state.begin(), state.end()};
}

std::string digest(const Environment& world, const std::string& game) {
  std::vector<std::int64_t> all = numbers(world, game);
  if (game != "chase")
    for (std::size_t i = 0; i < world.observation().size(); ++i)
      if (world.observation()[i] != 0.0f) all.push_back(static_cast<std::int64_t>(i));
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::int64_t number : all)
    for (int byte = 0; byte < 4; ++byte)
      hash = (hash ^ (static_cast<std::uint32_t>(number) >> 8 * byte & 0xff)) * 0x100000001b3;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

TEST(GridGames, MoveByTheirRules) {
  const Json all = goldens();
  std::size_t steps = 0, ended = 0;
  std::map<std::string, double> won;
  for (const std::string& game : std::vector<std::string>{"falling", "lanes", "shooter", "snake", "chase"}) {
    for (const Json& rollout : *all.find(game)) {
      const auto world = made(game);
      world->reset(rollout["seed"], rollout["episode"]);
      ASSERT_EQ(numbers(*world, game), rollout["begin"].get<std::vector<std::int64_t>>()) << game;
      const auto actions = rollout["actions"].get<std::vector<std::uint32_t>>();
      const auto rewards = rollout["rewards"].get<std::vector<double>>();
      const auto digests = rollout["digests"].get<std::vector<std::string>>();
      for (std::size_t i = 0; i < actions.size(); ++i, ++steps) {
        const Outcome outcome = world->step({actions[i], {}});
        const bool is_over = i + 1 == actions.size() && rollout["end"].text() == "terminated";
        ASSERT_EQ(outcome.reward, rewards[i]) << game << " step " << i;
        ASSERT_EQ(outcome.terminated, is_over) << game << " step " << i;
        ASSERT_FALSE(outcome.truncated);
        ASSERT_EQ(digest(*world, game), digests[i]) << game << " step " << i;
        won[game] += outcome.reward;
        ended += is_over;
      }
      EXPECT_EQ(numbers(*world, game), rollout["numbers"].get<std::vector<std::int64_t>>()) << game;
    }
    EXPECT_GT(won[game], 10.0) << game;  // things happen in them
  }
  EXPECT_GT(steps, 3000u);
  EXPECT_GT(ended, 3u);
}

/// A player that draws its actions.
std::uint32_t drawn(std::uint64_t step, const Environment& world) {
  RandomStream random(9, step, RandomPurpose::test);
  return random.next_below(static_cast<std::uint32_t>(world.shape().choices));
}

TEST(GridGames, GoOnFromEachStep) {
  for (const std::string& game : std::vector<std::string>{"falling", "lanes", "shooter", "snake", "turns", "chase"}) {
    const auto world = made(game, 37), other = made(game, 37);
    world->reset(3, 0);
    std::uint64_t episode = 0;
    for (std::uint64_t step = 0; step < 400; ++step) {
      other->reset(8, step);
      ASSERT_TRUE(load(*other, saved(*world))) << game << step;
      ASSERT_EQ(saved(*other), saved(*world));
      const Outcome one = world->step({drawn(step, *world), {}}), two = other->step({drawn(step, *other), {}});
      ASSERT_EQ(saved(*other), saved(*world)) << game << step;
      ASSERT_EQ(std::vector(other->observation().begin(), other->observation().end()),
                std::vector(world->observation().begin(), world->observation().end()));
      ASSERT_EQ(one.reward, two.reward);
      if (one.terminated || one.truncated) world->reset(3, ++episode, step + 1);
    }
  }
}

TEST(GridGames, ShowZerosAndOnesOfTheSameSize) {
  for (const std::string& game : kGames) {
    const auto world = made(game);
    EXPECT_EQ(world->shape().observations, 400u);
    EXPECT_EQ(world->shape().choices, 5u);
    world->reset(3, 0);
    double sum = 0;
    for (const float value : world->observation()) {
      ASSERT_TRUE(value == 0.0f || value == 1.0f);
      sum += value;
    }
    EXPECT_GT(sum, 0.0);
  }
}

TEST(GridGames, AreTruncatedAtTheirLimits) {
  const auto world = made("lanes");
  world->reset(1, 1);
  for (int step = 1; step < 500; ++step) ASSERT_FALSE(world->step({0, {}}).truncated);
  EXPECT_TRUE(world->step({0, {}}).truncated);
}

// Two games by turns: the first of 0 to 49, the second of 50 to 99 and so on, whatever their episodes are.
TEST(GridGames, ComeByTurns) {
  const auto world = made("turns", 50);
  std::uint64_t step = 0, episode = 0, cut = 0;
  std::size_t games = 0;
  while (step < 1000) {
    world->reset(3, episode, step);
    const std::uint64_t turn = step / 50;
    const auto alone = made(turn % 2 ? "lanes" : "falling");
    alone->reset(3, episode++);
    games |= 1u << turn % 2;
    for (bool is_over = false; !is_over;) {
      ASSERT_EQ(step / 50, turn);
      ASSERT_EQ(std::vector(world->observation().begin(), world->observation().end()),
                std::vector(alone->observation().begin(), alone->observation().end()));
      const std::uint32_t action = drawn(step, *world);
      const Outcome one = world->step({action, {}}), two = alone->step({action, {}});
      ++step;
      ASSERT_EQ(one.reward, two.reward);
      ASSERT_EQ(one.terminated, two.terminated);
      ASSERT_EQ(one.truncated, !one.terminated && step % 50 == 0);
      cut += one.truncated;
      is_over = one.terminated || one.truncated;
    }
  }
  EXPECT_EQ(games, 3u);
  EXPECT_GT(cut, 10u);
}

TEST(GridGames, ChaseTurnsRoundWithoutAWord) {
  const auto world = made("chase", 10);
  std::uint64_t episode = 0;
  std::vector<double> rewards;
  // Always towards the target.
  for (std::uint64_t step = 0; step < 100; ++step) {
    if (step % 32 == 0) world->reset(3, episode++, step);
    const auto x = world->observation();
    const std::uint32_t action = x[6] >= x[7] ? (x[4] > 0 ? 1 : 0) : (x[5] > 0 ? 3 : 2);
    rewards.push_back(world->step({action, {}}).reward);
  }
  for (std::size_t step = 0; step < rewards.size(); ++step) EXPECT_EQ(rewards[step], step / 10 % 2 ? 0.0 : 1.0) << step;
}

TEST(GridGames, RefuseWorldsThatCannotBe) {
  const auto with = [](const std::string& game, std::size_t place, double value) {
    const auto world = made(game);
    world->reset(3, 0);
    std::vector<std::byte> bytes = saved(*world);
    std::memcpy(bytes.data() + place * sizeof(double), &value, sizeof value);
    return load(*world, bytes);
  };
  EXPECT_TRUE(with("falling", 0, 3));
  EXPECT_FALSE(with("falling", 0, 10));
  EXPECT_FALSE(with("falling", 0, 3.5));
  EXPECT_FALSE(with("falling", 2, 9));
  EXPECT_FALSE(with("lanes", 1, 0));
  EXPECT_FALSE(with("lanes", 2, -1));
  EXPECT_FALSE(with("shooter", 5, 5));
  EXPECT_FALSE(with("shooter", 9, 2));
  EXPECT_FALSE(with("snake", 0, 2));
  EXPECT_FALSE(with("snake", 2, 55));  // food in the body
  EXPECT_FALSE(with("snake", 3, 57));  // a head that hangs on nothing
  EXPECT_FALSE(with("snake", 50, 4));
  EXPECT_FALSE(with("turns", 0, 2));
  EXPECT_FALSE(with("turns", 1, 20001));
  EXPECT_FALSE(with("turns", 2, 1e300));
  EXPECT_FALSE(with("chase", 2, 64));
  EXPECT_FALSE(with("chase", 0, 0.5));
}

mesh::NetworkSpec network(const std::string& environment, int inputs, int actions) {
  return must(mesh::read_network(R"({"weft": 2, "seed": 3, "grid": {"x": 2}, "inputs": {"o": [)" +
                                     std::to_string(inputs) + R"(]}, "layers": [
      {"at": [0, 0, 0, 0], "type": "dense", "out": )" +
                                     std::to_string(actions) + R"(, "from": ["o"]},
      {"at": [0, 0, 1, 0], "type": "dense", "out": 1, "from": ["o"]}],
      "outputs": {"policy": [0, 0, 0, 0], "value": [0, 0, 1, 0]},
      "learning": {"late": "meet", "patience": 1, "traces": true, "optimizer": {"type": "sgd", "lr": 1}},
      "reinforcement": {"environment": )" +
                                     environment + R"(, "seed": 5}})",
                                 "grid"));
}

// An agent that is saved at any step goes on to the same end, on any number of threads; turns go by its steps.
TEST(GridGames, AreStateOfTheAgent) {
  for (const auto& [environment, inputs, actions] :
       {std::tuple(R"({"type": "turns", "first": "snake", "second": "shooter", "every": 40})", 400, 5),
        std::tuple(R"({"type": "chase", "every": 25})", 8, 4)}) {
    const auto spec = network(environment, inputs, actions);
    std::string whole;
    for (const std::size_t threads : {1, 2, 7}) {
      mesh::MeshOptions options;
      options.threads = threads;
      options.grain_bytes = 0;
      options.pin = false;
      auto agent = must(ReplayableMesh::begin(spec, true, options));
      for (int part = 0; part < 10; ++part) {
        must(agent.loop()->run(13));
        agent.quiesce();
        auto copy = must(agent.copy(options));
        agent.swap(copy);
      }
      const std::string hash = to_string(agent.hash());
      if (whole.empty()) {
        auto unbroken = must(ReplayableMesh::begin(spec, true, options));
        must(unbroken.loop()->run(130));
        whole = to_string(unbroken.hash());
      }
      EXPECT_EQ(hash, whole) << environment << threads;
      const Environment& world = agent.loop()->environment();
      EXPECT_EQ(world.state()[0], environment[10] == 't' ? 130 / 40 % 2 : 130 / 25 % 2);
    }
  }
}

}  // namespace
}  // namespace weft::agent::grid_game_test
