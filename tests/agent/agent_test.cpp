// SPDX-License-Identifier: Apache-2.0
// An agent opened again stands where it was.

#include "agent/agent.hpp"

#include "mesh/persistence/session_file.hpp"

#include "tests/agent/scripted.hpp"
#include "tests/support/memory_file_system.hpp"
#include <cmath>

namespace weft::agent::test::agent_test {
namespace {

using Mode = Durability::Mode;
const std::vector<Call> kScript = script(40);
const std::uint64_t kCalls = kScript.size();
const std::vector<Call> kUntrained = script(40, false);

using Opened = std::unique_ptr<ScriptedAgent>;

Opened open(storage::FileSystem& files, Mode mode = Mode::tick, const ScriptedAgent::Change& change = {}) {
  auto made = std::make_unique<ScriptedAgent>(files, mode, change);
  EXPECT_TRUE(made->opened) << made->opened.error().text();
  return made->agent ? std::move(made) : nullptr;
}
Opened open_untrained(storage::FileSystem& files, Mode mode = Mode::tick) {
  return open(files, mode, [](Agent::Options& options) { options.learns = false; });
}
void salvages(Agent::Options& options) { options.salvage = true; }

Hash128 unbroken() {
  storage::MemoryFileSystem files;
  const auto opened = open(files);
  opened->run(kCalls, kScript);
  return opened->hash();
}

TEST(Agent, GoesOnAfterEveryCallAsIfItHadNeverStopped) {
  const Hash128 whole = unbroken();
  for (const Mode mode : {Mode::tick, Mode::interval, Mode::checkpoint}) {
    storage::MemoryFileSystem files;
    std::uint64_t last_tick = 0;
    for (std::uint64_t call = 0; call <= kCalls; ++call) {
      const auto opened = open(files, mode);
      ASSERT_TRUE(opened);
      ASSERT_EQ(opened->recovery.is_new, call == 0);
      // Killed, and the journal was written: nothing is missing, in any mode.
      ASSERT_EQ(opened->counter.calls, call == 0 ? 0 : call - 1);
      EXPECT_EQ(opened->agent->mesh().ticks(), last_tick);
      opened->run(call, kScript);
      last_tick = opened->agent->mesh().ticks();
      if (call == kCalls) {
        EXPECT_EQ(opened->hash(), whole);
      }
      files.process_crash();
    }
  }
}

TEST(Agent, RunsWithoutALearnerToo) {
  storage::MemoryFileSystem once, often;
  const auto whole = open_untrained(once);
  whole->run(kUntrained.size(), kUntrained);
  for (std::uint64_t call = 0; call <= kUntrained.size(); call += 9) {
    const auto opened = open_untrained(often, Mode::interval);
    ASSERT_TRUE(opened);
    opened->run(call, kUntrained);
    often.process_crash();
  }
  const auto opened = open_untrained(often);
  opened->run(kUntrained.size(), kUntrained);
  EXPECT_EQ(opened->hash(), whole->hash());
  const mesh::RunInput none{"x", {}};
  const Status trained = opened->agent->learn({&none, 1}, {}, 0);
  ASSERT_FALSE(trained);
  EXPECT_EQ(trained.error().code(), Errc::unsupported);
}

TEST(Agent, AcknowledgesByItsDurability) {
  for (const Mode mode : {Mode::tick, Mode::interval, Mode::checkpoint}) {
    storage::MemoryFileSystem files;
    const auto opened = open(files, mode);
    opened->run(3, kScript);
    const AgentStatistics statistics = opened->agent->statistics();
    switch (mode) {
      case Mode::tick:
        EXPECT_EQ(statistics.acknowledged, statistics.at);
        break;
      case Mode::interval:
        EXPECT_LT(statistics.acknowledged.record, statistics.at.record);
        break;
      case Mode::checkpoint:
        EXPECT_EQ(statistics.acknowledged.record, 0u);
        break;
    }
    const LogPosition before = opened->agent->statistics().at;
    ASSERT_TRUE(opened->agent->acknowledge());
    EXPECT_GE(opened->agent->statistics().acknowledged.record, before.record);
    EXPECT_GE(opened->agent->statistics().acknowledged.tick, before.tick);
  }
}

TEST(Agent, RefusesARunOfAnotherNetwork) {
  storage::MemoryFileSystem files;
  open(files)->run(2, kScript);
  auto spec = small_network();
  spec.layers[2].out = 4;
  const Status other = ScriptedAgent(files, Mode::tick, {}, spec).opened;
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code(), Errc::invalid_argument);
  EXPECT_NE(other.error().text().find("layers[2].out: 3 there, 4 here"), std::string::npos) << other.error().text();
}

TEST(Agent, IsOneProcesssAtATime) {
  storage::MemoryFileSystem files;
  const auto first = open(files);
  const Status second = ScriptedAgent(files).opened;
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Errc::storage);
}

