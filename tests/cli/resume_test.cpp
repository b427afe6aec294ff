// SPDX-License-Identifier: Apache-2.0
// Stopped at any moment, by any signal, a run goes on and ends as if nothing had happened.

#include "tests/cli/data_directory.hpp"
#include <random>

namespace weft::cli_test::resume_test {
namespace {

using std::chrono::microseconds, std::chrono::milliseconds;

const Words kRun{"run", kDigits, "--json", "--max-samples", "12000"};

std::string unbroken() {
  static const Outcome run = weft(kRun);
  EXPECT_EQ(run.exit, 0) << run.told();
  return run.exit == 0 ? run.last()["state_hash"] : Json("no run");
}

/// That a run came to its end, in the state that it was to come to.
void expect_unbroken(const Outcome& run, const std::string& where = "") {
  ASSERT_EQ(run.exit, 0) << where << run.told();
  EXPECT_EQ(run.last()["state_hash"], unbroken()) << where << run.told();
}

Words resumed(const std::string& folder) {
  return kRun + Words{"--checkpoint", folder, "--checkpoint-every", "300", "--resume"};
}

TEST(Resume, EndsTheSameAfterTwentyKillsAtRandomMoments) {
  Folder folder;
  const unsigned seed = std::random_device{}();
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  // Threads and executor must not matter after a resume, so every process has others.
  const std::vector<Words> variants{{}, {"--threads", "1"}, {"--threads", "2"}, {"--executor", "deterministic"}};
  int kills = 0, finished = 0;
  const auto when = [&] {
    return "seed " + std::to_string(seed) + ", after " + std::to_string(kills) + " kills and " +
           std::to_string(finished) + " ends: ";
  };
  for (int attempt = 0; kills < 20 && attempt < 200; ++attempt) {
    const std::string place = folder / std::to_string(finished);
    Process process(resumed(place) + variants[random() % variants.size()]);
    std::this_thread::sleep_for(microseconds(random() % 120000));
    process.send(SIGKILL);
    const Outcome outcome = process.wait();
    if (outcome.exit == 128 + SIGKILL) {
      ++kills;
      continue;
    }
    expect_unbroken(outcome, when());
    if (HasFailure()) return;
    ++finished;
  }
  EXPECT_EQ(kills, 20) << when();
  expect_unbroken(weft(resumed(folder / std::to_string(finished))), when());
}

/// Sends `signal` while samples are streamed; tries again when the run was faster.
Outcome stopped_by(int signal, const Folder& folder, std::string& place) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    place = folder / std::to_string(attempt);
    Process process(resumed(place));
    while (!process.has_ended() && process.out_so_far().find("\"progress\"") == std::string::npos)
      std::this_thread::sleep_for(milliseconds(1));
    process.send(signal);
    const Outcome outcome = process.wait();
    if (outcome.exit != 0) return outcome;
  }
  ADD_FAILURE() << "ten runs ended before their signal came";
  return {};
}

class ResumedRule : public ::testing::TestWithParam<std::string> {};

TEST_P(ResumedRule, EndsTheSameAfterKillsAndReplaysItsJournal) {
  for (const std::string schedule : {"settle", "pipelined"}) {
    const Words run{"run",      kDigits,      "--json", "--max-samples", "1500", "--rule",
                    GetParam(), "--schedule", schedule, "--held-out",    "0.1"};
    const Outcome whole = weft(run);
    ASSERT_EQ(whole.exit, 0) << whole.told();
    Folder folder;
    const Words in_directory = run + Words{"--state", folder / "agent", "--checkpoint-every", "400"};
    // Of ever longer pieces some are cut short, whatever the machine's speed.
    int kills = 0;
    for (int piece = 0; piece < 6; ++piece) {
      Process process(in_directory);
      std::this_thread::sleep_for(milliseconds(20 + 15 * piece));
      process.send(SIGKILL);
      kills += process.wait().exit == 128 + SIGKILL;
    }
    EXPECT_GT(kills, 0);
    const Outcome rest = weft(in_directory);
    ASSERT_EQ(rest.exit, 0) << rest.told();
    EXPECT_EQ(rest.last()["state_hash"], whole.last()["state_hash"]) << schedule << rest.told();
    const Outcome replayed = weft({"replay", folder / "agent", "--json", "--verify"});
    ASSERT_EQ(replayed.exit, 0) << replayed.told();
    EXPECT_EQ(replayed.last()["state_hash"], whole.last()["state_hash"]) << schedule;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, ResumedRule,
                         ::testing::Values("backprop", "gap", "chain", "fw_dtp", "dfa", "dtp", "sdtp", "local_ce",
                                           "gap_difference", "chain_original", "gap_original"),
                         [](const auto& row) { return row.param; });

TEST(Resume, WritesACheckpointOnInterruptAndExits130) {
  Folder folder;
  std::string place;
  const Outcome stopped = stopped_by(SIGINT, folder, place);
  ASSERT_EQ(stopped.exit, 130) << stopped.told();
  EXPECT_NE(stopped.err.find("weft: error: stopped by a signal"), std::string::npos) << stopped.err;
  const auto events = stopped.events();
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events.back()["event"], "error");
  EXPECT_EQ(events.back()["code"], "interrupted");
  const Json saved = events[events.size() - 2];
  EXPECT_EQ(saved["event"], "checkpoint") << stopped.told();
  const Outcome rest = weft(resumed(place));
  expect_unbroken(rest);
  EXPECT_EQ(rest.events().front()["resumed_at"], saved["samples"]) << rest.told();
}

