// SPDX-License-Identifier: Apache-2.0

#include "formats/checkpoint.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include <signal.h>
#include <unistd.h>

#include "crash_file_system.hpp"
#include "temporary_directory.hpp"
#include <fstream>

namespace weft::formats {
namespace {

using nlohmann::json;

/// Content that names its tick, so that a mix of two checkpoints shows.
std::vector<std::byte> content(std::uint64_t tick, std::uint32_t file, std::size_t size) {
  RandomStream random(tick, file, RandomPurpose::test);
  std::vector<std::byte> bytes(size);
  for (auto& b : bytes) b = static_cast<std::byte>(random.next_u32());
  return bytes;
}

Status write_tick(CheckpointStore& store, std::uint64_t tick, std::size_t size = 100) {
  const auto a = content(tick, 0, size), b = content(tick, 1, size / 2);
  return store.write(tick, {{"state.entity", a}, {"cursor", b}, {"empty", {}}}, json{{"cursor", tick * 3}});
}

void expect_tick(const Checkpoint& found, std::uint64_t tick, std::size_t size = 100) {
  EXPECT_EQ(found.tick, tick);
  EXPECT_EQ(*found.info, (json{{"cursor", tick * 3}}));
  ASSERT_EQ(found.files.size(), 3u);
  const auto a = content(tick, 0, size), b = content(tick, 1, size / 2);
  EXPECT_TRUE(std::ranges::equal(*found.file("state.entity"), a));
  EXPECT_TRUE(std::ranges::equal(*found.file("cursor"), b));
  EXPECT_TRUE(found.file("empty")->empty());
  EXPECT_EQ(found.file("other").error().code(), Errc::not_found);
}

TEST(CheckpointStore, GivesBackTheNewestAndKeepsTwo) {
  CrashFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(store);
  EXPECT_FALSE(store->latest()->has_value());
  for (const std::uint64_t tick : {7u, 100u, 9000u}) ASSERT_TRUE(write_tick(*store, tick));
  EXPECT_EQ(store->ticks(), (std::vector<std::uint64_t>{100, 9000}));
  auto latest = store->latest();
  ASSERT_TRUE(latest && *latest);
  expect_tick(**latest, 9000);
  EXPECT_TRUE((*latest)->skipped.empty());
}

TEST(CheckpointStore, KeepsAsManyAsAskedAndGivesBackEach) {
  CrashFileSystem files;
  auto store = CheckpointStore::open(files, "c", {.keep = 4});
  ASSERT_TRUE(store);
  for (std::uint64_t tick = 1; tick <= 7; ++tick) ASSERT_TRUE(write_tick(*store, tick));
  EXPECT_EQ(store->ticks(), (std::vector<std::uint64_t>{4, 5, 6, 7}));
  for (std::uint64_t tick = 4; tick <= 7; ++tick) {
    const auto found = store->at(tick);
    ASSERT_TRUE(found) << found.error().text();
    expect_tick(*found, tick);
  }
  EXPECT_EQ(store->at(3).error().code(), Errc::not_found);
  files.flip("c/ckpt-5/cursor", 3);
  EXPECT_EQ(store->at(5).error().code(), Errc::corrupt);
}

TEST(CheckpointStore, RemovesWhatIsOlderButNeverTheLastThatVerifies) {
  CrashFileSystem files;
  {
    auto store = CheckpointStore::open(files, "c", {.keep = 9});
    for (std::uint64_t tick = 1; tick <= 5; ++tick) ASSERT_TRUE(write_tick(*store, tick));
    ASSERT_TRUE(store->remove_before(3));
    EXPECT_EQ(store->ticks(), (std::vector<std::uint64_t>{3, 4, 5}));
  }
  files.flip("c/ckpt-5/cursor", 0);
  auto store = CheckpointStore::open(files, "c", {.keep = 9});
  ASSERT_TRUE(store->remove_before(100));
  EXPECT_EQ(store->ticks(), (std::vector<std::uint64_t>{4})) << "5 does not verify";
  expect_tick(**store->latest(), 4);
}

TEST(CheckpointStore, IsLookedAtBesideItsOwnerWithoutAChange) {
  CrashFileSystem files;
  EXPECT_EQ(CheckpointStore::look(files, "c").error().code(), Errc::not_found);
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(write_tick(*store, 1));
  ASSERT_TRUE(files.make_directory("c/ckpt-9.tmp"));
  auto look = CheckpointStore::look(files, "c");
  ASSERT_TRUE(look) << look.error().text();
  expect_tick(**look->latest(), 1);
  for (std::uint64_t tick = 2; tick <= 5; ++tick) ASSERT_TRUE(write_tick(*store, tick));
  expect_tick(**look->latest(), 5);  // what it saw first was pruned
  EXPECT_EQ(look->ticks(), (std::vector<std::uint64_t>{4, 5}));
  EXPECT_TRUE(look->at(4));
  EXPECT_EQ(look->at(1).error().code(), Errc::not_found);
  EXPECT_EQ(write_tick(*look, 6).error().code(), Errc::invalid_argument);
  EXPECT_EQ(look->clear().error().code(), Errc::invalid_argument);
  EXPECT_EQ(look->remove_before(9).error().code(), Errc::invalid_argument);
  const auto names = files.list("c");
  EXPECT_EQ(*names, (std::vector<std::string>{"ckpt-4", "ckpt-5", "ckpt-9.tmp"}));
  files.flip("c/ckpt-5/cursor", 0);
  const auto latest = look->latest();
  expect_tick(**latest, 4);
  EXPECT_EQ((*latest)->skipped.size(), 1u);
}

TEST(CheckpointStore, RefusesASecondOwner) {
  CrashFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(store);
  const auto second = CheckpointStore::open(files, "c");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Errc::storage);
}

TEST(CheckpointStore, WritesOnlyForwards) {
  CrashFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(write_tick(*store, 50));
  EXPECT_EQ(write_tick(*store, 40).error().code(), Errc::invalid_argument);
  EXPECT_TRUE(write_tick(*store, 50)) << "the same content again is no news";
  EXPECT_EQ(write_tick(*store, 50, 200).error().code(), Errc::invalid_argument);
  EXPECT_EQ(store->ticks(), (std::vector<std::uint64_t>{50}));
  ASSERT_TRUE(store->clear());
  EXPECT_FALSE(store->latest()->has_value());
  EXPECT_TRUE(write_tick(*store, 40));
}

TEST(CheckpointStore, RefusesNamesThatLeaveTheDirectory) {
  CrashFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  for (const char* name : {"", ".", "..", "../x", "a/b", ".hidden", "manifest.json", "a b", "\xC3\xA9"})
    EXPECT_EQ(store->write(1, {{name, {}}}, json()).error().code(), Errc::invalid_argument) << name;
  EXPECT_EQ(store->write(1, {{"a", {}}, {"a", {}}}, json()).error().code(), Errc::invalid_argument);
  EXPECT_EQ(store->write(1, {}, json(std::nan(""))).error().code(), Errc::invalid_argument);
  json deep = 1;
  for (int i = 0; i < 100000; ++i) deep = json::array({std::move(deep)});
  EXPECT_EQ(store->write(1, {}, deep).error().code(), Errc::too_large);
  EXPECT_TRUE(store->ticks().empty());
}

TEST(CheckpointStore, FallsBackWhateverBitIsFlippedOrByteCutAndThenWritesOn) {
  for (const char* name : {"state.entity", "cursor", "manifest.json"}) {
    CrashFileSystem original;
    {
      auto store = CheckpointStore::open(original, "c");
      ASSERT_TRUE(write_tick(*store, 1));
      ASSERT_TRUE(write_tick(*store, 2));
    }
    const std::string path = std::string("c/ckpt-2/") + name;
    const std::size_t size = original.size(path);
    RandomStream random(1, 0, RandomPurpose::test);
    for (std::size_t damage = 0; damage < 9 * size; ++damage) {
      // All was synced, so a power cut copies the tree.
      auto files = original.after_power_cut(random);
      if (damage < 8 * size)
        files->flip(path, damage);
      else
        files->truncate(path, damage - 8 * size);
      auto store = CheckpointStore::open(*files, "c");
      ASSERT_TRUE(store);
      const auto latest = store->latest();
      ASSERT_TRUE(latest && *latest) << name << " damage " << damage;
      expect_tick(**latest, 1);
      ASSERT_EQ((*latest)->skipped.size(), 1u);
      if (damage % 64 == 0) {
        ASSERT_TRUE(write_tick(*store, 2)) << "the damaged one makes room";
        expect_tick(**store->latest(), 2);
      }
    }
  }
}

TEST(CheckpointStore, SaysSoWhenNoneVerifies) {
  CrashFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(write_tick(*store, 1));
  ASSERT_TRUE(write_tick(*store, 2));
  files.flip("c/ckpt-1/cursor", 0);
  files.flip("c/ckpt-2/cursor", 0);
  const auto latest = store->latest();
  ASSERT_FALSE(latest);
  EXPECT_EQ(latest.error().code(), Errc::corrupt);
  EXPECT_NE(latest.error().text().find("ckpt-1/cursor"), std::string::npos) << latest.error().text();
}

/// Runs writes of ticks 1 to 4 with a fault at operation `at`; returns the last tick whose write reported success.
std::uint64_t run_with_fault(CrashFileSystem& files, CrashFileSystem::Fault fault, std::size_t at) {
  files.arm(fault, at);
  auto store = CheckpointStore::open(files, "c");
  std::uint64_t acknowledged = 0;
  for (std::uint64_t tick = 1; store && tick <= 4; ++tick)
    if (write_tick(*store, tick)) acknowledged = tick;
  return acknowledged;
}

void expect_resumable(CrashFileSystem& files, std::uint64_t acknowledged, const std::string& what) {
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(store) << what << ": " << store.error().text();
  const auto names = files.list("c");
  for (const std::string& name : *names) EXPECT_EQ(name.find(".tmp"), std::string::npos) << what;
  const auto latest = store->latest();
  ASSERT_TRUE(latest) << what << ": " << latest.error().text();
  const std::uint64_t tick = *latest ? (*latest)->tick : 0;
  EXPECT_GE(tick, acknowledged) << what;
  if (*latest) expect_tick(**latest, tick);
  const Status written = write_tick(*store, tick + 1);
  ASSERT_TRUE(written) << what << ": " << written.error().text();
  expect_tick(**store->latest(), tick + 1);
}

/// A checkpoint appears under its name whole, and goes in one step too.
void expect_whole(CrashFileSystem& files, const std::string& what) {
  const auto names = files.list("c");
  for (std::size_t i = 0; names && i < names->size(); ++i) {
    const std::string& name = (*names)[i];
    if (name.substr(0, 5) != "ckpt-" || name.find(".tmp") != std::string::npos) continue;
    EXPECT_EQ(files.list("c/" + name)->size(), 4u) << what << ": " << name;
  }
}

void try_fault_everywhere(CrashFileSystem::Fault fault) {
  std::size_t at = 1;
  for (bool has_struck = true; has_struck; ++at) {
    CrashFileSystem files;
    const std::uint64_t acknowledged = run_with_fault(files, fault, at);
    has_struck = files.has_struck();
    std::string what = "operation ";
    what += std::to_string(at);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      RandomStream random(seed, at, RandomPurpose::test);
      expect_resumable(*files.after_power_cut(random), acknowledged, what + ", power cut " + std::to_string(seed));
      if (testing::Test::HasFatalFailure()) return;
    }
    const auto killed = files.after_kill();
    expect_whole(*killed, what);
    expect_resumable(*killed, acknowledged, what + ", killed");
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(at, 100u) << "the faults must have covered four writes";
}

TEST(CheckpointStore, ResumesAfterACrashAtEveryOperation) { try_fault_everywhere(CrashFileSystem::Fault::crash); }
TEST(CheckpointStore, ResumesAfterAFailureOfEveryOperation) { try_fault_everywhere(CrashFileSystem::Fault::fail); }

TEST(CheckpointStore, AnEarlierCheckpointOutlivesEveryFailedWrite) {
  for (std::size_t at = 1;; ++at) {
    CrashFileSystem files;
    auto store = CheckpointStore::open(files, "c");
    ASSERT_TRUE(write_tick(*store, 1));
    files.arm(CrashFileSystem::Fault::fail, at);
    const bool is_written = write_tick(*store, 2).has_value();
    const bool has_struck = files.has_struck();
    files.arm(CrashFileSystem::Fault::none, 0);
    const auto latest = store->latest();
    ASSERT_TRUE(latest && *latest);
    expect_tick(**latest, is_written ? 2 : 1);
    if (!has_struck) break;
  }
}

TEST(CheckpointStore, ReadsBackAndRefusesWhatTheDiskStoredWrongly) {
  std::size_t refused = 0;
  for (std::size_t at = 1;; ++at) {
    CrashFileSystem files;
    auto store = CheckpointStore::open(files, "c");
    ASSERT_TRUE(write_tick(*store, 1));
    ASSERT_TRUE(write_tick(*store, 2));
    files.arm(CrashFileSystem::Fault::corrupt, at);
    const Status written = write_tick(*store, 3);
    if (!files.has_struck()) break;
    const auto latest = store->latest();
    ASSERT_TRUE(latest && *latest);
    expect_tick(**latest, written ? 3 : 2);
    EXPECT_TRUE((*latest)->skipped.empty());
    if (written) continue;
    ++refused;
    EXPECT_EQ(written.error().code(), Errc::corrupt) << written.error().text();
    EXPECT_EQ(store->ticks(), (std::vector<std::uint64_t>{1, 2}));
  }
  EXPECT_EQ(refused, 3u) << "two files with bytes and the manifest";
}

TEST(CheckpointStore, LeavesAResumableDirectoryWhenKilledAtRandomMoments) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/checkpoints";
  RandomStream random(3, 0, RandomPurpose::test);
  std::uint64_t reached = 0;
  for (int round = 0; round < 30; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipe_ends[0]);
      auto store = CheckpointStore::open(real_file_system(), path);
      if (!store) ::_exit(1);
      for (std::uint64_t tick = reached + 1;; ++tick) {
        if (!write_tick(*store, tick, 20000)) ::_exit(2);
        if (::write(pipe_ends[1], &tick, sizeof tick) != sizeof tick) ::_exit(3);
      }
    }
    ::close(pipe_ends[1]);
    // Counted in acknowledged writes, then a random moment within the next one.
    std::uint64_t acknowledged = 0, tick = 0;
    const std::uint32_t writes = random.next_below(4);
    for (std::uint32_t i = 0; i < writes && ::read(pipe_ends[0], &tick, sizeof tick) == sizeof tick; ++i)
      acknowledged = tick;
    ::usleep(random.next_below(20000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child left by itself with " << WEXITSTATUS(status);
    while (::read(pipe_ends[0], &tick, sizeof tick) == sizeof tick) acknowledged = tick;
    ::close(pipe_ends[0]);

    auto store = CheckpointStore::open(real_file_system(), path);
    ASSERT_TRUE(store) << store.error().text();
    const auto latest = store->latest();
    ASSERT_TRUE(latest) << latest.error().text();
    ASSERT_TRUE(latest->has_value() || (acknowledged == 0 && reached == 0));
    if (!*latest) continue;
    EXPECT_GE((*latest)->tick, std::max(acknowledged, reached));
    expect_tick(**latest, (*latest)->tick, 20000);
    reached = (*latest)->tick;
    ASSERT_LT(reached, 1000000u);
  }
  EXPECT_GT(reached, 0u);
}

