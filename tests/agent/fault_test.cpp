// SPDX-License-Identifier: Apache-2.0
// Whatever call to the file system fails, or is the last one before a crash or a power cut: an agent opened again
// stands where it had acknowledged to be, or further, and at a place of the undisturbed run.

#include "agent/agent.hpp"
#include "agent/replay.hpp"

#include "tests/agent/scripted.hpp"
#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/thorough.hpp"
#include <map>
#include <sstream>

namespace weft::agent::test::fault_test {
namespace {

using storage::FaultKind, storage::FaultFileSystem, storage::MemoryFileSystem;
using Mode = Durability::Mode;
const std::vector<Call> kScript = script(32);
const std::uint64_t kCalls = kScript.size();

/// The state hash at the end of the run that nothing disturbs.
Hash128 undisturbed() {
  static const Hash128 hash = [] {
    MemoryFileSystem files;
    ScriptedAgent agent(files);
    agent.run(kCalls, kScript);
    return agent->mesh().state_hash();
  }();
  return hash;
}

/// One run until its end or until no call goes through any more.
struct Outcome {
  std::uint64_t acknowledged = 0;  // calls
  std::uint64_t calls = 0;
  bool was_opened = false;
};

Outcome run(storage::FileSystem& files, Mode mode) {
  Outcome outcome;
  ScriptedAgent agent(files, mode);
  if (!agent.opened) return outcome;
  outcome.was_opened = true;
  std::map<std::uint64_t, std::uint64_t> calls_by_record{{0, 0}};
  while (agent.counter.calls < kCalls) {
    // Disks fail; the agent does not.
    const Status done = agent.call(kScript);
    EXPECT_TRUE(done) << done.error().text();
    if (!done) return outcome;
    calls_by_record[agent->statistics().at.record] = agent.counter.calls;
    const auto reached = std::prev(calls_by_record.upper_bound(agent->statistics().acknowledged.record));
    outcome.acknowledged = std::max(outcome.acknowledged, reached->second);
  }
  outcome.calls = agent.counter.calls;
  return outcome;
}

/// Each checkpoint that is kept leads through the journal to where the agent stands: should the newest be damaged one
/// day, the one before takes over.
void expect_no_gap(MemoryFileSystem& files, const Agent& agent, const std::string& where) {
  ReplayOptions options;
  options.mesh.executor = mesh::ExecutorKind::deterministic;
  options.mesh.threads = 1;
  auto replay = Replay::open(files, "agent", options);
  ASSERT_TRUE(replay) << where << ": " << replay.error().text();
  const Status ran = replay->run();
  ASSERT_TRUE(ran) << where << ": " << ran.error().text();
  for (const std::string& damage : replay->findings().damages)
    FAIL() << where << ", from record " << replay->start().record << ": " << damage;
  ASSERT_EQ(replay->replayable().mesh().state_hash(), agent.mesh().state_hash()) << where;
}

/// Opened again it stands at the end of a call that was acknowledged or came later, and the rest of the run ends as it
/// would have. That it is this very state, marks and checkpoints compare as they are replayed.
void expect_recovery(MemoryFileSystem& files, Mode mode, const Outcome& outcome, bool crashed,
                     const std::string& where) {
  ScriptedAgent agent(files, mode);
  ASSERT_TRUE(agent.opened) << where << ": " << agent.opened.error().text();
  ASSERT_GE(agent.counter.calls, outcome.acknowledged) << where << ": acknowledged and lost";
  // A disk that failed may have kept the journal from saying what a checkpoint says.
  if (crashed && agent.counter.calls < kCalls) {
    ASSERT_TRUE(agent.call(kScript)) << where;
    ASSERT_TRUE(agent->acknowledge()) << where;
    expect_no_gap(files, *agent.agent, where);
    if (testing::Test::HasFatalFailure()) return;
  }
  while (agent.counter.calls < kCalls) ASSERT_TRUE(agent.call(kScript)) << where;
  ASSERT_EQ(agent->mesh().state_hash(), undisturbed()) << where;
}

std::string describe(Mode mode, FaultKind kind, std::uint64_t n, std::uint64_t seed) {
  std::ostringstream text;
  text << "mode " << static_cast<int>(mode) << ", fault " << static_cast<int>(kind) << " at call " << n << ", seed "
       << seed;
  return text.str();
}

constexpr std::uint64_t kOneIn = 9;  // calls is struck
const std::uint64_t kStride = struck_stride(kOneIn), kFirst = first_struck(kOneIn);

class AgentFaults : public testing::TestWithParam<Mode> {};

TEST_P(AgentFaults, NothingAcknowledgedIsLostWhereverItCrashes) {
  const Mode mode = GetParam();
  std::uint64_t runs = 0;
  for (std::uint64_t n = kFirst;; n += kStride) {
    MemoryFileSystem disk;
    FaultFileSystem faulty(disk, [&](const std::string& path) { disk.lose_unsynced(path); });
    faulty.set({FaultKind::crash, n});
    const Outcome outcome = run(faulty, mode);
    if (faulty.struck() == 0) break;
    for (const std::uint64_t seed : {std::uint64_t{0}, n, n + 1000}) {
      const auto files = disk.copy();
      if (seed == 0)
        files->process_crash();
      else
        files->power_cut(seed);
      expect_recovery(*files, mode, outcome, true, describe(mode, FaultKind::crash, n, seed));
      if (HasFatalFailure()) return;
      ++runs;
    }
  }
  RecordProperty("runs", static_cast<int>(runs));
  EXPECT_GT(runs, 100u / kStride);
}

TEST_P(AgentFaults, GoesOnThroughEveryFailureAndLosesNothing) {
  const Mode mode = GetParam();
  std::uint64_t runs = 0;
  for (const FaultKind kind : {FaultKind::no_space, FaultKind::io_error, FaultKind::interrupted, FaultKind::short_write,
                               FaultKind::late_error}) {
    for (std::uint64_t n = kFirst;; n += kStride) {
      MemoryFileSystem disk;
      FaultFileSystem faulty(disk, [&](const std::string& path) { disk.lose_unsynced(path); });
      faulty.set({kind, n, n + n % 4});
      const Outcome outcome = run(faulty, mode);
      if (faulty.calls() < n) break;
      if (outcome.was_opened) {
        ASSERT_EQ(outcome.calls, kCalls) << describe(mode, kind, n, 0);
      }
      disk.power_cut(n);
      expect_recovery(disk, mode, outcome, false, describe(mode, kind, n, n));
      if (HasFatalFailure()) return;
      ++runs;
    }
  }
  RecordProperty("runs", static_cast<int>(runs));
  EXPECT_GT(runs, 100u / kStride);
}

TEST_P(AgentFaults, CatchesUpWhenADiskThatWasFullHasSpaceAgain) {
  const Mode mode = GetParam();
  MemoryFileSystem disk;
  FaultFileSystem faulty(disk, [&](const std::string& path) { disk.lose_unsynced(path); });
  // A few calls: some are given up, and a checkpoint must hold them.
  ScriptedAgent agent(faulty, mode, [](Agent::Options& options) { options.waiting_bytes = 4000; });
  agent.run(20, kScript);
  ASSERT_TRUE(agent->acknowledge());
  const LogPosition before = agent->statistics().acknowledged;
  faulty.set({FaultKind::no_space, 1, UINT64_MAX});
  agent.run(kCalls - 20, kScript);
  EXPECT_EQ(agent->statistics().acknowledged, before) << "what is on no disk is not acknowledged";
  ASSERT_TRUE(agent->statistics().last_error);
  EXPECT_FALSE(agent->acknowledge());
  EXPECT_LT(agent->statistics().waiting_bytes, 8000u);
  faulty.clear();
  agent.time.now += std::chrono::seconds(10);
  agent.run(kCalls, kScript);
  ASSERT_TRUE(agent->acknowledge());
  EXPECT_FALSE(agent->statistics().last_error);
  EXPECT_GE(agent->statistics().acknowledged.tick, agent->mesh().ticks());
  const Hash128 hash = agent->mesh().state_hash();
  EXPECT_EQ(hash, undisturbed());
  agent.agent.reset();
  disk.power_cut(5);
  ScriptedAgent again(disk, mode);
  ASSERT_TRUE(again.opened) << again.opened.error().text();
  EXPECT_EQ(again->mesh().state_hash(), hash);
}

/// Expects that a run with damaged files is recovered as a whole, recovered in part with a message, or refused by an
/// error that names a file.
void expect_noticed(MemoryFileSystem& files, Hash128 whole, const std::string& where) {
  const ScriptedAgent agent(files);
  if (!agent.opened) {
    ASSERT_NE(agent.opened.error().text().find("agent"), std::string::npos)
        << where << ": " << agent.opened.error().text();
    return;
  }
  const bool says_so = agent.recovery.torn_bytes > 0 || !agent.recovery.passed_over.empty();
  if (agent->mesh().state_hash() == whole) return;
  ASSERT_TRUE(says_so) << where << ": another state, and not a word";
}

TEST(AgentDamage, IsNoticedInEveryFileAtEveryByte) {
  MemoryFileSystem disk;
  const Outcome outcome = run(disk, Mode::tick);
  ASSERT_EQ(outcome.calls, kCalls);
  disk.process_crash();
  std::uint64_t noticed = 0;
  for (const std::string& path : disk.all_files()) {
    if (path.ends_with("lock")) continue;
    const std::uint64_t size = disk.read(path, 1 << 24)->size();
    // Their own tests flip each bit; here it is what an agent makes of it that counts.
    for (std::uint64_t byte = 0; byte < size; byte += 13 * kStride) {
      const auto files = disk.copy();
      ASSERT_TRUE(files->flip_bit(path, 8 * byte + byte % 8));
      expect_noticed(*files, undisturbed(), path + ": a flipped bit in byte " + std::to_string(byte));
      const auto cut = disk.copy();
      ASSERT_TRUE(cut->resize(path, byte));
      expect_noticed(*cut, undisturbed(), path + ": cut to " + std::to_string(byte) + " bytes");
      if (HasFatalFailure()) return;
      noticed += 2;
    }
  }
  EXPECT_GT(noticed, 1000u / kStride);
}

INSTANTIATE_TEST_SUITE_P(Modes, AgentFaults, testing::Values(Mode::tick, Mode::interval, Mode::checkpoint),
                         [](const auto& mode) {
                           return mode.param == Mode::tick       ? "Tick"
                                  : mode.param == Mode::interval ? "Interval"
                                                                 : "Checkpoint";
                         });

}  // namespace
}  // namespace weft::agent::test::fault_test