TEST(Resume, Exits143OnTermination) {
  Folder folder;
  std::string place;
  const Outcome stopped = stopped_by(SIGTERM, folder, place);
  EXPECT_EQ(stopped.exit, 143) << stopped.told();
  expect_unbroken(weft(resumed(place)));
}

TEST(Resume, StartsAfreshWithoutACheckpointAndRestsAfterTheEnd) {
  Folder folder;
  const Outcome first = weft(resumed(folder / "c"));
  ASSERT_EQ(first.exit, 0) << first.told();
  EXPECT_TRUE(first.events().front()["resumed_at"].is_null());
  Json again = weft(resumed(folder / "c")).last(), once = first.last();
  again.erase("ticks_per_second");
  once.erase("ticks_per_second");
  EXPECT_EQ(again, once) << "a finished run resumed says its result again and learns nothing more";
}

TEST(Resume, RefusesAnotherRun) {
  Folder folder;
  ASSERT_EQ(weft(resumed(folder / "c")).exit, 0);
  const auto refused = [&](const Words& more, const std::string& fragment) {
    const Outcome outcome = weft(resumed(folder / "c") + more);
    EXPECT_EQ(outcome.exit, 2) << fragment;
    EXPECT_NE(outcome.err.find(fragment), std::string::npos) << outcome.err;
  };
  refused({"--rule", "dfa"}, "learning.rule: \"fw_dtp\" there, \"dfa\" here");
  refused({"--schedule", "settle"}, "learning.schedule");
  refused({"--seed", "9"}, "seed: 0 there, 9 here");
  refused({"--epochs", "9"}, "stream.epochs: 20 there, 9 here");
  refused({"--held-out", "0.3"}, "stream.held_out");
  refused({"--lr", "0.02"}, "learning.optimizer.lr");
  const Outcome anew = weft(kRun + Words{"--checkpoint", folder / "c"});
  EXPECT_EQ(anew.exit, 2) << "an earlier run's checkpoints are not overwritten unasked";
  EXPECT_NE(anew.err.find("--resume"), std::string::npos) << anew.err;
}

TEST(Resume, FallsBackToTheEarlierCheckpointWhenTheNewestIsDamaged) {
  Folder folder;
  ASSERT_EQ(weft(resumed(folder / "c")).exit, 0);
  const std::string newest = newest_in(folder / "c", "ckpt-") + "/run.entity";
  std::string bytes = read_file(newest);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(newest, bytes);
  const Outcome outcome = weft(resumed(folder / "c"));
  expect_unbroken(outcome);
  EXPECT_EQ(outcome.events().front()["resumed_at"], 11700) << outcome.told();
}

// Commit 8c879b22 made the checkpoint, with 16 ticks of every layer, and the hash of its whole run.
TEST(Resume, GoesOnFromAFileThatHoldsMoreOfThePastThanIsNeeded) {
  Folder folder;
  const std::string before = source_path("tests/data/uniform_history/");
  std::filesystem::create_directory(folder / "c");
  std::filesystem::copy(before + "ckpt-1000", folder / "c/ckpt-1000");
  const Outcome outcome = weft({"run", before + "network.json", "--json", "--checkpoint", folder / "c", "--resume"});
  ASSERT_EQ(outcome.exit, 0) << outcome.told();
  EXPECT_EQ(outcome.events().front()["resumed_at"], 1000) << outcome.told();
  EXPECT_EQ(outcome.last()["state_hash"], "bc8a007ae1c8a97adfbba58e5a5484fe");
}

}  // namespace
}  // namespace weft::cli_test::resume_test