TEST(Agent, WritesDownNothingThatTheMeshRefused) {
  storage::MemoryFileSystem files;
  const auto opened = open(files);
  opened->run(2, kScript);
  const LogPosition before = opened->agent->statistics().at;
  EXPECT_FALSE(opened->agent->set_input("y", std::vector<float>(4)));
  EXPECT_FALSE(opened->agent->set_input("x", std::vector<float>(5)));
  EXPECT_FALSE(opened->agent->remove_session(9));
  EXPECT_FALSE(opened->agent->post({0, 7, 0, 0}, std::make_shared<mesh::Command>()));
  EXPECT_EQ(opened->agent->statistics().at, before);
  opened->run(kCalls, kScript);
  EXPECT_EQ(opened->hash(), unbroken());
}

std::string newest_journal(const storage::MemoryFileSystem& files) {
  std::string newest;
  for (const std::string& path : files.all_files())
    if (path.find("/journal-") != std::string::npos) newest = path;
  return newest;
}

TEST(Agent, TakesAnOlderCheckpointAndTheJournalWhereTheNewestDoesNotVerify) {
  storage::MemoryFileSystem files;
  {
    const auto opened = open(files);
    opened->run(kCalls, kScript);
  }
  std::string newest;
  for (const std::string& path : files.all_files())
    if (path.ends_with("agent.entity") && (newest.empty() || path.size() > newest.size() || path > newest))
      newest = path;
  ASSERT_TRUE(files.flip_bit(newest, 4321));
  const auto opened = open(files);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->recovery.passed_over.size(), 1u);
  EXPECT_GT(opened->recovery.records, 10u);
  EXPECT_EQ(opened->counter.calls, kCalls);
  EXPECT_EQ(opened->hash(), unbroken());
}

TEST(Agent, RefusesADamagedJournalUntilItIsToldToSalvage) {
  storage::MemoryFileSystem files;
  std::uint64_t ticks = 0;
  {
    const auto opened = open(files, Mode::tick, [](Agent::Options& options) { options.checkpoint_every = 0; });
    opened->run(kCalls, kScript);
    ticks = opened->agent->mesh().ticks();
  }
  // In the middle of the first segment: much that was acknowledged follows.
  ASSERT_TRUE(files.flip_bit("agent/journal/journal-00000000000000000001", 8 * 700));
  const Status refused = ScriptedAgent(files).opened;
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::corrupt);
  EXPECT_NE(refused.error().text().find("journal-00000000000000000001"), std::string::npos) << refused.error().text();
  EXPECT_NE(refused.error().text().find("salvage goes on from tick"), std::string::npos) << refused.error().text();
  {
    const auto opened = open(files, Mode::tick, salvages);
    ASSERT_TRUE(opened);
    EXPECT_FALSE(opened->recovery.damages.empty());
    EXPECT_GT(opened->counter.calls, 0u);
    EXPECT_LT(opened->agent->mesh().ticks(), ticks);
    opened->run(kCalls, kScript);
    EXPECT_EQ(opened->hash(), unbroken());
  }
  // And from then on it is an agent as any other.
  const auto opened = open(files);
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->recovery.damages.empty());
  EXPECT_EQ(opened->hash(), unbroken());
}

TEST(Agent, DropsATornTailAndSaysSo) {
  storage::MemoryFileSystem files;
  {
    const auto opened = open(files, Mode::checkpoint);
    opened->run(5, kScript);
  }
  const std::string path = newest_journal(files);
  const auto bytes = files.read(path, 1 << 20);
  ASSERT_TRUE(bytes);
  ASSERT_TRUE(files.resize(path, bytes->size() - 3));
  const auto opened = open(files, Mode::checkpoint);
  ASSERT_TRUE(opened);
  EXPECT_GT(opened->recovery.torn_bytes, 0u);
  EXPECT_EQ(opened->counter.calls, 4u);
  opened->run(kCalls, kScript);
  EXPECT_EQ(opened->hash(), unbroken());
}

TEST(Agent, KeepsTheJournalSinceItsOldestCheckpointAndNoMore) {
  storage::MemoryFileSystem files;
  const auto opened = open(files);
  opened->run(kCalls, kScript);
  const auto segments = storage::journal_segments(files, "agent/journal");
  ASSERT_TRUE(segments);
  EXPECT_GT(segments->size(), 1u);
  EXPECT_GT(segments->front(), 1u);
  std::size_t checkpoints = 0;
  for (const std::string& path : files.all_files()) checkpoints += path.ends_with("agent.entity");
  EXPECT_EQ(checkpoints, 2u);
}

TEST(Agent, WritesTheWholeJournalWhereverCheckpointsFall) {
  for (const Mode mode : {Mode::tick, Mode::interval, Mode::checkpoint}) {
    storage::MemoryFileSystem files;
    const auto opened = open(files, mode, [](Agent::Options& options) { options.keep = 100; });
    opened->run(kCalls, kScript);
    const auto findings = storage::read_journal(files, "agent/journal", {}, [](const auto&) { return Status(); });
    ASSERT_TRUE(findings);
    EXPECT_TRUE(findings->damages.empty()) << findings->damages.front();
    EXPECT_EQ(findings->end.number, opened->agent->statistics().at.record);
  }
}

