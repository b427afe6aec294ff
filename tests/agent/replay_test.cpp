// SPDX-License-Identifier: Apache-2.0
// Runs replayed, from any checkpoint to any tick; changed; and compared.

#include "agent/replay.hpp"

#include "agent/diff.hpp"
#include "agent/record_source.hpp"

#include "storage/journal.hpp"

#include "tests/agent/scripted.hpp"
#include "tests/support/memory_file_system.hpp"
#include <map>

namespace weft::agent::test::replay_test {
namespace {

using storage::MemoryFileSystem;
const std::vector<Call> kScript = script(40);

/// A run in `directory`, all of its checkpoints kept; `strange` is a call that goes another way. Returns the state
/// hash at each tick where a call ended.
std::map<std::uint64_t, Hash128> run(MemoryFileSystem& files, const std::string& directory,
                                     std::optional<std::size_t> strange = {}, std::uint64_t checkpoint_every = 15) {
  ScriptedAgent agent(
      files, Durability::Mode::tick,
      [&](Agent::Options& options) { options.keep = 1000, options.checkpoint_every = checkpoint_every; },
      small_network(), directory);
  std::map<std::uint64_t, Hash128> hashes;
  while (agent.counter.calls < kScript.size()) {
    if (strange && agent.counter.calls == *strange) {
      ++agent.counter.calls;
      const std::vector<float> samples(3 * agent->mesh().sessions() * 4, 9.0f);
      const std::vector<std::uint32_t> labels{2, 1, 0};
      const mesh::RunInput input{"x", samples};
      const learning::Target target{"y", labels, {}};
      EXPECT_TRUE(agent->learn({&input, 1}, {&target, 1}, 3));
      agent->learner()->clear_scores();
    } else {
      EXPECT_TRUE(agent.call(kScript));
    }
    hashes[agent->mesh().ticks()] = agent.hash();
  }
  return hashes;
}

ReplayOptions options() {
  ReplayOptions options;
  options.mesh.threads = 1;
  options.mesh.executor = mesh::ExecutorKind::deterministic;
  return options;
}

TEST(Replay, StandsAtEachTickAsTheRunDid) {
  MemoryFileSystem files;
  const auto hashes = run(files, "agent");
  const auto checkpoint_infos = Replay::checkpoint_infos(files, "agent");
  ASSERT_TRUE(checkpoint_infos);
  ASSERT_GT(checkpoint_infos->size(), 5u);
  const std::uint64_t last = hashes.rbegin()->first;
  for (const auto& stone : {checkpoint_infos->front(), (*checkpoint_infos)[3], checkpoint_infos->back()}) {
    for (std::uint64_t tick = stone.tick; tick <= last; tick += 7) {
      ReplayOptions wanted = options();
      wanted.from = stone.tick;
      auto replay = Replay::open(files, "agent", wanted);
      ASSERT_TRUE(replay) << replay.error().text();
      EXPECT_EQ(replay->start().tick, stone.tick);
      const Status ran = replay->run(tick);
      ASSERT_TRUE(ran) << ran.error().text();
      ASSERT_EQ(replay->tick(), tick) << "samples of this network take a tick each";
      // Records after the last tick without a tick of their own (commands, sessions) have been replayed too.
      if (const auto found = hashes.find(tick); found != hashes.end()) {
        EXPECT_EQ(replay->replayable().hash(), found->second) << "from tick " << stone.tick << " to " << tick;
      }
    }
    ReplayOptions wanted = options();
    wanted.from = stone.tick;
    auto replay = Replay::open(files, "agent", wanted);
    ASSERT_TRUE(replay);
    ASSERT_TRUE(replay->run());
    EXPECT_EQ(replay->tick(), last);
    EXPECT_EQ(replay->replayable().hash(), hashes.rbegin()->second);
  }
}

TEST(Replay, GoesByStepsWhereItWentByCalls) {
  MemoryFileSystem files;
  const auto hashes = run(files, "agent");
  auto replay = Replay::open(files, "agent", options());
  ASSERT_TRUE(replay);
  std::uint64_t steps = 0;
  for (;; ++steps) {
    const auto more = replay->step();
    ASSERT_TRUE(more) << more.error().text();
    if (!*more) break;
  }
  EXPECT_GT(steps, kScript.size());
  EXPECT_EQ(replay->replayable().hash(), hashes.rbegin()->second);
}

TEST(Replay, ComparesMarksAndCheckpoints) {
  MemoryFileSystem files;
  run(files, "agent");
  ReplayOptions wanted = options();
  wanted.verifies = true;
  auto replay = Replay::open(files, "agent", wanted);
  ASSERT_TRUE(replay);
  ASSERT_TRUE(replay->run());
  // Six marks (steps 3, 10, 17, 24, 31, 38) and a checkpoint every five batches of three ticks.
  EXPECT_EQ(replay->compared(), 6u + 40u * 3u / 15u);
  std::size_t rewards = 0;
  for (const AnnotationRecord& note : replay->take_annotations()) rewards += note.topic == "reward";
  EXPECT_EQ(rewards, 10u);
}

TEST(Replay, SaysWhereARunDiffersFromItsJournal) {
  // A mark that lies: what a run on another machine would write if one bit came out differently.
  MemoryFileSystem files;
  run(files, "agent");
  const auto checkpoint_infos = Replay::checkpoint_infos(files, "agent");
  storage::JournalPlace place;
  ASSERT_TRUE(storage::read_journal(files, "agent/journal", {}, [&](const storage::JournalRecord& record) {
    place = storage::after(place, record.kind, record.payload);
    return Status();
  }));
  storage::JournalWriter writer(files, "agent/journal", place);
  RecordBytes bytes;
  bytes.begin().put_marker(checkpoint_infos->back().tick, {1, 2});
  writer.append(static_cast<std::uint32_t>(RecordKind::marker), bytes.bytes());
  ASSERT_TRUE(writer.commit(true));
  ReplayOptions wanted = options();
  wanted.verifies = true;
  auto replay = Replay::open(files, "agent", wanted);
  ASSERT_TRUE(replay);
  const Status ran = replay->run();
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code(), Errc::corrupt);
  EXPECT_NE(ran.error().text().find("record " + std::to_string(place.number + 1)), std::string::npos)
      << ran.error().text();
}

TEST(Replay, SaysThatTheAgentHasRemovedWhatItWasAboutToRead) {
  MemoryFileSystem files;
  ScriptedAgent agent(files);
  agent.run(10, kScript);
  auto replay = Replay::open(files, "agent", options());
  ASSERT_TRUE(replay) << replay.error().text();
  agent.run(kScript.size(), kScript);
  const Status ran = replay->run();
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code(), Errc::not_found);
  EXPECT_NE(ran.error().text().find("its agent is running"), std::string::npos) << ran.error().text();
}

