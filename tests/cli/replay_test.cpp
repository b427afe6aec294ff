// SPDX-License-Identifier: Apache-2.0
// weft replay and weft diff: a run replayed, otherwise than it was, and beside another.

#include "tests/cli/data_directory.hpp"

namespace weft::cli_test::replay_test {
namespace {

Outcome replayed(const std::string& directory, const Words& more = {}) {
  return weft(Words{"replay", directory, "--json"} + more);
}

void expect_refused(const Words& command, int exit, const std::string& fragment) {
  const Outcome outcome = weft(command);
  EXPECT_EQ(outcome.exit, exit) << outcome.told();
  EXPECT_NE(outcome.err.find(fragment), std::string::npos) << outcome.err;
}

std::string tick_flag(const Json& tick) { return "tick=" + std::to_string(tick.get<std::uint64_t>()); }

TEST(Replay, ComesToTheSameEndFromEveryCheckpoint) {
  Folder folder;
  const Outcome outcome = weft(run_in(folder / "agent") + Words{"--checkpoint-every", "3000", "--keep", "100"});
  expect_uninterrupted_run(outcome);
  std::uint64_t checkpoints = 0;
  for (const Json& event : outcome.events()) {
    if (event["event"] != "checkpoint") continue;
    ++checkpoints;
    const Outcome replay = replayed(folder / "agent", {"--verify", "--from", tick_flag(event["tick"])});
    ASSERT_EQ(replay.exit, 0) << replay.told();
    EXPECT_EQ(replay.last()["from_tick"], event["tick"]);
    EXPECT_EQ(replay.last()["state_hash"], uninterrupted_run());
    EXPECT_EQ(replay.last()["tick"], outcome.last()["ticks"]);
  }
  EXPECT_GE(checkpoints, 2u) << outcome.told();
  const Outcome whole = replayed(folder / "agent", {"--verify", "--threads", "1"});
  EXPECT_GT(whole.last()["compared"], 100) << "marks and checkpoints: " << whole.told();
}

TEST(Replay, TakesTheTicksThatNameTheCheckpoints) {
  Folder folder;
  const std::string directory = folder / "directory";
  ASSERT_EQ(weft(run_in(directory) + Words{"--checkpoint-every", "5000", "--keep", "100"}).exit, 0);
  std::size_t checkpoints = 0;
  for (const auto& each : std::filesystem::directory_iterator(directory)) {
    const std::string name = each.path().filename();
    if (!name.starts_with("ckpt-")) continue;
    ++checkpoints;
    const std::string tick = name.substr(5, name.find('-', 5) - 5);
    const Outcome replay = replayed(directory, {"--from", "tick=" + tick, "--until", "tick=" + tick});
    ASSERT_EQ(replay.exit, 0) << name << replay.told();
    EXPECT_EQ(tick_flag(replay.last()["from_tick"]), "tick=" + tick);
    EXPECT_EQ(tick_flag(replay.last()["tick"]), "tick=" + tick);
    const Json manifest = Json::parse(read_file(directory + "/" + name + "/manifest.json"))["manifest"];
    EXPECT_EQ(tick_flag(manifest["info"]["tick"]), "tick=" + tick);
    EXPECT_EQ(manifest["info"]["record"], manifest["record"]);
  }
  EXPECT_GE(checkpoints, 3u);
}

// As versions before wrote it: the directory is named by the journal's record. Its digest is of Python's xxhash.
TEST(Replay, RefusesADataDirectoryOfAnEarlierVersionByItsNumber) {
  Folder folder;
  const std::string directory = folder / "directory";
  std::filesystem::create_directories(directory + "/ckpt-504");
  const std::string manifest = R"({
  "digest": "cde9f1551b5ef775c1709ef2257eeeff",
  "manifest": {
    "files": [
      {
        "name": "state.entity",
        "size": 3,
        "xxh3_128": "06b05ab6733a618578af5f94892f3950"
      }
    ],
    "info": {
      "cursor": 3
    },
    "tick": 7,
    "weft_checkpoint": 2
  }
}
)";
  write_file(directory + "/ckpt-504/manifest.json", manifest);
  for (const Words& command : {run_in(directory), Words{"replay", directory}})
    expect_refused(command, 3, "ckpt-504/manifest.json: weft_checkpoint: version 2 of the checkpoint format");
  EXPECT_EQ(read_file(directory + "/ckpt-504/manifest.json"), manifest) << "nothing was changed";
}

