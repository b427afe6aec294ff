// SPDX-License-Identifier: Apache-2.0

#include "storage/checkpoint.hpp"

#include "core/json.hpp"
#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include "tests/support/fault_file_system.hpp"
#include "tests/support/killed_process.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/support/recording_file_system.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/thorough.hpp"
#include <fstream>
#include <limits>

namespace weft::storage::checkpoint_test {
namespace {

/// Content that names its tick, so that a mix of two checkpoints shows.
std::vector<std::byte> content(std::uint64_t tick, std::uint32_t file, std::size_t size) {
  RandomStream random(tick, file, RandomPurpose::test);
  std::vector<std::byte> bytes(size);
  for (auto& b : bytes) b = static_cast<std::byte>(random.next_u32());
  return bytes;
}

Status write_tick(CheckpointStore& store, std::uint64_t tick, std::size_t size = 100) {
  const auto a = content(tick, 0, size), b = content(tick, 1, size / 2);
  return store.write({tick}, {{"state.entity", a}, {"cursor", b}, {"empty", {}}}, Json{{"cursor", tick * 3}});
}

std::vector<std::uint64_t> ticks_of(const CheckpointStore& store) {
  std::vector<std::uint64_t> ticks;
  for (const CheckpointKey& key : store.keys()) ticks.push_back(key.tick);
  return ticks;
}

void expect_tick(const Checkpoint& found, std::uint64_t tick, std::size_t size = 100) {
  EXPECT_EQ(found.key, CheckpointKey{tick});
  EXPECT_EQ(*found.info, (Json{{"cursor", tick * 3}}));
  ASSERT_EQ(found.files.size(), 3u);
  const auto a = content(tick, 0, size), b = content(tick, 1, size / 2);
  EXPECT_TRUE(std::ranges::equal(found.file("state.entity")->bytes(), a));
  EXPECT_TRUE(std::ranges::equal(found.file("cursor")->bytes(), b));
  EXPECT_TRUE(found.file("empty")->bytes().empty());
  EXPECT_EQ(found.file("other").error().code(), Errc::not_found);
}

TEST(CheckpointStore, GivesBackTheNewestAndKeepsTwo) {
  MemoryFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(store);
  EXPECT_FALSE(store->latest()->has_value());
  for (const std::uint64_t tick : {7u, 100u, 9000u}) ASSERT_TRUE(write_tick(*store, tick));
  EXPECT_EQ(ticks_of(*store), (std::vector<std::uint64_t>{100, 9000}));
  auto latest = store->latest();
  ASSERT_TRUE(latest && *latest);
  expect_tick(**latest, 9000);
  EXPECT_TRUE((*latest)->skipped.empty());
}

// The digest in it is that of another implementation of XXH3 (tests/data/fuzz/checkpoint/whole.json before version 3).
TEST(CheckpointStore, RefusesAnEarlierFormatByItsVersion) {
  MemoryFileSystem files;
  ASSERT_TRUE(CheckpointStore::open(files, "c"));
  ASSERT_TRUE(files.make_directory("c/ckpt-7"));
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
  {
    auto file = files.open("c/ckpt-7/manifest.json", OpenMode::create);
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->write(std::as_bytes(std::span(manifest))));
    ASSERT_TRUE((*file)->close());
  }
  const auto latest = CheckpointStore::open(files, "c")->latest();
  ASSERT_FALSE(latest);
  for (const char* part : {"ckpt-7", "version 2 of the checkpoint format", "reads 3"})
    EXPECT_NE(latest.error().text().find(part), std::string::npos) << latest.error().text();
}

TEST(CheckpointStore, KeepsAsManyAsAskedAndGivesBackEach) {
  MemoryFileSystem files;
  auto store = CheckpointStore::open(files, "c", {.keep = 4});
  ASSERT_TRUE(store);
  for (std::uint64_t tick = 1; tick <= 7; ++tick) ASSERT_TRUE(write_tick(*store, tick));
  EXPECT_EQ(ticks_of(*store), (std::vector<std::uint64_t>{4, 5, 6, 7}));
  for (std::uint64_t tick = 4; tick <= 7; ++tick) {
    const auto found = store->at({tick});
    ASSERT_TRUE(found) << found.error().text();
    expect_tick(*found, tick);
  }
  EXPECT_EQ(store->at({3}).error().code(), Errc::not_found);
  files.flip_bit("c/ckpt-5/cursor", 3);
  EXPECT_EQ(store->at({5}).error().code(), Errc::corrupt);
}

TEST(CheckpointStore, IsNamedByTickAndByTheRecordBesideItWhereAJournalGoesWithIt) {
  MemoryFileSystem files;
  auto store = CheckpointStore::open(files, "c", {.keep = 9});
  ASSERT_TRUE(store);
  // Records count on within a tick, and ticks within a record count for more.
  const std::vector<CheckpointKey> keys{{0, 0}, {7, 2}, {7, 10}, {9, 11}, {10, 12}, {100, 13}};
  for (const CheckpointKey& key : keys) {
    const auto bytes = content(key.tick, 0, 10);
    ASSERT_TRUE(store->write(key, {{"a", bytes}}, Json{{"record", key.record}})) << to_string(key);
  }
  EXPECT_EQ(*files.list("c"), (std::vector<std::string>{"ckpt-0", "ckpt-10-12", "ckpt-100-13", "ckpt-7-10", "ckpt-7-2",
                                                        "ckpt-9-11", "lock"}));
  EXPECT_EQ(CheckpointStore::look(files, "c")->keys(), keys);
  EXPECT_EQ(store->at({7, 10})->key, (CheckpointKey{7, 10}));
  EXPECT_EQ(store->at({7, 3}).error().text(), "c: no checkpoint of tick 7, record 3");
  EXPECT_EQ(store->write({7, 11}, {}, Json()).error().code(), Errc::invalid_argument) << "one of tick 100 is there";
  ASSERT_TRUE(store->discard_after({7, 2}));
  EXPECT_EQ(store->keys(), (std::vector<CheckpointKey>{{0, 0}, {7, 2}}));
  EXPECT_EQ((*store->latest())->key, (CheckpointKey{7, 2}));
}

TEST(CheckpointStore, LeavesNamesAloneThatAreNotSpelledAsOurs) {
  MemoryFileSystem files;
  {
    auto first = CheckpointStore::open(files, "c");
    ASSERT_TRUE(write_tick(*first, 7));
  }
  for (const char* name : {"ckpt-", "ckpt-07", "ckpt-7-0", "ckpt-7-", "ckpt-7-02", "ckpt--7", "ckpt-7-2-1", "ckpt-7+2",
                           "ckpt-18446744073709551616"})
    ASSERT_TRUE(files.make_directory(std::string("c/") + name)) << name;
  auto store = CheckpointStore::open(files, "c");
  EXPECT_EQ(ticks_of(*store), (std::vector<std::uint64_t>{7}));
  EXPECT_EQ(files.list("c")->size(), 11u);
}

TEST(CheckpointStore, RefusesADirectoryOfAnotherNameThanItsManifestSays) {
  MemoryFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  const auto bytes = content(7, 0, 10);
  ASSERT_TRUE(store->write({7, 2}, {{"a", bytes}}, Json()));
  ASSERT_TRUE(files.rename("c/ckpt-7-2", "c/ckpt-7-3"));
  const auto latest = CheckpointStore::look(files, "c")->latest();
  ASSERT_FALSE(latest);
  EXPECT_NE(latest.error().text().find("says tick 7, record 2, the directory tick 7, record 3"), std::string::npos)
      << latest.error().text();
}

TEST(CheckpointStore, IsLookedAtBesideItsOwnerWithoutAChange) {
  MemoryFileSystem files;
  EXPECT_EQ(CheckpointStore::look(files, "c").error().code(), Errc::not_found);
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(write_tick(*store, 1));
  ASSERT_TRUE(files.make_directory("c/ckpt-9.tmp"));
  auto look = CheckpointStore::look(files, "c");
  ASSERT_TRUE(look) << look.error().text();
  expect_tick(**look->latest(), 1);
  for (std::uint64_t tick = 2; tick <= 5; ++tick) ASSERT_TRUE(write_tick(*store, tick));
  expect_tick(**look->latest(), 5);  // what it saw first was pruned
  EXPECT_EQ(ticks_of(*look), (std::vector<std::uint64_t>{4, 5}));
  EXPECT_TRUE(look->at({4}));
  EXPECT_EQ(look->at({1}).error().code(), Errc::not_found);
  EXPECT_EQ(write_tick(*look, 6).error().code(), Errc::invalid_argument);
  EXPECT_EQ(look->clear().error().code(), Errc::invalid_argument);
  const auto names = files.list("c");
  EXPECT_EQ(*names, (std::vector<std::string>{"ckpt-4", "ckpt-5", "ckpt-9.tmp", "lock"}));
  files.flip_bit("c/ckpt-5/cursor", 0);
  const auto latest = look->latest();
  expect_tick(**latest, 4);
  EXPECT_EQ((*latest)->skipped.size(), 1u);
}

TEST(CheckpointStore, RefusesASecondOwner) {
  MemoryFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(store);
  const auto second = CheckpointStore::open(files, "c");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Errc::storage);
}