// Beside an agent that writes as fast as it is replayed a replay would never end: it ends where the journal did.
TEST(Replay, EndsWhereTheJournalEndedThoughItGrowsMeanwhile) {
  MemoryFileSystem files;
  ASSERT_TRUE(files.make_directory("j"));
  storage::JournalWriter writer(files, "j", {});
  const std::vector<std::byte> payload(std::size_t{3} << 20);  // few of them are read at once
  const auto write = [&](std::size_t records) {
    for (std::size_t i = 0; i < records; ++i) writer.append(1, payload);
    ASSERT_TRUE(writer.commit(true));
  };
  write(5);
  RecordSource bounded(files, "j", {}), chasing(files, "j", {});
  ASSERT_TRUE(bounded.end_here());
  const auto count = [&](RecordSource& source) {
    std::size_t records = 0;
    for (; records < 20; ++records) {
      const auto item = source.next();
      EXPECT_TRUE(item);
      if (!item || !*item) break;
      EXPECT_EQ((*item)->number, records + 1);
      if (writer.place().number < 30) write(1);
    }
    return records;
  };
  EXPECT_EQ(count(bounded), 5u);
  EXPECT_EQ(bounded.findings().end.number, 5u);
  EXPECT_TRUE(bounded.findings().damages.empty());
  EXPECT_GT(count(chasing), 5u);
}

