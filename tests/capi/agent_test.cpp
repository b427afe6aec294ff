// SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include "calls.hpp"
#include <filesystem>

namespace weft::capi::agent_test {
namespace {

using namespace testing_support;

class CAgent : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "/weft_capi_agent_" + std::to_string(::getpid());
    std::filesystem::remove_all(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  weft_agent* open(const char* json, bool learns = true) {
    weft_network* network = nullptr;
    if (json) {
      WEFT_EXPECT_OK(weft_network_read(json, std::strlen(json), nullptr, &network));
    }
    weft_agent_options options{};
    options.size = sizeof options;
    options.no_learning = !learns;
    weft_agent* agent = nullptr;
    WEFT_EXPECT_OK(weft_agent_open(directory_.c_str(), network, &options, &agent));
    if (network) {
      WEFT_EXPECT_OK(weft_network_destroy(network));
    }
    return agent;
  }

  std::string directory_;
};

TEST_F(CAgent, GoesOnWhereItStood) {
  const float bits[2] = {0, 1};
  std::string hash;
  for (int round = 0; round < 3; ++round) {
    weft_agent* const agent = open(round == 0 ? kXor : nullptr);
    weft_mesh* mesh = nullptr;
    weft_learner* learner = nullptr;
    WEFT_ASSERT_OK(weft_agent_mesh(agent, &mesh));
    WEFT_ASSERT_OK(weft_agent_learner(agent, &learner));
    if (round > 0) {
      EXPECT_EQ(hash_of(mesh), hash);
    }
    WEFT_ASSERT_OK(weft_learner_learn_one(learner, bits, 2, 1));
    WEFT_ASSERT_OK(weft_agent_note(agent, "reward", "1"));
    WEFT_ASSERT_OK(weft_agent_mark(agent));
    weft_learner_counts counts{};
    counts.size = sizeof counts;
    WEFT_ASSERT_OK(weft_learner_count(learner, &counts));
    EXPECT_EQ(counts.samples, static_cast<std::uint64_t>(round + 1));
    hash = hash_of(mesh);
    if (round == 1) {
      WEFT_EXPECT_OK(weft_agent_checkpoint(agent));
    } else {
      WEFT_EXPECT_OK(weft_agent_acknowledge(agent));
    }
    const std::string statistics = text_of_call([&](char* to, std::size_t size, std::size_t* needed) {
      return weft_agent_statistics(agent, to, size, needed);
    });
    EXPECT_NE(statistics.find("\"last_error\":null"), std::string::npos) << statistics;
    WEFT_ASSERT_OK(weft_agent_close(agent));
    WEFT_EXPECT_FAILS(weft_agent_mark(agent), WEFT_BAD_HANDLE, "destroyed");
    WEFT_EXPECT_FAILS(weft_mesh_tick(mesh, 1), WEFT_BAD_HANDLE, "closed");
    WEFT_EXPECT_FAILS(weft_learner_drain(learner), WEFT_BAD_HANDLE, "closed");
    WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
    WEFT_EXPECT_OK(weft_learner_destroy(learner));
  }
}

TEST_F(CAgent, WritesTicksAndCommandsIntoItsJournal) {
  std::string hash;
  std::uint64_t stood = 0;
  for (int round = 0; round < 2; ++round) {
    weft_agent* const agent = open(kXor, false);
    weft_mesh* mesh = nullptr;
    weft_learner* learner = nullptr;
    WEFT_ASSERT_OK(weft_agent_mesh(agent, &mesh));
    WEFT_EXPECT_FAILS(weft_agent_learner(agent, &learner), WEFT_NOT_FOUND, "does not learn");
    std::uint64_t now = 0;
    WEFT_ASSERT_OK(weft_mesh_ticks(mesh, &now));
    if (round == 1) {
      EXPECT_EQ(now, stood);
      EXPECT_EQ(hash_of(mesh), hash);
    }
    const float bits[2] = {1, 1};
    WEFT_ASSERT_OK(weft_mesh_set_input(mesh, "bits", 0, bits, 2));
    WEFT_ASSERT_OK(weft_mesh_tick(mesh, 5));
    std::uint64_t ticks = 0;
    WEFT_ASSERT_OK(weft_mesh_tick_for(mesh, 1'000'000, &ticks));
    weft_command command{};
    command.size = sizeof command;
    command.kind = WEFT_COMMAND_MORPH;
    command.at = {0, 0, 1, 0};
    command.dtype = "bfloat16";
    WEFT_ASSERT_OK(weft_mesh_command(mesh, &command, nullptr));
    WEFT_ASSERT_OK(weft_mesh_tick(mesh, 2));
    std::size_t session = 0;
    WEFT_ASSERT_OK(weft_mesh_add_session(mesh, &session));
    WEFT_EXPECT_FAILS(weft_mesh_run(mesh, nullptr, 0, 1, nullptr, 0), WEFT_UNSUPPORTED, "journal");
    WEFT_EXPECT_FAILS(weft_mesh_morph(mesh, {0, 0, 0, 0}, "int8", nullptr), WEFT_UNSUPPORTED, "command morph");
    WEFT_EXPECT_FAILS(weft_mesh_save(mesh, "x", 1), WEFT_UNSUPPORTED, "checkpoint");
    WEFT_EXPECT_FAILS(weft_learner_build(mesh, nullptr, &learner), WEFT_UNSUPPORTED, "the agent has its own");
    hash = hash_of(mesh);
    WEFT_ASSERT_OK(weft_mesh_ticks(mesh, &stood));
    weft_agent* second = nullptr;
    WEFT_EXPECT_FAILS(weft_agent_open(directory_.c_str(), nullptr, nullptr, &second), WEFT_STORAGE, "");
    WEFT_ASSERT_OK(weft_agent_close(agent));
    WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
  }
}

TEST_F(CAgent, RefusesWhatIsNoAgent) {
  weft_agent* agent = nullptr;
  WEFT_EXPECT_FAILS(weft_agent_open(directory_.c_str(), nullptr, nullptr, &agent), WEFT_NOT_FOUND, directory_);
  weft_agent_options options{};
  options.size = sizeof options;
  options.durability = "sometimes";
  WEFT_EXPECT_FAILS(weft_agent_open(directory_.c_str(), nullptr, &options, &agent), WEFT_INVALID_ARGUMENT, "sometimes");
  WEFT_EXPECT_FAILS(weft_agent_open(nullptr, nullptr, nullptr, &agent), WEFT_INVALID_ARGUMENT, "directory: NULL");
}

}  // namespace
}  // namespace weft::capi::agent_test