TEST(CheckpointStore, WritesOnlyForwards) {
  MemoryFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(write_tick(*store, 50));
  EXPECT_EQ(write_tick(*store, 40).error().code(), Errc::invalid_argument);
  EXPECT_TRUE(write_tick(*store, 50)) << "the same content again is no news";
  EXPECT_EQ(write_tick(*store, 50, 200).error().code(), Errc::invalid_argument);
  EXPECT_EQ(ticks_of(*store), (std::vector<std::uint64_t>{50}));
  ASSERT_TRUE(store->clear());
  EXPECT_FALSE(store->latest()->has_value());
  EXPECT_TRUE(write_tick(*store, 40));
}

TEST(CheckpointStore, RefusesNamesThatLeaveTheDirectory) {
  MemoryFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  for (const char* name : {"", ".", "..", "../x", "a/b", ".hidden", "manifest.json", "a b", "\xC3\xA9"})
    EXPECT_EQ(store->write({1}, {{name, {}}}, Json()).error().code(), Errc::invalid_argument) << name;
  EXPECT_EQ(store->write({1}, {{"a", {}}, {"a", {}}}, Json()).error().code(), Errc::invalid_argument);
  EXPECT_EQ(store->write({1}, {}, Json(std::numeric_limits<double>::quiet_NaN())).error().code(),
            Errc::invalid_argument);
  Json deep = 1;
  for (int i = 0; i < 100000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_EQ(store->write({1}, {}, deep).error().code(), Errc::too_large);
  EXPECT_TRUE(store->keys().empty());
}

TEST(CheckpointStore, FallsBackWhateverBitIsFlippedOrByteCutAndThenWritesOn) {
  MemoryFileSystem original;
  {
    auto store = CheckpointStore::open(original, "c");
    ASSERT_TRUE(write_tick(*store, 1));
    ASSERT_TRUE(write_tick(*store, 2));
  }
  for (const char* name : {"state.entity", "cursor", "manifest.json"}) {
    const std::string path = std::string("c/ckpt-2/") + name;
    const std::size_t size = original.read(path, 1 << 20)->size();
    for (std::size_t damage = 0; damage < 9 * size; damage += struck_stride(1)) {
      const auto files = original.copy();
      if (damage < 8 * size)
        ASSERT_TRUE(files->flip_bit(path, damage));
      else
        ASSERT_TRUE(files->resize(path, damage - 8 * size));
      auto store = CheckpointStore::open(*files, "c");
      ASSERT_TRUE(store);
      const auto latest = store->latest();
      ASSERT_TRUE(latest && *latest) << name << " damage " << damage;
      expect_tick(**latest, 1);
      ASSERT_EQ((*latest)->skipped.size(), 1u);
      EXPECT_NE((*latest)->skipped[0].find(path), std::string::npos) << (*latest)->skipped[0];
      if (damage % 64 == 0) {
        ASSERT_TRUE(write_tick(*store, 2)) << "the damaged one makes room";
        expect_tick(**store->latest(), 2);
      }
    }
  }
}

TEST(CheckpointStore, SaysSoWhenNoneVerifies) {
  MemoryFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(write_tick(*store, 1));
  ASSERT_TRUE(write_tick(*store, 2));
  files.flip_bit("c/ckpt-1/cursor", 0);
  files.flip_bit("c/ckpt-2/cursor", 0);
  const auto latest = store->latest();
  ASSERT_FALSE(latest);
  EXPECT_EQ(latest.error().code(), Errc::corrupt);
  EXPECT_NE(latest.error().text().find("ckpt-1/cursor"), std::string::npos) << latest.error().text();
}

void expect_resumable(MemoryFileSystem& files, std::uint64_t acknowledged, const std::string& what) {
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(store) << what << ": " << store.error().text();
  const auto names = files.list("c");
  for (const std::string& name : *names) EXPECT_EQ(name.find(".tmp"), std::string::npos) << what;
  const auto latest = store->latest();
  ASSERT_TRUE(latest) << what << ": " << latest.error().text();
  const std::uint64_t tick = *latest ? (*latest)->key.tick : 0;
  EXPECT_GE(tick, acknowledged) << what;
  EXPECT_LE(tick, 4u) << what;
  if (*latest) expect_tick(**latest, tick);
  const Status written = write_tick(*store, tick + 1);
  ASSERT_TRUE(written) << what << ": " << written.error().text();
  expect_tick(**store->latest(), tick + 1);
}

/// A power cut does not take back a checkpoint that a process read after another was killed.
void expect_lasting(const MemoryFileSystem& files, const std::string& what) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto machine = files.copy();
    auto store = CheckpointStore::open(*machine, "c");
    ASSERT_TRUE(store) << what << ": " << store.error().text();
    const auto given = store->latest();
    ASSERT_TRUE(given) << what << ": " << given.error().text();
    machine->power_cut(seed);
    if (*given) expect_resumable(*machine, (*given)->key.tick, what + ", resumed, power cut " + std::to_string(seed));
  }
}

