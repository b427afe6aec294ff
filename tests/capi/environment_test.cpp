// SPDX-License-Identifier: Apache-2.0
// Environments through C: the trajectories of C++, which tests/data/environment_trajectories.json has for the bindings.
// WEFT_WRITE=1 writes that file.

#include "agent/environments/environment.hpp"

#include "core/json.hpp"

#include "calls.hpp"
#include "tests/support/source_path.hpp"
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

namespace weft::capi::environment_test {
namespace {

using namespace testing_support;

constexpr std::uint64_t kSeed = 0x1234567890ull;
constexpr std::size_t kSteps = 60;

std::uint32_t choice_at(std::size_t step, std::size_t choices) {
  return choices == 0 ? 0 : static_cast<std::uint32_t>(step * 7 / 3 % choices);
}
std::vector<float> values_at(std::size_t step, std::size_t values) {
  return std::vector<float>(values, static_cast<float>(step % 9) / 2 - 2);
}

struct Made {
  explicit Made(const char* name, std::uint32_t length = 0) {
    weft_environment_options options{};
    options.size = sizeof options;
    options.length = length;
    WEFT_EXPECT_OK(weft_environment_create(name, &options, &handle));
  }
  ~Made() { (void)weft_environment_destroy(handle); }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  weft_environment* handle = nullptr;
};

weft_environment_result step(weft_environment* of, std::uint32_t choice, const std::vector<float>& values) {
  weft_environment_result result{};
  result.size = sizeof result;
  WEFT_EXPECT_OK(weft_environment_step(of, choice, values.data(), values.size(), &result));
  return result;
}

std::vector<float> observation_of(weft_environment* of) {
  std::size_t needed = 0;
  WEFT_EXPECT_OK(weft_environment_observation(of, nullptr, 0, &needed));
  std::vector<float> values(needed);
  WEFT_EXPECT_OK(weft_environment_observation(of, values.data(), values.size(), nullptr));
  return values;
}

std::string hash_of(weft_environment* of) {
  std::array<char, 33> text{};
  WEFT_EXPECT_OK(weft_environment_hash(of, text.data(), text.size(), nullptr));
  return text.data();
}

Json bits_of(std::span<const float> values) {
  Json all = Json::array();
  for (const float value : values) all.push_back(std::bit_cast<std::uint32_t>(value));
  return all;
}

/// Rows of one episode after the other: observation and reward as bits.
Json trajectory(agent::EnvironmentKind kind) {
  agent::EnvironmentOptions options;
  options.kind = kind;
  options.length = 5;
  options.every = 5;
  const auto world = agent::make_environment(options);
  std::uint64_t episode = 0;
  world->reset(kSeed, episode);
  Json rows = Json::array();
  for (std::size_t i = 0; i < kSteps; ++i) {
    const auto values = values_at(i, world->shape().values);
    const Json before = bits_of(world->observation());
    const agent::Outcome outcome = world->step({choice_at(i, world->shape().choices), values});
    rows.push_back({{"observation", before},
                    {"reward", std::to_string(std::bit_cast<std::uint64_t>(outcome.reward))},
                    {"terminated", outcome.terminated},
                    {"truncated", outcome.truncated}});
    if (outcome.terminated || outcome.truncated) world->reset(kSeed, ++episode, i + 1);
  }
  return rows;
}

/// Without those that are other programs.
std::vector<agent::EnvironmentKind> kinds() {
  std::vector<agent::EnvironmentKind> all;
  for (std::size_t kind = 0; kind < agent::environment_names().size(); ++kind)
    all.push_back(static_cast<agent::EnvironmentKind>(kind));
  std::erase(all, agent::EnvironmentKind::external);
  return all;
}

TEST(CEnvironment, HasTheTrajectoriesOfCpp) {
  Json all = {{"seed", kSeed}, {"length", 5}, {"worlds", Json::object()}};
  for (const agent::EnvironmentKind kind : kinds()) all["worlds"][name(kind)] = trajectory(kind);
  const std::string path = source_path("tests/data/environment_trajectories.json");
  if (std::getenv("WEFT_WRITE")) std::ofstream(path) << all.dump() << "\n";
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto kept = parse_json(text, path);
  ASSERT_TRUE(kept) << kept.error().text();
  ASSERT_TRUE(*kept == all) << "WEFT_WRITE=1 writes " << path;

  for (const agent::EnvironmentKind kind : kinds()) {
    const std::string_view name = agent::name(kind);
    SCOPED_TRACE(name);
    const Made world(std::string(name).c_str(), 5);
    weft_environment_shape shape{};
    shape.size = sizeof shape;
    WEFT_ASSERT_OK(weft_environment_describe(world.handle, &shape));
    std::uint64_t episode = 0;
    WEFT_ASSERT_OK(weft_environment_reset(world.handle, kSeed, episode));
    std::size_t i = 0;
    for (const Json& row : all["worlds"][name]) {
      EXPECT_EQ(bits_of(observation_of(world.handle)), row["observation"]);
      // Saved, thrown away and restored at each step: it is the same world.
      std::size_t needed = 0;
      WEFT_ASSERT_OK(weft_environment_save(world.handle, nullptr, 0, &needed));
      std::vector<unsigned char> bytes(needed);
      WEFT_ASSERT_OK(weft_environment_save(world.handle, bytes.data(), bytes.size(), nullptr));
      const std::string before = hash_of(world.handle);
      const auto values = values_at(i, shape.values);
      const auto first = step(world.handle, choice_at(i, shape.choices), values);
      EXPECT_NE(hash_of(world.handle), before);
      const Made other(std::string(name).c_str(), 5);
      WEFT_ASSERT_OK(weft_environment_restore(other.handle, bytes.data(), bytes.size()));
      EXPECT_EQ(hash_of(other.handle), before);
      const auto result = step(other.handle, choice_at(i, shape.choices), values);
      EXPECT_EQ(hash_of(other.handle), hash_of(world.handle));
      EXPECT_EQ(result.reward, first.reward);
      EXPECT_EQ(std::to_string(std::bit_cast<std::uint64_t>(result.reward)), row["reward"]);
      EXPECT_EQ(result.terminated != 0, row["terminated"]);
      EXPECT_EQ(result.truncated != 0, row["truncated"]);
      if (result.terminated || result.truncated) {
        weft_environment_result again = result;
        WEFT_EXPECT_FAILS(weft_environment_step(world.handle, 0, values.data(), values.size(), &again),
                          WEFT_INVALID_ARGUMENT, "ended");
        WEFT_ASSERT_OK(weft_environment_reset(world.handle, kSeed, ++episode));
      }
      ++i;
    }
    EXPECT_EQ(i, kSteps);
  }
}

TEST(CEnvironment, TellsWhatThereIs) {
  const Json all = parse_json(text_of_call(weft_environments), "environments").value();
  ASSERT_EQ(all.size(), kinds().size());
  EXPECT_EQ(all[0]["name"], "cartpole");
  EXPECT_EQ(all[0]["observations"], 4);
  EXPECT_EQ(all[3]["values"], 1);
}

TEST(CEnvironment, RefusesNonsenseAndStaysAsItWas) {
  weft_environment* handle = nullptr;
  WEFT_EXPECT_FAILS(weft_environment_create("cart", nullptr, &handle), WEFT_UNKNOWN_NAME, "memory_chain");
  WEFT_EXPECT_FAILS(weft_environment_create("external", nullptr, &handle), WEFT_UNKNOWN_NAME, "memory_chain");
  WEFT_EXPECT_FAILS(weft_environment_create(nullptr, nullptr, &handle), WEFT_INVALID_ARGUMENT, "name: NULL");
  WEFT_EXPECT_FAILS(weft_environment_create("cartpole", nullptr, nullptr), WEFT_INVALID_ARGUMENT, "out_environment");
  weft_environment_options options{};
  WEFT_EXPECT_FAILS(weft_environment_create("cartpole", &options, &handle), WEFT_INVALID_ARGUMENT, "size");
  options.size = sizeof options;
  options.length = UINT32_MAX;
  WEFT_EXPECT_FAILS(weft_environment_create("memory_chain", &options, &handle), WEFT_OUT_OF_RANGE, "4294967295");

  const Made cart("cartpole"), pendulum("pendulum");
  weft_environment_result result{};
  WEFT_EXPECT_FAILS(weft_environment_step(cart.handle, 0, nullptr, 0, &result), WEFT_INVALID_ARGUMENT, "size");
  result.size = sizeof result;
  WEFT_EXPECT_FAILS(weft_environment_step(cart.handle, 0, nullptr, 0, nullptr), WEFT_INVALID_ARGUMENT, "out_result");
  WEFT_EXPECT_FAILS(weft_environment_step(cart.handle, 0, nullptr, 0, &result), WEFT_INVALID_ARGUMENT, "begun");
  WEFT_ASSERT_OK(weft_environment_reset(cart.handle, 1, 0));
  WEFT_ASSERT_OK(weft_environment_reset(pendulum.handle, 1, 0));
  const std::string before = hash_of(cart.handle), before_pendulum = hash_of(pendulum.handle);
  const std::array<float, 2> values{0, 1}, bad{std::numeric_limits<float>::quiet_NaN(), 0};
  WEFT_EXPECT_FAILS(weft_environment_step(cart.handle, 2, nullptr, 0, &result), WEFT_OUT_OF_RANGE, "choice 2 of 2");
  WEFT_EXPECT_FAILS(weft_environment_step(cart.handle, 0, values.data(), 1, &result), WEFT_SHAPE_MISMATCH, "1 values");
  WEFT_EXPECT_FAILS(weft_environment_step(pendulum.handle, 0, nullptr, 0, &result), WEFT_SHAPE_MISMATCH, "0 values");
  WEFT_EXPECT_FAILS(weft_environment_step(pendulum.handle, 0, values.data(), 2, &result), WEFT_SHAPE_MISMATCH, "2");
  WEFT_EXPECT_FAILS(weft_environment_step(pendulum.handle, 0, bad.data(), 1, &result), WEFT_NOT_FINITE, "value 0");
  std::array<unsigned char, 256> bytes{};
  std::size_t size = 0;
  WEFT_ASSERT_OK(weft_environment_save(cart.handle, bytes.data(), bytes.size(), &size));
  WEFT_EXPECT_FAILS(weft_environment_restore(pendulum.handle, bytes.data(), size), WEFT_INVALID_ARGUMENT, "cartpole");
  for (std::size_t i = 0; i < size; ++i) {
    auto wrong = bytes;
    wrong[i] ^= 0x40;
    EXPECT_EQ(weft_environment_restore(cart.handle, wrong.data(), size), WEFT_CORRUPT) << i;
    EXPECT_EQ(weft_environment_restore(cart.handle, bytes.data(), i), WEFT_CORRUPT) << i;
  }
  EXPECT_EQ(hash_of(cart.handle), before);
  EXPECT_EQ(hash_of(pendulum.handle), before_pendulum);
  weft_environment_shape shape{};
  WEFT_EXPECT_FAILS(weft_environment_describe(cart.handle, &shape), WEFT_INVALID_ARGUMENT, "size");
  EXPECT_EQ(weft_environment_reset(nullptr, 0, 0), WEFT_BAD_HANDLE);
  WEFT_EXPECT_FAILS(weft_mesh_tick(reinterpret_cast<weft_mesh*>(cart.handle), 1), WEFT_BAD_HANDLE, "environment");
}

}  // namespace
}  // namespace weft::capi::environment_test
