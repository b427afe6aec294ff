// SPDX-License-Identifier: Apache-2.0
// Ends that are asked for: in order, at once, and in the middle of a checkpoint.

#include <sys/stat.h>

#include "tests/cli/agent.hpp"
#include <random>

namespace weft::cli_test::signals_test {
namespace {

using std::chrono::milliseconds;

TEST(Signals, TheSecondEndsAtOnceAndTheCheckpointBeforeItHolds) {
  // Checkpoints all the time, so that many of these moments are in the middle of one.
  Folder folder;
  const unsigned seed = std::random_device{}();
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  const Words run{"run", kDigits, "--json", "--max-samples", "6000"};
  const Json expected = weft(run).last()["state_hash"];
  int sudden = 0;
  for (int attempt = 0; attempt < 12; ++attempt) {
    const std::string place = folder / std::to_string(attempt);
    const Words kept = run + Words{"--checkpoint", place, "--checkpoint-every", "64", "--resume"};
    Process process(kept);
    wait_for_progress(process);
    std::this_thread::sleep_for(milliseconds(random() % 40));
    process.send(SIGTERM);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    process.send(SIGINT);
    const Outcome first = process.wait();
    // 143: in order, before the second came. 130: at once. 0: it was done.
    ASSERT_TRUE(first.exit == 143 || first.exit == 130 || first.exit == 0) << "seed " << seed << " " << first.told();
    sudden += first.exit == 130;
    const Outcome rest = weft(kept);
    ASSERT_EQ(rest.exit, 0) << "seed " << seed << " " << rest.told();
    EXPECT_EQ(rest.last()["state_hash"], expected) << "seed " << seed;
  }
  RecordProperty("ended_at_once", sudden);
}

TEST(Signals, HangupOpensTheLogAnewAndTheRunGoesOn) {
  Folder folder;
  Process agent(endless(folder / "c") + Words{"--log", folder / "log"});
  wait_for_progress(agent);
  std::filesystem::rename(folder / "log", folder / "log.1");
  agent.send(SIGHUP);
  while (!agent.has_ended() && read_file(folder / "log").find("log opened anew") == std::string::npos)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_NE(read_file(folder / "log.1").find("digits: running"), std::string::npos);
  agent.send(SIGTERM);
  const Outcome ended = agent.wait();
  EXPECT_EQ(ended.exit, 143) << ended.told();
  EXPECT_NE(read_file(folder / "log").find("digits: stopping, at tick "), std::string::npos)
      << read_file(folder / "log");
}

TEST(Signals, HangupEndsARunWithoutALogAsEver) {
  Process agent({"run", kDigits, "--json", "--epochs", "1000000"});
  wait_for_progress(agent);
  agent.send(SIGHUP);
  EXPECT_EQ(agent.wait().exit, 128 + SIGHUP);
}

TEST(Signals, ALogThatCannotBeOpenedStopsNothing) {
  Folder folder;
  const Outcome run = weft({"run", kDigits, "--quiet", "--max-samples", "100", "--log", folder / "missing/log"});
  EXPECT_EQ(run.exit, 0) << run.told();
  EXPECT_NE(run.err.find("missing/log: cannot be opened"), std::string::npos) << run.err;
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
}

TEST(Signals, AReaderThatGoesAwayEndsTheRunWithACheckpoint) {
  Folder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  Process agent(endless(folder / "c"), {}, pipe);
  char chunk[4096];
  while (read(reader, chunk, sizeof chunk) <= 0 && !agent.has_ended()) std::this_thread::sleep_for(milliseconds(1));
  close(reader);
  const Outcome ended = agent.wait();
  EXPECT_EQ(ended.exit, 5) << ended.told();
  EXPECT_NE(ended.err.find("nobody reads stdout any more"), std::string::npos) << ended.err;
  bool has_checkpoint = false;
  for (const auto& each : std::filesystem::directory_iterator(folder / "c"))
    has_checkpoint |= each.path().filename().string().starts_with("ckpt-");
  EXPECT_TRUE(has_checkpoint);
}

}  // namespace
}  // namespace weft::cli_test::signals_test
