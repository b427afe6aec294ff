// SPDX-License-Identifier: Apache-2.0

#include "tests/support/memory_file_system.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace weft::storage::memory_file_system_test {
namespace {

std::string get(FileSystem& files, const std::string& path) {
  const auto bytes = files.read(path, 1 << 20);
  return bytes ? std::string(as_text(*bytes)) : "(" + std::string(name(bytes.error().code())) + ")";
}

std::unique_ptr<File> put(FileSystem& files, const std::string& path, std::string_view text,
                          OpenMode mode = OpenMode::create) {
  auto file = files.open(path, mode);
  EXPECT_TRUE(file && (*file)->write(as_bytes(text)));
  return *std::move(file);
}

/// Contents of `path` after power cuts of many seeds, each of a copy.
std::set<std::string> after_power_cuts(const MemoryFileSystem& files, const std::string& path, int seeds = 400) {
  std::set<std::string> seen;
  for (int seed = 0; seed < seeds; ++seed) {
    const auto copy = files.copy();
    copy->power_cut(static_cast<std::uint64_t>(seed));
    seen.insert(get(*copy, path));
  }
  return seen;
}

using Seen = std::set<std::string>;

TEST(MemoryFileSystem, BehavesAsFilesDo) {
  MemoryFileSystem files;
  EXPECT_TRUE(*files.make_directory("d"));
  EXPECT_FALSE(*files.make_directory("/d/"));
  put(files, "d/a", "one");
  put(files, "d/a", "two", OpenMode::append);
  EXPECT_EQ(get(files, "./d//a"), "onetwo");
  EXPECT_FALSE(files.open("d/a", OpenMode::create_new));
  EXPECT_EQ(files.open("e/a", OpenMode::create).error().code(), Errc::not_found);
  EXPECT_EQ(files.open("d", OpenMode::create).error().code(), Errc::storage);
  EXPECT_EQ(files.read("d/a", 5).error().code(), Errc::too_large);
  EXPECT_EQ(files.read("d", 5).error().text(), "d: not a regular file");
  EXPECT_EQ(get(files, "d/b"), "(not_found)");
  put(files, "d/b", "x");
  EXPECT_FALSE(files.remove("d"));
  ASSERT_TRUE(files.rename("d/b", "d/a"));
  EXPECT_EQ(*files.list("d"), std::vector<std::string>{"a"});
  EXPECT_EQ(get(files, "d/a"), "x");
  EXPECT_TRUE(*files.make_directory("e"));
  ASSERT_TRUE(files.rename("d/a", "e/c"));
  EXPECT_EQ(files.all_files(), std::vector<std::string>{"e/c"});
  EXPECT_FALSE(files.rename("d", "e")) << "not empty";
  ASSERT_TRUE(files.rename("e", "d"));
  EXPECT_EQ(get(files, "d/c"), "x");
  ASSERT_TRUE(files.remove("d/c"));
  ASSERT_TRUE(files.remove("d"));
  EXPECT_EQ(files.remove("d").error().code(), Errc::not_found);
  EXPECT_TRUE(files.list(".")->empty());
}

TEST(MemoryFileSystem, KeepsOverAPowerCutWhatWasSyncedAndItsNameToo) {
  MemoryFileSystem files;
  const auto file = put(files, "a", "safe");
  ASSERT_TRUE(file->sync());
  EXPECT_EQ(after_power_cuts(files, "a"), (Seen{"safe", "(not_found)"})) << "the directory was not synced";
  ASSERT_TRUE(files.sync_directory("."));
  EXPECT_EQ(after_power_cuts(files, "a"), Seen{"safe"});
}

TEST(MemoryFileSystem, MayLoseKeepCutOrZeroWhatWasNotSynced) {
  MemoryFileSystem files;
  const auto file = put(files, "a", "safe");
  ASSERT_TRUE(file->sync() && files.sync_directory("."));
  ASSERT_TRUE(file->write(as_bytes("more")));
  EXPECT_EQ(after_power_cuts(files, "a"),
            (Seen{"safe", "safem", "safemo", "safemor", "safemore", std::string("safe\0\0\0\0", 8)}));
}

TEST(MemoryFileSystem, TearsAtSectors) {
  MemoryFileSystem files;
  const auto file = put(files, "a", "");
  ASSERT_TRUE(file->sync() && files.sync_directory("."));
  ASSERT_TRUE(file->write(as_bytes(std::string(512, 'x') + std::string(512, 'y') + "z")));
  const Seen seen = after_power_cuts(files, "a");
  EXPECT_TRUE(seen.contains(std::string(512, '\0') + std::string(512, 'y') + "z"));
  EXPECT_TRUE(seen.contains(std::string(512, 'x') + std::string(512, '\0') + "z"));
  for (const std::string& text : seen)
    for (std::size_t i = 0; i < text.size(); i += 512)
      EXPECT_EQ(std::count(text.begin() + std::ptrdiff_t(i),
                           text.begin() + std::ptrdiff_t(std::min(i + 512, text.size())), text[i]),
                std::ptrdiff_t(std::min<std::size_t>(512, text.size() - i)));
}

TEST(MemoryFileSystem, MayForgetRenamesAndRemovals) {
  MemoryFileSystem files;
  ASSERT_TRUE(put(files, "a", "old")->sync());
  ASSERT_TRUE(put(files, "b", "new")->sync());
  ASSERT_TRUE(files.sync_directory("."));
  ASSERT_TRUE(files.rename("b", "a"));
  EXPECT_EQ(after_power_cuts(files, "a"), (Seen{"old", "new"}));
  ASSERT_TRUE(files.sync_directory("."));
  EXPECT_EQ(after_power_cuts(files, "a"), Seen{"new"});
  EXPECT_EQ(after_power_cuts(files, "b"), Seen{"(not_found)"});
  ASSERT_TRUE(files.remove("a"));
  EXPECT_EQ(after_power_cuts(files, "a"), (Seen{"new", "(not_found)"}));
}

TEST(MemoryFileSystem, BringsNothingBackThatAFailedSyncLost) {
  MemoryFileSystem files;
  const auto file = put(files, "a", "safe");
  ASSERT_TRUE(file->sync() && files.sync_directory("."));
  ASSERT_TRUE(file->write(as_bytes("lost")));
  files.lose_unsynced("a");
  EXPECT_EQ(get(files, "a"), "safelost") << "the cache still shows it";
  ASSERT_TRUE(file->write(as_bytes("more")));
  ASSERT_TRUE(file->sync());
  const Seen seen = after_power_cuts(files, "a");
  EXPECT_TRUE(seen.contains(std::string("safe\0\0\0\0more", 12)));
  for (const std::string& text : seen) EXPECT_EQ(text.substr(0, 4) + text.substr(8), "safemore");
  put(files, "b", "x");
  files.lose_unsynced(".");
  ASSERT_TRUE(files.sync_directory("."));
  EXPECT_EQ(after_power_cuts(files, "b").count("(not_found)"), 1u);
}

TEST(MemoryFileSystem, VoidsFilesAndFreesLocksWhenTheProcessGoes) {
  MemoryFileSystem files;
  const auto file = put(files, "a", "written");
  auto lock = files.lock("lock");
  ASSERT_TRUE(lock);
  EXPECT_EQ(files.lock("lock").error().text(), "lock: in use by another process");
  files.process_crash();
  EXPECT_EQ(get(files, "a"), "written");
  EXPECT_FALSE(file->write(as_bytes("x")));
  EXPECT_FALSE(file->sync());
  const auto second = files.lock("lock");
  ASSERT_TRUE(second);
  lock->reset();
  EXPECT_FALSE(files.lock("lock")) << "the dead holder's end frees nothing";
}

TEST(MemoryFileSystem, DamagesAsAsked) {
  MemoryFileSystem files;
  ASSERT_TRUE(put(files, "a", "abc")->sync() && files.sync_directory("."));
  EXPECT_TRUE(files.flip_bit("a", 9));
  EXPECT_FALSE(files.flip_bit("a", 24));
  EXPECT_EQ(get(files, "a"), "a`c");
  EXPECT_TRUE(files.resize("a", 2));
  EXPECT_EQ(after_power_cuts(files, "a", 20), Seen{"a`"});
  const auto copy = files.copy();
  put(*copy, "a", "other");
  EXPECT_EQ(get(files, "a"), "a`");
}

}  // namespace
}  // namespace weft::storage::memory_file_system_test