TEST(Replay, StandsAtATickAsTheRunThatEndedThereDid) {
  Folder folder;
  std::string directory;
  ASSERT_EQ(stopped_run(SIGTERM, folder, directory, {"--keep", "100"}).exit, 143);
  // The run itself says what it found there; then it goes on.
  const Outcome rest = weft(run_in(directory) + Words{"--keep", "100"});
  expect_uninterrupted_run(rest);
  const Json found = rest.events().front();
  ASSERT_GT(found["tick"], 0);
  const Outcome until = replayed(directory, {"--until", tick_flag(found["tick"])});
  EXPECT_EQ(until.last()["from_tick"], 0) << until.told();
  EXPECT_EQ(until.last()["tick"], found["tick"]);
  EXPECT_EQ(until.last()["state_hash"], found["state_hash"]);
  EXPECT_EQ(replayed(directory).last()["state_hash"], uninterrupted_run());
}

TEST(Replay, AsksWhatIf) {
  Folder folder;
  expect_uninterrupted_run(weft(run_in(folder / "agent")));
  const Outcome as_it_was = replayed(folder / "agent", {"--set", "layers[1].dtype=float32"});
  ASSERT_EQ(as_it_was.exit, 0) << as_it_was.told();
  EXPECT_EQ(as_it_was.last()["state_hash"], uninterrupted_run()) << "a change to what it was anyway changes nothing";
  EXPECT_EQ(as_it_was.last()["original_state_hash"], uninterrupted_run());
  const Outcome told = weft({"replay", folder / "agent", "--set", "layers[1].dtype=float32"});
  EXPECT_NE(told.out.find("note        the change had no effect on the state"), std::string::npos) << told.told();
  const Outcome otherwise = replayed(folder / "agent", {"--set", "layers[1].dtype=int8"});
  ASSERT_EQ(otherwise.exit, 0) << otherwise.told();
  EXPECT_EQ(otherwise.last()["tick"], as_it_was.last()["tick"]);
  EXPECT_NE(otherwise.last()["state_hash"], uninterrupted_run());
  EXPECT_EQ(otherwise.last()["original_state_hash"], uninterrupted_run());
  const auto refused = [&](const std::string& change, int exit, const std::string& fragment) {
    expect_refused({"replay", folder / "agent", "--set", change}, exit, fragment);
  };
  refused("layers[9].dtype=int8", 2, "no element [9] there, there are 4");
  refused("layers[0]dtype=int8", 2, "a change is PATH=VALUE");
  refused("nowhere.at=1", 2, "no 'nowhere'");
  refused("layers[1].dtype=int9", 3, "layers[1].dtype: found \"int9\"");
  refused("layers[1].colour=red", 3, "this layer type has no such option");
  expect_refused({"replay", folder / "agent", "--set", "seed=7", "--verify"}, 2, "--verify and --set");
}

TEST(Replay, RunsBesideTheLivingAgent) {
  Folder folder;
  const std::string directory = folder / "agent";
  Process agent({"run", kDigits, "--json", "--quiet", "--epochs", "1000000", "--state", directory, "--durability",
                 "interval=50ms", "--checkpoint-every", "5000", "--keep", "1000"});
  wait_for_progress(agent);
  std::vector<Json> looks;
  for (int look = 0; look < 5; ++look) {
    const Outcome replay = replayed(directory, {"--verify", "--threads", "1", "--from", "tick=9000000000000"});
    ASSERT_EQ(replay.exit, 0) << replay.told();
    looks.push_back(replay.last());
  }
  EXPECT_GT(looks.back()["tick"], looks.front()["tick"]);
  ASSERT_FALSE(agent.has_ended());
  agent.send(SIGTERM);
  ASSERT_EQ(agent.wait().exit, 143);
  const Outcome after = replayed(directory, {"--verify", "--from", "tick=9000000000000"});
  EXPECT_EQ(after.exit, 0) << after.told();
  EXPECT_GE(after.last()["tick"], looks.back()["tick"]);
}

TEST(Replay, SaysWhatIsWrong) {
  Folder folder;
  expect_uninterrupted_run(weft(run_in(folder / "agent")));
  expect_refused({"replay", folder / "missing"}, 3, folder / "missing");
  std::filesystem::create_directory(folder / "empty");
  expect_refused({"replay", folder / "empty"}, 3, "no agent is there");
  expect_refused({"replay", kDigits}, 2, "a request log needs --model");
  expect_refused({"replay", folder / "agent", "--until", "tick=-1"}, 2, "give tick=N");
  expect_refused({"replay", folder / "agent", "--from", "noon"}, 2, "give tick=N");
  expect_refused({"replay", folder / "agent", "--from", "tick=9000000", "--until", "tick=3"}, 2, "--until tick=3");
}

