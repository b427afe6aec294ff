// SPDX-License-Identifier: Apache-2.0
// The environments: their motion against float64 references, their episodes, and that a state that was saved goes on to
// the bit.

#include "agent/environments/environment.hpp"

#include "kernels/isa.hpp"

#include "core/json.hpp"
#include "core/state_hash.hpp"

#include <gtest/gtest.h>

#include "tests/agent/worlds.hpp"
#include "tests/mesh/testing.hpp"
#include "tests/support/source_path.hpp"
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace weft::agent::environment_test {
namespace {

using namespace test;

std::vector<EnvironmentKind> kinds() {
  std::vector<EnvironmentKind> all;
  for (std::size_t i = 0; i < environment_names().size(); ++i) all.push_back(static_cast<EnvironmentKind>(i));
  std::erase(all, EnvironmentKind::external);  // it is elsewhere: external_test.cpp
  return all;
}

std::unique_ptr<Environment> made(EnvironmentKind kind) { return make_environment({kind, 5}); }

/// Puts numbers in the place of a world's own.
bool place(Environment& environment, const std::vector<double>& state) {
  std::vector<std::byte> bytes = saved(environment);
  std::memcpy(bytes.data(), state.data(), state.size() * sizeof(double));
  return load(environment, bytes);
}

/// Actions that are a function of the step.
Outcome act(Environment& environment, std::uint64_t step) {
  RandomStream random(5, step, RandomPurpose::test);
  const std::size_t choices = environment.shape().choices;
  const std::vector<float> values(environment.shape().values, 4.0f * random.next_uniform() - 2.0f);
  return environment.step({choices ? random.next_below(static_cast<std::uint32_t>(choices)) : 0, values});
}

/// Hash over `steps` steps from where it stands, with new episodes where one ends.
Hash128 hash_of(Environment& environment, std::uint64_t first, std::uint64_t steps) {
  StateHasher hasher;
  std::uint64_t episode = 100 + first;
  for (std::uint64_t s = first; s < first + steps; ++s) {
    const Outcome outcome = act(environment, s);
    hasher.add_bytes(&outcome.reward, sizeof outcome.reward);
    hasher.add_bytes(environment.observation().data(), environment.observation().size_bytes());
    HashArchive archive(hasher, kWorld);
    environment.visit(archive);
    if (outcome.terminated || outcome.truncated) environment.reset(3, ++episode);
  }
  return hasher.digest();
}

// Within 1e-4 of the reference: sines and cosines are binary32, and what they differ by grows along a rollout.
TEST(Environments, MoveAsTheEquationsSay) {
  std::ifstream file(source_path("tests/data/environments.json"));
  std::stringstream text;
  text << file.rdbuf();
  const auto goldens = parse_json(text.str(), "environments.json");
  ASSERT_TRUE(goldens) << goldens.error().text();
  std::size_t compared = 0;
  for (const EnvironmentKind kind : kinds()) {
    const Json* const rollouts = goldens->find(std::string(name(kind)));
    if (!rollouts) continue;
    for (const Json& rollout : *rollouts) {
      const auto world = made(kind);
      world->reset(1, 1);
      ASSERT_TRUE(place(*world, rollout.find("start")->get<std::vector<double>>()));
      for (const Json& step : *rollout.find("steps")) {
        const auto action = step.find("action")->get<double>();
        const std::vector<float> values{static_cast<float>(action)};
        const Outcome outcome = world->step({world->shape().choices ? static_cast<std::uint32_t>(action) : 0, values});
        const auto state = step.find("state")->get<std::vector<double>>();
        ASSERT_EQ(world->state().size(), state.size());
        for (std::size_t i = 0; i < state.size(); ++i)
          ASSERT_NEAR(world->state()[i], state[i], 1e-4) << name(kind) << " step " << world->steps() << " number " << i;
        ASSERT_NEAR(outcome.reward, step.find("reward")->get<double>(), 1e-3);
        ASSERT_EQ(outcome.terminated, step.find("terminated")->get<bool>()) << name(kind) << world->steps();
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 285u);
}

TEST(Environments, GoOnFromASavedStateToTheBit) {
  for (const EnvironmentKind kind : kinds()) {
    const auto one = made(kind), other = made(kind);
    one->reset(3, 0);
    (void)hash_of(*one, 0, 40);
    other->reset(99, 99);
    ASSERT_TRUE(load(*other, saved(*one))) << name(kind);
    EXPECT_EQ(std::vector(other->observation().begin(), other->observation().end()),
              std::vector(one->observation().begin(), one->observation().end()));
    EXPECT_EQ(hash_of(*one, 40, 60), hash_of(*other, 40, 60)) << name(kind);
  }
}

// An agent's first checkpoint comes before its first step.
TEST(Environments, AreSavedBeforeTheirFirstEpisode) {
  for (const EnvironmentKind kind : kinds()) {
    const auto one = made(kind), other = made(kind);
    ASSERT_TRUE(load(*other, saved(*one))) << name(kind);
    one->reset(3, 0);
    other->reset(3, 0);
    EXPECT_EQ(hash_of(*one, 0, 20), hash_of(*other, 0, 20)) << name(kind);
  }
}

// Nothing in them depends on the instruction set; the hashes hold across machines and compilers.
TEST(Environments, HaveTheBitsOfEveryMachine) {
  std::map<EnvironmentKind, std::string> hashes;
  for (const kernels::Isa isa : kernels::available_isas()) {
    const mesh::testing_support::ForIsa scope(isa);
    for (const EnvironmentKind kind : kinds()) {
      const auto world = made(kind);
      world->reset(3, 0);
      const std::string hash = to_string(hash_of(*world, 0, 300));
      EXPECT_EQ(hashes.try_emplace(kind, hash).first->second, hash) << name(kind) << name(isa);
    }
  }
}

TEST(Environments, BeginEachEpisodeByItsSeedAndNumberAlone) {
  for (const EnvironmentKind kind : kinds()) {
    const auto one = made(kind), other = made(kind);
    one->reset(3, 7);
    other->reset(3, 1);
    (void)hash_of(*other, 0, 10);
    other->reset(3, 7);
    EXPECT_EQ(saved(*one), saved(*other)) << name(kind);
  }
  const auto a = made(EnvironmentKind::cartpole), b = made(EnvironmentKind::cartpole);
  a->reset(3, 7);
  b->reset(3, 8);
  EXPECT_NE(saved(*a), saved(*b));
  b->reset(4, 7);
  EXPECT_NE(saved(*a), saved(*b));
}

TEST(Environments, AreTruncatedAtTheirLimits) {
  const auto world = made(EnvironmentKind::acrobot);
  world->reset(1, 1);
  for (std::uint64_t s = 1; s < 500; ++s) {
    const Outcome outcome = world->step({1, {}});
    ASSERT_FALSE(outcome.truncated || outcome.terminated);
  }
  EXPECT_TRUE(world->step({1, {}}).truncated);
}

TEST(Environments, CatchPaysForMeetingTheBall) {
  const auto world = made(EnvironmentKind::catch_ball);
  for (std::uint64_t episode = 0; episode < 20; ++episode) {
    world->reset(1, episode);
    for (bool is_over = false; !is_over;) {
      const double ball = world->state()[1], paddle = world->state()[2];
      const Outcome outcome = world->step({ball < paddle ? 0u : ball > paddle ? 2u : 1u, {}});
      is_over = outcome.terminated;
      ASSERT_EQ(outcome.reward, is_over ? 1.0 : 0.0);
    }
    EXPECT_EQ(world->steps(), 9u);
  }
}

TEST(Environments, MemoryChainAsksForTheFirstBit) {
  const auto world = made(EnvironmentKind::memory_chain);
  for (std::uint64_t episode = 0; episode < 20; ++episode) {
    world->reset(1, episode);
    const float bit = world->observation()[2];
    ASSERT_EQ(std::fabs(bit), 1.0f);
    for (int s = 0; s < 5; ++s) {
      ASSERT_EQ(world->observation()[1], 0.0f);
      ASSERT_FALSE(world->step({0, {}}).terminated);
      ASSERT_EQ(world->observation()[2], 0.0f);
    }
    EXPECT_EQ(world->observation()[1], 1.0f);
    const Outcome outcome = world->step({bit > 0 ? 1u : 0u, {}});
    EXPECT_TRUE(outcome.terminated);
    EXPECT_EQ(outcome.reward, 1.0);
  }
}

TEST(Environments, RefuseStatesThatCannotBe) {
  const auto ball = made(EnvironmentKind::catch_ball);
  ball->reset(1, 1);
  EXPECT_FALSE(place(*ball, {0, 5, 2}));
  EXPECT_FALSE(place(*ball, {0, 1.5, 2}));
  EXPECT_FALSE(place(*ball, {-1, 1, 2}));
  EXPECT_FALSE(place(*ball, {0, std::nan(""), 2}));
  EXPECT_TRUE(place(*ball, {9, 4, 0}));
}

}  // namespace
}  // namespace weft::agent::environment_test
