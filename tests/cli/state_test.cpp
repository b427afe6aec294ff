// SPDX-License-Identifier: Apache-2.0
// A run with a data directory: killed, ended, damaged, it goes on as if nothing had happened, or says why not.

#include "tests/cli/data_directory.hpp"
#include <algorithm>
#include <cstdlib>
#include <random>

namespace weft::cli_test::state_test {
namespace {

using std::chrono::microseconds;

/// Number of kills; the environment may ask for more, say 170 for 510 of all three modes.
int wanted_kills() {
  const char* const text = std::getenv("WEFT_TEST_KILLS");
  return text ? std::max(20, std::atoi(text)) : 20;
}

class Killed : public ::testing::TestWithParam<const char*> {};

TEST_P(Killed, LosesNothingAcknowledgedAndEndsTheSame) {
  Folder folder;
  const unsigned seed = std::random_device{}();
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  // Threads and executor must not matter after a restart, so every process has others.
  const std::vector<Words> ways{
      {}, {"--threads", "1"}, {"--threads", "2"}, {"--executor", "deterministic"}, {"--executor", "graph"}};
  const Words durable{"--durability", GetParam(), "--checkpoint-every", "1500", "--keep", "2"};
  const int wanted = wanted_kills();
  int kills = 0, finished = 0, told = 0;
  std::uint64_t furthest = 0;
  const auto when = [&] {
    return "seed " + std::to_string(seed) + ", " + GetParam() + ", after " + std::to_string(kills) + " kills and " +
           std::to_string(finished) + " ends: ";
  };
  for (int attempt = 0; kills < wanted && attempt < 20 * wanted; ++attempt) {
    const Words arguments = run_in(folder / std::to_string(finished)) + durable + ways[random() % ways.size()];
    Process process(arguments);
    // Half of them while they open the data directory, half while they run.
    if (attempt % 2) wait_for_progress(process);
    std::this_thread::sleep_for(microseconds(random() % 60000));
    process.send(SIGKILL);
    const Outcome outcome = process.wait();
    const Json found = last_event(outcome.out, "found");
    if (!found.is_null()) {
      ASSERT_GE(found["tick"].get<std::uint64_t>(), furthest) << when() << outcome.told();
    }
    const std::uint64_t acknowledged = acknowledged_tick(outcome.out);
    told += acknowledged > furthest;
    furthest = std::max(furthest, acknowledged);
    if (outcome.exit == 128 + SIGKILL) {
      ++kills;
      continue;
    }
    expect_uninterrupted_run(outcome, when());
    const Outcome again = weft({"replay", folder / std::to_string(finished), "--verify"});
    EXPECT_EQ(again.exit, 0) << when() << "an older checkpoint leads to the end too: " << again.told();
    if (HasFailure()) return;
    ++finished;
    furthest = 0;
  }
  EXPECT_EQ(kills, wanted) << when();
  EXPECT_GT(told, 0) << when() << "nothing was ever acknowledged, so nothing was proved";
  expect_uninterrupted_run(weft(run_in(folder / std::to_string(finished)) + durable), when());
}

INSTANTIATE_TEST_SUITE_P(State, Killed, ::testing::Values("tick", "interval=50ms", "checkpoint"),
                         [](const auto& mode) { return std::string(mode.param, strcspn(mode.param, "=")); });

TEST(State, EndsOnTerminationWithAllOnTheDeviceAndGoesOn) {
  for (const char* durability : {"interval=60min", "checkpoint"}) {
    Folder folder;
    std::string directory;
    const Outcome stopped = stopped_run(SIGTERM, folder, directory, {"--durability", durability});
    ASSERT_EQ(stopped.exit, 143) << stopped.told();
    EXPECT_NE(stopped.err.find("the same command goes on"), std::string::npos) << stopped.err;
    const Json kept = last_event(stopped.out, "checkpoint");
    ASSERT_FALSE(kept.is_null()) << stopped.told();
    EXPECT_GT(kept["pause_seconds"], 0.0);
    EXPECT_EQ(stopped.last()["code"], "interrupted");
    const Outcome rest = weft(run_in(directory) + Words{"--durability", durability});
    expect_uninterrupted_run(rest);
    const Json found = rest.events().front();
    EXPECT_EQ(found["event"], "found");
    EXPECT_EQ(found["is_new"], false);
    EXPECT_EQ(found["tick"], kept["tick"]);
    EXPECT_EQ(found["checkpoint_tick"], kept["tick"]) << "nothing had to be replayed";
    EXPECT_EQ(rest.events()[1]["resumed_at"], found["samples"]);
  }
}

TEST(State, AFinishedRunSaysItsResultAgain) {
  Folder folder;
  const Outcome first = weft(run_in(folder / "agent"));
  expect_uninterrupted_run(first);
  EXPECT_EQ(first.events().front()["is_new"], true);
  EXPECT_EQ(first.events().front()["is_finished"], false);
  const Outcome second = weft(run_in(folder / "agent"));
  EXPECT_EQ(second.events().front()["is_finished"], true) << second.told();
  EXPECT_TRUE(last_event(second.out, "progress").is_null()) << "nothing is learned twice";
  Json again = second.last(), once = first.last();
  again.erase("ticks_per_second");
  once.erase("ticks_per_second");
  EXPECT_EQ(again, once);
  const Outcome text = weft({"run", kDigits, "--max-samples", "20000", "--state", folder / "agent"});
  EXPECT_NE(text.err.find("it had come to its end"), std::string::npos) << text.err;
  EXPECT_NE(text.out.find(uninterrupted_run()), std::string::npos) << text.out;
}

void expect_refused(const Words& command, int exit, const std::string& fragment) {
  const Outcome outcome = weft(command);
  EXPECT_EQ(outcome.exit, exit) << outcome.told();
  EXPECT_NE(outcome.err.find(fragment), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST(State, RefusesAnotherRunAndKeepsItsOwn) {
  Folder folder;
  std::string directory;
  stopped_run(SIGKILL, folder, directory);
  const auto refused = [&](const Words& more, const std::string& fragment) {
    expect_refused(run_in(directory) + more, 2, fragment);
  };
  refused({"--epochs", "9"}, "stream.epochs: 20 there, 9 here");
  refused({"--seed", "9"}, "seed: 0 there, 9 here");
  refused({"--rule", "dfa"}, "learning.rule: \"fw_dtp\" there, \"dfa\" here");
  refused({"--dtype", "int8"}, "layers[0].dtype");
  Json network = digits_json();
  network["layers"][0]["out"] = 32;
  write_file(folder / "other.json", network.dump());
  Words other = run_in(directory);
  other[1] = folder / "other.json";
  expect_refused(other, 2, "layers[0].out: 64 there, 32 here");
  expect_uninterrupted_run(weft(run_in(directory)));
}

// And so does a run with checkpoints alone.
TEST(State, RefusesOtherDataUnderTheSameNameWhereATaskDrifts) {
  Folder folder;
  Json network = digits_json();
  network["stream"]["csv"] = "data.csv";
  network["stream"]["drift"] = {{"kind", "pixels"}};
  network["inputs"]["pixels"] = {2};
  write_file(folder / "n.json", network.dump());
  for (const Words& place : {Words{"--state", folder / "agent"}, {"--checkpoint", folder / "c", "--resume"}}) {
    const Words run = Words{"run", folder / "n.json", "--epochs", "1", "--quiet"} + place;
    write_file(folder / "data.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n");
    ASSERT_EQ(weft(run).exit, 0) << weft(run).err;
    write_file(folder / "data.csv", "1,2,0\n3,4,1\n5,6,0\n7,9,1\n");
    expect_refused(run, 2, "the data were");
  }
}

TEST(State, RefusesACheckpointDirectoryOfARunWithoutADataDirectory) {
  Folder folder;
  ASSERT_EQ(weft(kDigitsRun + Words{"--checkpoint", folder / "c"}).exit, 0);
  expect_refused(run_in(folder / "c"), 2, "weft run");
}

TEST(State, BelongsToOneProcessAtATime) {
  Folder folder;
  const Words endless_run{"run", kDigits, "--json", "--quiet", "--epochs", "1000000", "--state", folder / "agent"};
  Process first(endless_run);
  wait_for_progress(first);
  const Outcome second = weft(endless_run);
  EXPECT_EQ(second.exit, 5) << second.told();
  EXPECT_NE(second.err.find(folder / "agent"), std::string::npos) << second.err;
  EXPECT_NE(second.err.find("in use"), std::string::npos) << second.err;
  first.send(SIGTERM);
  EXPECT_EQ(first.wait().exit, 143);
}

TEST(State, RefusesFlagsThatContradictEachOther) {
  Folder folder;
  const Words directory{"--state", folder / "agent"};
  expect_refused(kDigitsRun + directory + Words{"--checkpoint", folder / "c"}, 2, "--checkpoint and --state");
  expect_refused(kDigitsRun + directory + Words{"--durability", "nonsense"}, 2, "'nonsense' is no durability");
  expect_refused(kDigitsRun + directory + Words{"--durability", "interval=2h"}, 2, "from 1ms to 60min");
  expect_refused(kDigitsRun + directory + Words{"--resume"}, 2, "--resume");
  expect_refused(kDigitsRun + Words{"--durability", "tick"}, 2,
                 "--durability: name the agent's data directory with --state DIR");
  expect_refused(kDigitsRun + Words{"--salvage"}, 2, "--salvage: name the agent's data directory with --state DIR");
  expect_refused(kDigitsRun + directory + Words{"--keep", "0"}, 2, "--keep");
  EXPECT_FALSE(std::filesystem::exists(folder / "agent")) << "a refused command leaves nothing behind";
}

TEST(State, RefusesADamagedJournalUntilItIsToldToSalvage) {
  Folder folder;
  std::string directory;
  // No checkpoint but the first: all that was run is in the journal, and on the device.
  ASSERT_EQ(stopped_run(SIGKILL, folder, directory, {"--durability", "tick"}).exit, 128 + SIGKILL);
  flip_middle_byte(newest_in(directory + "/journal", "journal-"));
  const Outcome refused = weft(run_in(directory));
  EXPECT_EQ(refused.exit, 3) << refused.told();
  EXPECT_NE(refused.err.find(newest_in(directory + "/journal", "journal-")), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("salvage goes on from tick"), std::string::npos) << refused.err;
  EXPECT_EQ(weft(run_in(directory)).err, refused.err) << "nothing was changed";
  const Outcome salvaged = weft(run_in(directory) + Words{"--salvage"});
  expect_uninterrupted_run(salvaged);
  EXPECT_FALSE(salvaged.events().front()["damages"].empty()) << salvaged.told();
  EXPECT_LT(salvaged.events().front()["samples"], 20000);
  const Outcome after = weft(run_in(directory));
  expect_uninterrupted_run(after);
  EXPECT_TRUE(after.events().front()["damages"].empty()) << "and from then on it is a run like any other";
}

TEST(State, PassesOverADamagedCheckpointAndSaysSo) {
  Folder folder;
  const Words run = run_in(folder / "agent") + Words{"--checkpoint-every", "4000"};
  expect_uninterrupted_run(weft(run));
  const std::string newest = newest_in(folder / "agent", "ckpt-");
  flip_middle_byte(newest + "/agent.entity");
  const Outcome outcome = weft(run);
  expect_uninterrupted_run(outcome);
  const Json found = outcome.events().front();
  ASSERT_EQ(found["passed_over"].size(), 1u) << outcome.told();
  EXPECT_NE(found["passed_over"][0].get<std::string>().find(newest), std::string::npos) << outcome.told();
  EXPECT_GT(found["records"], 0) << "the journal brought it from the older one to the end";
  EXPECT_LT(found["checkpoint_tick"], found["tick"]);
}

TEST(State, SaysInItsLogHowItWasFoundAlsoWhereItIsQuiet) {
  Folder folder;
  Words run{"run", kDigits, "--max-samples", "20000", "--checkpoint-every", "4000", "--state", folder / "agent"};
  run = run + Words{"--quiet", "--log", folder / "log"};
  ASSERT_EQ(weft(run).exit, 0);
  EXPECT_NE(read_file(folder / "log").find("info: a new agent in " + folder / "agent"), std::string::npos);
  const std::string newest = newest_in(folder / "agent", "ckpt-");
  flip_middle_byte(newest + "/agent.entity");
  const Outcome again = weft(run);
  ASSERT_EQ(again.exit, 0) << again.told();
  const std::string log = read_file(folder / "log");
  EXPECT_NE(log.find("does not verify, trying the one before: " + newest), std::string::npos) << log;
  EXPECT_NE(again.err.find("does not verify"), std::string::npos) << "a service's journal has it too: " << again.err;
  EXPECT_NE(log.find("info: found in " + folder / "agent" + ": checkpoint of tick "), std::string::npos) << log;
  EXPECT_NE(log.find(", state hash "), std::string::npos) << log;
}

}  // namespace
}  // namespace weft::cli_test::state_test
