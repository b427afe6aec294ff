// SPDX-License-Identifier: Apache-2.0
// A run whose disk is full, for a while or for good.

#include <sys/mount.h>

#include "tests/cli/data_directory.hpp"

namespace weft::cli_test::full_disk_test {
namespace {

/// A file system of so many KiB in memory, gone when the test ends.
class SmallDisk {
 public:
  explicit SmallDisk(int kib) {
    const std::string size = "size=" + std::to_string(kib) + "k";
    std::filesystem::create_directory(path());
    is_there_ = mount("weft-test", path().c_str(), "tmpfs", 0, size.c_str()) == 0;
    error_ = errno;
  }
  ~SmallDisk() {
    if (is_there_) umount2(path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool is_there() const { return is_there_; }
  std::string why_not() const { return std::string("no file system can be mounted here: ") + std::strerror(error_); }
  std::string path() const { return folder_ / "disk"; }
  std::string operator/(const std::string& name) const { return path() + "/" + name; }
  /// Takes all the room that is left; remove "ballast" to give it back.
  void fill() const {
    const int file = open((*this / "ballast").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    const std::string chunk(4096, 'x');
    while (write(file, chunk.data(), chunk.size()) > 0) {
    }
    close(file);
  }

 private:
  Folder folder_;
  bool is_there_ = false;
  int error_ = 0;
};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

constexpr const char* kGoesOn = "the agent goes on and tries again";

TEST(FullDisk, TheRunGoesOnToItsEndAndSaysThatItCouldNotBeSaved) {
  // Room for its beginning; its journal alone takes more than twice as much.
  const SmallDisk disk(900);
  if (!disk.is_there()) GTEST_SKIP() << disk.why_not();
  const Words run = run_in(disk / "agent") + Words{"--durability", "interval=20ms"};
  const Outcome outcome = weft(run);
  EXPECT_EQ(outcome.exit, 5) << outcome.told();
  EXPECT_EQ(count_of(outcome.err, "the journal cannot be written"), 1u) << outcome.err;
  EXPECT_LE(count_of(outcome.err, kGoesOn), 2u) << "once of the journal, once of the checkpoints: " << outcome.err;
  EXPECT_NE(outcome.err.find("No space left on device"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("acknowledged up to tick"), std::string::npos) << outcome.err;
  EXPECT_EQ(last_event(outcome.out, "progress")["samples"], 20000) << "it ran on: " << outcome.told();
  // Acknowledged records are there, and with free space again the same command finishes the run.
  ASSERT_EQ(mount("", disk.path().c_str(), "", MS_REMOUNT, "size=64m"), 0) << std::strerror(errno);
  const Outcome again = weft(run);
  expect_uninterrupted_run(again);
  EXPECT_GE(again.events().front()["tick"].get<std::uint64_t>(), acknowledged_tick(outcome.out));
}

TEST(FullDisk, ForAWhileCostsNothingButTheTelling) {
  const SmallDisk disk(48 << 10);
  if (!disk.is_there()) GTEST_SKIP() << disk.why_not();
  const std::string directory = disk / "agent";
  Process agent({"run", kDigits, "--json", "--quiet", "--epochs", "1000000", "--state", directory, "--durability",
                 "interval=20ms", "--checkpoint-every", "20000"});
  const auto wait_for = [&](const std::string& told) {
    while (!agent.has_ended() && agent.err_so_far().find(told) == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  wait_for_progress(agent);
  disk.fill();
  wait_for("the journal cannot be written");  // a checkpoint may have met the full disk before it
  const std::uint64_t kept = acknowledged_tick(agent.out_so_far());
  std::filesystem::remove(disk / "ballast");
  wait_for("the journal is written again");
  ASSERT_FALSE(agent.has_ended()) << agent.wait().told();
  agent.send(SIGTERM);
  const Outcome outcome = agent.wait();
  EXPECT_EQ(outcome.exit, 143) << outcome.told();
  const Json last = last_event(outcome.out, "checkpoint");
  EXPECT_GT(last["tick"].get<std::uint64_t>(), kept);
  const Outcome replay = weft({"replay", directory, "--verify", "--json"});
  EXPECT_EQ(replay.exit, 0) << replay.told();
  EXPECT_EQ(replay.last()["tick"], last["tick"]) << "all of it is there";
}

/// The digits with a reservoir of 10,000 samples of some 260 bytes, learned for a second or so.
Words run_with_reservoir(const std::string& file) {
  Json network = Json::parse(read_file(kDigits));
  network["learning"] = {{"optimizer", {{"lr", 0.01}}},
                         {"replay", {{"method", "er"}, {"capacity", 10000}, {"samples", 2}}}};
  network["stream"]["csv"] = source_path("examples/data/digits.csv.gz");
  write_file(file, network.dump());
  return {"run", file, "--json", "--quiet", "--max-samples", "20000", "--threads", "1"};
}

TEST(FullDisk, AReservoirThatIsLargerIsRefusedAndGoesOnToTheBitWhereThereIsRoom) {
  const SmallDisk disk(4 << 10);
  if (!disk.is_there()) GTEST_SKIP() << disk.why_not();
  const Folder folder;
  const Words words = run_with_reservoir(folder / "n.json");
  const Outcome whole = weft(words);
  ASSERT_EQ(whole.exit, 0) << whole.told();
  const Words run =
      words + Words{"--state", disk / "agent", "--durability", "interval=20ms", "--checkpoint-every", "2000"};
  const Outcome refused = weft(run);
  EXPECT_EQ(refused.exit, 3) << refused.told();
  for (const char* const part : {"learning.replay.capacity: stored samples take", "twice while one is written",
                                 " free; give a smaller capacity, or another disk"})
    EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
  // With room it begins; then the disk is full while samples are stored, and the process is killed.
  ASSERT_EQ(mount("", disk.path().c_str(), "", MS_REMOUNT, "size=64m"), 0) << std::strerror(errno);
  {
    Process agent(run);
    wait_for_progress(agent);
    disk.fill();
    while (!agent.has_ended() && agent.err_so_far().find(kGoesOn) == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    agent.send(SIGKILL);
    const Outcome killed = agent.wait();
    EXPECT_EQ(count_of(killed.err, "No space left on device") > 0, true) << killed.told();
  }
  std::filesystem::remove(disk / "ballast");
  const Outcome again = weft(run);
  ASSERT_EQ(again.exit, 0) << again.told();
  EXPECT_EQ(again.last()["state_hash"], whole.last()["state_hash"]);
  const Outcome replayed = weft({"replay", disk / "agent", "--verify", "--json"});
  EXPECT_EQ(replayed.exit, 0) << replayed.told();
}

}  // namespace
}  // namespace weft::cli_test::full_disk_test