/// A checkpoint appears under its name whole, and goes in one step too.
void expect_whole(MemoryFileSystem& files, const std::string& what) {
  const auto names = files.list("c");
  for (std::size_t i = 0; names && i < names->size(); ++i) {
    const std::string& name = (*names)[i];
    if (name.substr(0, 5) != "ckpt-" || name.find(".tmp") != std::string::npos) continue;
    EXPECT_EQ(files.list("c/" + name)->size(), 4u) << what << ": " << name;
  }
}

/// Writes of ticks 1 to 4 with a fault in calls `at` to `at` + `more`, for one `at` in `stride`; then the process goes,
/// or the machine.
void try_fault_everywhere(FaultKind kind, std::uint64_t more, std::uint64_t stride) {
  std::uint64_t at = first_struck(stride);
  for (;; at += struck_stride(stride)) {
    MemoryFileSystem memory;
    FaultFileSystem faulty(memory, [&](const std::string& path) { memory.lose_unsynced(path); });
    RecordingFileSystem files(faulty);
    faulty.set({kind, at, at + more});
    std::uint64_t acknowledged = 0;
    {
      auto store = CheckpointStore::open(files, "c");
      for (std::uint64_t tick = 1; store && tick <= 4; ++tick)
        if (write_tick(*store, tick)) acknowledged = tick;
    }
    ASSERT_EQ(files.use_after_failure(), "") << "call " << at;
    memory.process_crash();
    const std::string what = "fault " + std::to_string(static_cast<int>(kind)) + " in call " + std::to_string(at);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto machine = memory.copy();
      machine->power_cut(seed);
      expect_resumable(*machine, acknowledged, what + ", power cut " + std::to_string(seed));
      if (testing::Test::HasFailure()) return;
    }
    if (kind != FaultKind::short_read && kind != FaultKind::wrong_bit) expect_whole(memory, what);
    if (kind == FaultKind::crash) expect_lasting(memory, what);
    expect_resumable(memory, acknowledged, what + ", killed");
    if (testing::Test::HasFailure()) return;
    if (faulty.calls() < at) break;
  }
  EXPECT_GT(at, 100u) << "the faults must have covered four writes";
}