TEST(Diff, OfEqualRunsIsEqual) {
  Folder folder;
  expect_uninterrupted_run(weft(run_in(folder / "a") + Words{"--threads", "2", "--save", folder / "end.entity"}));
  std::string b;
  stopped_run(SIGKILL, folder, b, {"--threads", "1", "--durability", "tick"});
  std::filesystem::copy(b, folder / "half", std::filesystem::copy_options::recursive);
  expect_uninterrupted_run(weft(run_in(b) + Words{"--executor", "deterministic"}));
  const Outcome equal = weft({"diff", folder / "a", b, "--json"});
  ASSERT_EQ(equal.exit, 0) << equal.told();
  EXPECT_EQ(equal.last()["equal"], true);
  EXPECT_EQ(equal.last()["longer"], "");
  const Outcome half = weft({"diff", folder / "a", folder / "half", "--json"});
  ASSERT_EQ(half.exit, 0) << half.told();
  EXPECT_EQ(half.last()["longer"], folder / "a") << "one was cut off, and goes the same way as far as it goes";
  EXPECT_GT(half.last()["compared"], 50);
  const Outcome file = weft({"diff", folder / "a", folder / "end.entity", "--json"});
  ASSERT_EQ(file.exit, 0) << file.told();
  EXPECT_EQ(file.last()["from_tick"], equal.last()["until_tick"]);
}

TEST(Diff, NamesTheFirstTickAndCell) {
  Folder folder;
  ASSERT_EQ(weft(run_in(folder / "a")).exit, 0);
  ASSERT_EQ(weft(run_in(folder / "seeded") + Words{"--seed", "5"}).exit, 0);
  const Outcome seeded = weft({"diff", folder / "a", folder / "seeded", "--json"});
  EXPECT_EQ(seeded.exit, 1) << seeded.told();
  EXPECT_EQ(seeded.events().front()["tick"], 0) << "other weights from the start";
  EXPECT_NE(seeded.err.find("differ at tick 0, cell [0,0,0]"), std::string::npos) << seeded.err;

  // Labels change at 40 % of the stream: a shorter stream is the same until there.
  Words shorter = run_in(folder / "shorter");
  shorter[std::find(shorter.begin(), shorter.end(), "20000") - shorter.begin()] = "15000";
  const Outcome short_run = weft(shorter);
  ASSERT_EQ(short_run.exit, 0) << short_run.told();
  const Outcome apart = weft({"diff", folder / "a", folder / "shorter", "--json"});
  ASSERT_EQ(apart.exit, 1) << apart.told();
  const Json divergence = apart.events().front();
  EXPECT_GT(divergence["external_since"], 15000 * 0.4);
  EXPECT_LE(divergence["external_since"], divergence["tick"]);
  EXPECT_LT(divergence["tick"], 15000 * 0.4 + 64);
  const auto at = [&](const std::string& directory, std::uint64_t tick) {
    return replayed(folder / directory, {"--until", "tick=" + std::to_string(tick)}).last()["state_hash"];
  };
  const std::uint64_t tick = divergence["tick"];
  EXPECT_EQ(at("a", tick - 1), at("shorter", tick - 1));
  EXPECT_NE(at("a", tick), at("shorter", tick));
  const Outcome text = weft({"diff", folder / "a", folder / "shorter"});
  EXPECT_NE(text.out.find("external inputs differ since tick"), std::string::npos) << text.out;
}

TEST(Diff, NamesWhatIsNoRun) {
  Folder folder;
  expect_uninterrupted_run(weft(run_in(folder / "a")));
  expect_refused({"diff", folder / "a", folder / "missing"}, 3, folder / "missing");
  expect_refused({"diff", folder / "a", kDigits}, 3, "not an .entity file");
  std::filesystem::create_directory(folder / "empty");
  expect_refused({"diff", folder / "empty", folder / "a"}, 3, "no agent is there");
  Json network = digits_json();
  network["layers"][3]["at"] = {0, 1, 0, 0};
  network["layers"][2]["at"] = {0, 0, 1, 0};
  network["layers"][1]["at"] = {0, 1, 1, 0};
  network["layers"][0]["from"] = {"pixels"};
  network["layers"][3]["from"] = {{0, 1, 1, 0}};
  network["grid"] = {{"z", 1}, {"y", 2}, {"x", 3}, {"layers", 1}};
  network["layers"][3]["at"] = {0, 1, 2, 0};
  network["outputs"]["digit"] = {0, 0, 1, 0};
  network["layers"][2]["from"] = {{0, 1, 1, 0}};
  network["layers"][1]["from"] = {{0, 0, 0, 0}};
  write_file(folder / "other.json", network.dump());
  Words other = run_in(folder / "other");
  other[1] = folder / "other.json";
  const Outcome run = weft(other);
  ASSERT_EQ(run.exit, 0) << run.told();
  expect_refused({"diff", folder / "a", folder / "other"}, 2, "has a cell at");
}

}  // namespace
}  // namespace weft::cli_test::replay_test