TEST(CheckpointStore, NamesTheProcessThatHoldsTheDirectory) {
  const TemporaryDirectory directory;
  auto store = CheckpointStore::open(real_file_system(), directory.path() + "/c");
  ASSERT_TRUE(store) << store.error().text();
  const auto second = CheckpointStore::open(real_file_system(), directory.path() + "/c");
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().text().find("in use by process " + std::to_string(::getpid())), std::string::npos)
      << second.error().text();
}

TEST(CheckpointStore, ClearsLeftoversWithoutFollowingLinks) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/c", precious = directory.path() + "/precious";
  std::filesystem::create_directories(path + "/ckpt-5.tmp");
  std::filesystem::create_directories(precious);
  std::ofstream(path + "/ckpt-5.tmp/half") << "x";
  std::ofstream(precious + "/file") << "x";
  std::filesystem::create_symlink(precious, path + "/ckpt-6.tmp");
  std::ofstream(path + "/notes.txt") << "mine";
  auto store = CheckpointStore::open(real_file_system(), path);
  ASSERT_TRUE(store) << store.error().text();
  EXPECT_FALSE(std::filesystem::exists(path + "/ckpt-5.tmp"));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path + "/ckpt-6.tmp")));
  EXPECT_TRUE(std::filesystem::exists(precious + "/file"));
  EXPECT_TRUE(std::filesystem::exists(path + "/notes.txt"));
}

TEST(CheckpointStore, NeedsAParentDirectory) {
  const TemporaryDirectory directory;
  EXPECT_EQ(CheckpointStore::open(real_file_system(), directory.path() + "/no/c").error().code(), Errc::not_found);
}

}  // namespace
}  // namespace weft::formats