TEST(CheckpointStore, ResumesAfterACrashAtEveryCall) { try_fault_everywhere(FaultKind::crash, 0, 1); }

TEST(CheckpointStore, ResumesAfterAFaultOfAnyKindInAnyCallOrSome) {
  using enum FaultKind;
  for (const FaultKind kind : {no_space, io_error, interrupted, short_write, short_read, wrong_bit, late_error})
    for (const std::uint64_t more : {0, 3}) {
      try_fault_everywhere(kind, more, 3);
      if (HasFailure()) return;
    }
}

TEST(CheckpointStore, AnEarlierCheckpointOutlivesEveryFailedWrite) {
  for (const FaultKind kind : {FaultKind::io_error, FaultKind::no_space, FaultKind::late_error}) {
    for (std::uint64_t at = 1;; ++at) {
      MemoryFileSystem memory;
      FaultFileSystem files(memory, [&](const std::string& path) { memory.lose_unsynced(path); });
      auto store = CheckpointStore::open(files, "c");
      ASSERT_TRUE(write_tick(*store, 1));
      files.set({kind, at});
      const bool is_written = write_tick(*store, 2).has_value();
      const bool is_complete = files.calls() < at;
      files.clear();
      const auto latest = store->latest();
      ASSERT_TRUE(latest && *latest);
      expect_tick(**latest, is_written ? 2 : 1);
      if (is_complete) break;
    }
  }
}