TEST(Replay, AsksWhatIf) {
  MemoryFileSystem files;
  const auto hashes = run(files, "agent");
  ReplayOptions wanted = options();
  wanted.set = {"layers[0].dtype=int8", "layers[1].dtype=bfloat16"};
  auto replay = Replay::open(files, "agent", wanted);
  ASSERT_TRUE(replay) << replay.error().text();
  ASSERT_TRUE(replay->run());
  EXPECT_EQ(replay->tick(), hashes.rbegin()->first);
  EXPECT_NE(replay->replayable().hash(), hashes.rbegin()->second);
  for (const auto& [change, words] : {std::pair{"layers[9].dtype=int8", "no element [9]"},
                                      {"layers[0].dtype=int9", "layers[0].dtype"},
                                      {"layers[0].color=red", "layers[0].color"},
                                      {"layers[0]dtype=int8", "PATH=VALUE"},
                                      {"dtype", "PATH=VALUE"},
                                      {"nowhere.at.all=1", "no 'nowhere'"},
                                      {"learning.nowhere.at=1", "learning.nowhere"},
                                      {"=1", "PATH=VALUE"},
                                      {"layers[x].out=3", "PATH=VALUE"}}) {
    wanted.set = {change};
    const auto refused = Replay::open(files, "agent", wanted);
    ASSERT_FALSE(refused) << change;
    EXPECT_NE(refused.error().text().find(words), std::string::npos) << refused.error().text();
  }
}

// Weights of samples are in the journal: a replay in parts is the run, and another weight is another external input.
TEST(Replay, TakesTheWeightsOfSamples) {
  auto spec = small_network();
  spec.learning = R"({"rule":"fw_dtp","schedule":"pipelined","weights":true})";
  const auto run_with = [&](MemoryFileSystem& files, const std::string& directory, float last) {
    ScriptedAgent agent(
        files, Durability::Mode::tick, [](Agent::Options& options) { options.keep = 1000; }, spec, directory);
    for (std::uint64_t i = 0; i < 12; ++i) {
      RandomStream random(3, i, RandomPurpose::test);
      std::vector<float> x(3 * 4);
      for (float& value : x) value = random.next_normal();
      const std::vector<std::uint32_t> labels{0, 1, 2};
      const std::vector<float> weights{0.5f, 0.0f, i == 6 ? last : 3.0f};
      const mesh::RunInput input{"x", x};
      const learning::Target target{.output = "y", .labels = labels, .weights = weights};
      EXPECT_TRUE(agent->learn({&input, 1}, {&target, 1}, 3));
      agent->learner()->clear_scores();
    }
    return agent.hash();
  };
  MemoryFileSystem files;
  const Hash128 end = run_with(files, "a", 3.0f);
  EXPECT_NE(run_with(files, "b", 1.0f), end);
  auto replay = Replay::open(files, "a", options());
  ASSERT_TRUE(replay) << replay.error().text();
  for (std::uint64_t tick = 1; tick < 36; tick += 4) ASSERT_TRUE(replay->run(tick));
  ASSERT_TRUE(replay->run());
  EXPECT_EQ(replay->replayable().hash(), end);
  const auto apart = diff(files, "a", "b", {.threads = 1, .executor = mesh::ExecutorKind::deterministic});
  ASSERT_TRUE(apart) << apart.error().text();
  ASSERT_TRUE(apart->divergence);
  EXPECT_EQ(apart->divergence->external_since, 21u);
}

TEST(Diff, FindsTheFirstTickAndCellWhereRunsDiffer) {
  MemoryFileSystem files;
  run(files, "a");
  run(files, "same");
  // Half way through, another batch is given than the script wants.
  run(files, "b", kScript.size() / 2, 0);
  const mesh::MeshOptions one{.threads = 1, .executor = mesh::ExecutorKind::deterministic};
  const auto equal = diff(files, "a", "same", one);
  ASSERT_TRUE(equal) << equal.error().text();
  EXPECT_FALSE(equal->divergence);
  const auto apart = diff(files, "a", "b", one);
  ASSERT_TRUE(apart) << apart.error().text();
  ASSERT_TRUE(apart->divergence);
  EXPECT_GT(apart->compared, 5u);
  EXPECT_TRUE(apart->divergence->external_since);
  EXPECT_LE(*apart->divergence->external_since, apart->divergence->tick);
  const auto missing = diff(files, "a", "nowhere", one);
  EXPECT_FALSE(missing);
}

}  // namespace
}  // namespace weft::agent::test::replay_test
