// SPDX-License-Identifier: Apache-2.0
// The program of docs/agents.md.

#include "agent/agent.hpp"

#include "storage/file_system.hpp"

#include "tests/agent/scripted.hpp"
#include "tests/support/temporary_directory.hpp"
#include <cstdio>

namespace weft::agent::test::program_test {
namespace {

Hash128 hash_in_memory(int days) {
  const auto spec = small_network();
  ReplayableMesh run = ReplayableMesh::begin(spec, true, {}).value();
  const std::vector<float> x{0, 0.5f, 1, 0};
  const std::vector<std::uint32_t> y{2};
  const mesh::RunInput input{"x", x};
  const learning::Target target{"y", y, {}};
  for (int sample = 0; sample < days * 100; ++sample) EXPECT_TRUE(run.learner()->learn({&input, 1}, {&target, 1}, 1));
  return run.hash();
}

Status run_a_day(const std::string& directory, const mesh::NetworkSpec& network) {
  agent::Agent::Options options;
  options.durability = {agent::Durability::Mode::interval, std::chrono::seconds(1)};
  agent::Recovery found;
  WEFT_TRY(auto agent, agent::Agent::open(storage::real_file_system(), directory, network, options, found));
  std::printf("%s at tick %lu, state %s\n", found.is_new ? "new" : "found", found.at.tick,
              to_string(found.hash).c_str());
  const std::vector<float> x{0, 0.5f, 1, 0};
  const std::vector<std::uint32_t> y{2};
  const mesh::RunInput input{"x", x};
  const learning::Target target{"y", y, {}};
  for (int sample = 0; sample < 100; ++sample) {
    WEFT_CHECK(agent->learn({&input, 1}, {&target, 1}, 1));  // learned, then journaled
    agent->learner()->clear_scores();
  }
  WEFT_CHECK(agent->note("reward", "1"));  // an annotation of yours; a replay returns it
  WEFT_CHECK(agent->mark());               // tick and state hash, compared by replays
  return agent->acknowledge();             // waits until all of it is on disk
}

TEST(Program, OfTheDocumentsGoesOnFromDayToDay) {
  const storage::TemporaryDirectory directory;
  for (int day = 0; day < 3; ++day) {
    const Status ran = run_a_day(directory.path(), small_network());
    ASSERT_TRUE(ran) << ran.error().text();
    Recovery found;
    auto agent = Agent::open(storage::real_file_system(), directory.path(), small_network(), {}, found);
    ASSERT_TRUE(agent) << agent.error().text();
    EXPECT_FALSE(found.is_new);
    EXPECT_EQ(found.hash, hash_in_memory(day + 1));
  }
}

}  // namespace
}  // namespace weft::agent::test::program_test