TEST(CheckpointStore, TakesTheSameTickAnewAfterAnyFailedWrite) {
  for (const FaultKind kind : {FaultKind::io_error, FaultKind::short_write, FaultKind::late_error}) {
    for (std::uint64_t at = 1;; ++at) {
      MemoryFileSystem memory;
      FaultFileSystem files(memory);
      auto store = CheckpointStore::open(files, "c");
      ASSERT_TRUE(write_tick(*store, 1));
      files.set({kind, at});
      if (write_tick(*store, 2)) {
        if (files.calls() < at) break;
        continue;
      }
      const Status again = write_tick(*store, 2, 200);
      ASSERT_TRUE(again) << "call " << at << ": " << again.error().text();
      expect_tick(**store->latest(), 2, 200);
    }
  }
}

TEST(CheckpointStore, SyncsFilesThenTheirDirectoryThenRenamesWithTheManifestLast) {
  MemoryFileSystem memory;
  RecordingFileSystem files(memory);
  auto store = CheckpointStore::open(files, "c");
  files.clear();
  ASSERT_TRUE(write_tick(*store, 7));
  std::string text;
  for (const RecordedCall& call : files.calls())
    if (call.operation != FileOperation::read && call.operation != FileOperation::list) {
      RecordedCall plain = call;
      plain.size = 0;
      text += to_string(plain) + "\n";
    }
  const auto whole_file = [](const std::string& name, int n) {
    const std::string number = " #" + std::to_string(n) + " c/ckpt-7.tmp/" + name;
    return "open" + number + (name == "empty" ? "" : "\nwrite" + number + " 0") + "\nsync" + number + "\nclose" +
           number + "\n";
  };
  EXPECT_EQ(text,
            "remove c/ckpt-7.tmp: c/ckpt-7.tmp: cannot remove: No such file or directory\n"
            "make_directory c/ckpt-7.tmp\n" +
                whole_file("state.entity", 1) + whole_file("cursor", 2) + whole_file("empty", 3) +
                whole_file("manifest.json", 4) +
                "sync_directory c/ckpt-7.tmp\nrename c/ckpt-7.tmp c/ckpt-7\nsync_directory c\n");
}

TEST(CheckpointStore, GivesUpADescriptorWhoseSyncFailedAndWithItTheCheckpoint) {
  for (std::uint64_t at = 1; at <= 4; ++at) {
    MemoryFileSystem memory;
    FaultFileSystem faulty(memory);
    RecordingFileSystem files(faulty);
    auto store = CheckpointStore::open(files, "c");
    ASSERT_TRUE(write_tick(*store, 1));
    files.clear();
    faulty.set({FaultKind::io_error, at, at, FileOperation::sync});
    EXPECT_EQ(write_tick(*store, 2).error().code(), Errc::storage);
    EXPECT_EQ(faulty.struck(), 1u);
    EXPECT_EQ(files.use_after_failure(), "");
    EXPECT_EQ(files.calls().back().operation, FileOperation::remove);
    EXPECT_EQ(*memory.list("c"), (std::vector<std::string>{"ckpt-1", "lock"}));
    ASSERT_TRUE(write_tick(*store, 2)) << "written anew, through new descriptors";
    EXPECT_EQ(files.use_after_failure(), "");
    expect_tick(**store->latest(), 2);
  }
}

