// SPDX-License-Identifier: Apache-2.0
// Agents opened by their directory alone.

#include "agent/agent.hpp"

#include "mesh/network/network.hpp"

#include <unistd.h>

#include "scripted.hpp"
#include <filesystem>
#include <string>

namespace weft::agent::open_test {
namespace {

namespace fs = std::filesystem;

class OpenTest : public testing::Test {
 protected:
  OpenTest() : folder_(fs::temp_directory_path() / ("weft_open_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~OpenTest() override { fs::remove_all(folder_); }
  std::string directory() const { return (folder_ / "agent").string(); }
  fs::path folder_;
};

TEST_F(OpenTest, GoesOnWithTheNetworkThatTheDirectoryHolds) {
  Hash128 before;
  {
    auto agent = Agent::open(directory(), test::small_network()).value();
    const std::vector<float> x{1, 2, 3, 4};
    const mesh::RunInput input{"x", x};
    const std::uint32_t label = 2;
    const learning::Target target{.output = "y", .labels = {&label, 1}};
    ASSERT_TRUE(agent->learn({&input, 1}, {&target, 1}, 1));
    ASSERT_TRUE(agent->acknowledge());
    before = agent->mesh().state_hash();
  }
  auto agent = Agent::open(directory());
  ASSERT_TRUE(agent) << agent.error().text();
  EXPECT_EQ((*agent)->mesh().state_hash(), before);
  EXPECT_EQ((*agent)->mesh().spec().name, "small");
  const auto second = Agent::open(directory());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Errc::storage) << second.error().text();
}

TEST_F(OpenTest, OfNoAgentSaysSoAndMakesNothing) {
  for (const std::string& place : {directory(), folder_.string()}) {
    const auto agent = Agent::open(place);
    ASSERT_FALSE(agent) << place;
    EXPECT_EQ(agent.error().code(), Errc::not_found);
    EXPECT_NE(agent.error().text().find(place + ": no agent is there"), std::string::npos) << agent.error().text();
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(OpenTest, LeavesAStateKeptBesideTheAgentAlone) {
  test::Counter counter;
  Agent::Options options;
  options.extension = &counter;
  { ASSERT_TRUE(Agent::open(directory(), test::small_network(), options)); }
  const auto bare = Agent::open(directory());
  ASSERT_FALSE(bare);
  EXPECT_EQ(bare.error().code(), Errc::invalid_argument);
  EXPECT_NE(bare.error().text().find("state of its own"), std::string::npos) << bare.error().text();
  EXPECT_TRUE(Agent::open(directory(), options));
}

}  // namespace
}  // namespace weft::agent::open_test