TEST(Agent, TakesInASessionFromElsewhereAndKeepsIt) {
  storage::MemoryFileSystem here, there;
  const auto other = open_untrained(there);
  other->run(30, kUntrained);
  const auto file = mesh::detach_session(other->agent->mesh(), 0, 0);
  ASSERT_TRUE(file) << file.error().text();
  const ByteSpan bytes(file->data(), file->size());
  Hash128 hash;
  {
    const auto opened = open_untrained(here);
    opened->run(8, kUntrained);
    const auto refused = opened->agent->attach_session(bytes);
    ASSERT_FALSE(refused) << "the other one's weights were morphed since";
    EXPECT_EQ(refused.error().code(), Errc::invalid_argument);
    const auto session = opened->agent->attach_session(bytes, true);
    ASSERT_TRUE(session) << session.error().text();
    EXPECT_EQ(*session, 1u);
    ASSERT_TRUE(opened->agent->tick(4));
    hash = opened->hash();
  }
  const auto opened = open_untrained(here);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->agent->mesh().sessions(), 2u);
  EXPECT_EQ(opened->hash(), hash);
}

// A command that is executed at once is part of the state before the next tick, of the journal's too.
TEST(Agent, ExecutesACommandAtOnce) {
  storage::MemoryFileSystem files;
  Hash128 hash;
  {
    const auto opened = open(files, Mode::tick);
    opened->run(10, kScript);
    const Hash128 before = opened->hash();
    for (const float rate : {0.25f, 0.0f}) {
      auto command = mesh::make_command(mesh::CommandKind::set_rate);
      command->values = {rate};
      const auto sent = opened->agent->post({0, 0, 0, 0}, command, true);
      ASSERT_TRUE(sent) << sent.error().text();
      ASSERT_TRUE((*sent)->is_done());
      EXPECT_TRUE((*sent)->status()) << (*sent)->status().error().text();
    }
    for (const std::vector<float>& bad : {std::vector<float>{}, {1, 2}, {-1}, {NAN}, {1e9f}}) {
      auto command = mesh::make_command(mesh::CommandKind::set_rate);
      command->values = bad;
      const auto sent = opened->agent->post({0, 0, 0, 0}, command, true);
      ASSERT_TRUE(sent && (*sent)->is_done());
      EXPECT_EQ((*sent)->status().error().code(), Errc::out_of_range) << bad.size();
    }
    hash = opened->hash();
    EXPECT_NE(hash, before) << "a rate is state";
    ASSERT_TRUE(opened->agent->mark());
    ASSERT_TRUE(opened->agent->acknowledge());
  }
  {
    const auto opened = open(files, Mode::tick);
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->hash(), hash);
    ASSERT_TRUE(opened->agent->checkpoint_and_wait());
  }
  const auto opened = open(files, Mode::tick);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->recovery.records, 0u);
  EXPECT_EQ(opened->hash(), hash) << "out of a file too";
}

TEST(Agent, GoesThroughAFaultThatHaltsTheMesh) {
  // Whatever the sum's sign is, one of the outputs leaves the range of its type.
  const auto poison = [](Agent& agent) {
    for (const std::uint32_t parameter : {0u, 1u}) {
      auto command = std::make_shared<mesh::Command>();
      command->kind = mesh::CommandKind::set_weights;
      command->parameter = parameter;
      command->values.assign(parameter == 0 ? 3 * 5 : 3, 3.4e38f);
      if (parameter == 1) command->values[1] = -3.4e38f;
      if (!agent.post({0, 1, 0, 0}, command)) return false;
    }
    return true;
  };
  Hash128 whole;
  std::uint64_t tick = 0;
  for (const bool is_broken : {false, true}) {
    storage::MemoryFileSystem files;
    auto opened = open_untrained(files);
    opened->run(4, kUntrained);
    ASSERT_TRUE(poison(*opened->agent));
    const Status halted = opened->agent->tick(5);
    ASSERT_FALSE(halted);
    ASSERT_EQ(halted.error().code(), Errc::halted);
    if (is_broken) {
      opened.reset();
      files.process_crash();
      opened = open_untrained(files);
      ASSERT_TRUE(opened);
      const Status still = opened->agent->tick();
      ASSERT_FALSE(still);
      EXPECT_EQ(still.error().code(), Errc::halted);
      EXPECT_EQ(opened->agent->mesh().ticks(), tick);
      EXPECT_EQ(opened->hash(), whole);
    }
    tick = opened->agent->mesh().ticks();
    whole = opened->hash();
  }
}

}  // namespace
}  // namespace weft::agent::test::agent_test