TEST(CheckpointStore, ReadsBackAndRefusesWhatTheDiskStoredWrongly) {
  std::size_t refused = 0;
  for (std::size_t at = 1;; ++at) {
    MemoryFileSystem memory;
    FaultFileSystem files(memory);
    auto store = CheckpointStore::open(files, "c");
    ASSERT_TRUE(write_tick(*store, 1));
    ASSERT_TRUE(write_tick(*store, 2));
    files.set({FaultKind::wrong_bit, at});
    const Status written = write_tick(*store, 3);
    if (files.calls() < at) break;
    const auto latest = store->latest();
    ASSERT_TRUE(latest && *latest);
    expect_tick(**latest, written ? 3 : 2);
    EXPECT_TRUE((*latest)->skipped.empty());
    if (written) continue;
    ++refused;
    EXPECT_EQ(written.error().code(), Errc::corrupt) << written.error().text();
    EXPECT_EQ(ticks_of(*store), (std::vector<std::uint64_t>{1, 2}));
  }
  EXPECT_EQ(refused, 3u) << "two files with bytes and the manifest";
}

TEST(CheckpointStore, LeavesAResumableDirectoryWhenKilledAtRandomMoments) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/checkpoints";
  RandomStream random(3, 0, RandomPurpose::test);
  std::uint64_t reached = 0;
  for (int round = 0; round < 30; ++round) {
    const auto run = [&](auto promise) {
      auto store = CheckpointStore::open(real_file_system(), path);
      if (!store) ::_exit(1);
      for (std::uint64_t tick = reached + 1;; ++tick) {
        if (!write_tick(*store, tick, 20000)) ::_exit(2);
        promise(tick);
      }
    };
    const std::uint64_t acknowledged = run_until_killed(random, 4, 20000, run);
    auto store = CheckpointStore::open(real_file_system(), path);
    ASSERT_TRUE(store) << store.error().text();
    const auto latest = store->latest();
    ASSERT_TRUE(latest) << latest.error().text();
    ASSERT_TRUE(latest->has_value() || (acknowledged == 0 && reached == 0));
    if (!*latest) continue;
    EXPECT_GE((*latest)->key.tick, std::max(acknowledged, reached));
    expect_tick(**latest, (*latest)->key.tick, 20000);
    reached = (*latest)->key.tick;
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
  {
    auto first = CheckpointStore::open(real_file_system(), path);
    ASSERT_TRUE(write_tick(*first, 1));
  }
  std::filesystem::create_directories(path + "/ckpt-5.tmp");
  std::filesystem::create_directories(path + "/ckpt-x.tmp");
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
  EXPECT_TRUE(std::filesystem::exists(path + "/ckpt-x.tmp"));
}

TEST(CheckpointStore, TouchesNothingWhereOthersKeepFiles) {
  for (const char* name : {"thesis", "ckpt-7/model.pt", "ckpt-9.tmp/half"}) {
    const TemporaryDirectory directory;
    const std::filesystem::path file = std::filesystem::path(directory.path()) / "c" / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "mine";
    const auto store = CheckpointStore::open(real_file_system(), directory.path() + "/c");
    ASSERT_FALSE(store) << name;
    EXPECT_EQ(store.error().code(), Errc::invalid_argument) << store.error().text();
    EXPECT_TRUE(std::filesystem::exists(file)) << name;
    EXPECT_FALSE(std::filesystem::exists(directory.path() + "/c/lock")) << name;
  }
}

TEST(CheckpointStore, LeavesAloneWhatHasItsNamesAndNoManifest) {
  MemoryFileSystem files;
  auto store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(write_tick(*store, 1));
  for (const char* name : {"c/ckpt-0", "c/ckpt-2"}) {
    ASSERT_TRUE(files.make_directory(name));
    ASSERT_TRUE(files.open(std::string(name) + "/model.pt", OpenMode::create));
  }
  *store = *CheckpointStore::open(files, "d");  // lets go of the lock
  store = CheckpointStore::open(files, "c");
  ASSERT_TRUE(store) << store.error().text();
  expect_tick(**store->latest(), 1);
  EXPECT_FALSE(write_tick(*store, 2)) << "its place is taken";
  for (std::uint64_t tick = 3; tick <= 6; ++tick) ASSERT_TRUE(write_tick(*store, tick));
  EXPECT_EQ(ticks_of(*store), (std::vector<std::uint64_t>{5, 6}));
  for (const char* name : {"c/ckpt-0", "c/ckpt-2"})
    EXPECT_EQ(*files.list(name), (std::vector<std::string>{"model.pt"})) << name;
}

TEST(CheckpointStore, NeedsAParentDirectory) {
  const TemporaryDirectory directory;
  EXPECT_EQ(CheckpointStore::open(real_file_system(), directory.path() + "/no/c").error().code(), Errc::not_found);
}

}  // namespace
}  // namespace weft::storage::checkpoint_test
