// SPDX-License-Identifier: Apache-2.0

#include "tests/support/fault_file_system.hpp"

#include <gtest/gtest.h>

#include "tests/support/memory_file_system.hpp"
#include "tests/support/recording_file_system.hpp"

namespace weft::storage::fault_file_system_test {
namespace {

struct Fixture : testing::Test {
  std::string get(const std::string& path) {
    const auto bytes = memory.read(path, 1 << 20);
    return bytes ? std::string(as_text(*bytes)) : "(" + std::string(name(bytes.error().code())) + ")";
  }
  /// open, write, sync, close, sync of the directory; the error of the first that failed.
  std::string put(const std::string& path, std::string_view text) {
    const auto all = [&]() -> Status {
      WEFT_TRY(const auto file, files.open(path, OpenMode::create));
      WEFT_CHECK(file->write(as_bytes(text)));
      WEFT_CHECK(file->sync());
      WEFT_CHECK(file->close());
      return files.sync_directory(".");
    };
    const Status status = all();
    return status ? "" : status.error().text();
  }
  MemoryFileSystem memory;
  FaultFileSystem faulty{memory, [this](const std::string& path) { memory.lose_unsynced(path); }};
  RecordingFileSystem files{faulty};
};
using FaultFileSystemTest = Fixture;

TEST_F(FaultFileSystemTest, PassesAllOnWithoutAFault) {
  EXPECT_EQ(put("a", "text"), "");
  EXPECT_EQ(get("a"), "text");
  EXPECT_EQ(as_text(*files.read("a", 10)), "text");
  EXPECT_TRUE(*files.make_directory("d"));
  EXPECT_FALSE(*files.make_directory("d"));
  EXPECT_TRUE(files.rename("a", "d/b"));
  EXPECT_EQ(files.list("d")->size(), 1u);
  EXPECT_TRUE(files.lock("lock"));
  EXPECT_TRUE(files.remove("d/b"));
  EXPECT_EQ(faulty.calls(), 12u);
  EXPECT_EQ(faulty.struck(), 0u);
}

TEST_F(FaultFileSystemTest, FailsTheCallsAskedForAndNoOther) {
  for (std::uint64_t n = 1; n <= 5; ++n) {
    faulty.set({FaultKind::no_space, n});
    static const std::string kErrors[] = {"a: cannot open", "a: cannot write", "a: cannot sync", "a: cannot close",
                                          ".: cannot sync_directory"};
    EXPECT_EQ(put("a", "text"), kErrors[n - 1] + ": No space left on device (injected)");
    EXPECT_EQ(faulty.calls(), n);
    EXPECT_EQ(faulty.struck(), 1u);
    EXPECT_EQ(put("a", "text"), "") << "the disk has room again";
  }
  faulty.set({FaultKind::io_error, 6});
  EXPECT_EQ(put("a", "text"), "");
  EXPECT_EQ(faulty.calls(), 5u) << "no sixth call: the run is complete";
  faulty.set({FaultKind::io_error, 2, 3, FileOperation::open});
  EXPECT_EQ(put("a", "text"), "");
  EXPECT_NE(put("a", "text"), "");
  EXPECT_NE(put("a", "text"), "");
  EXPECT_EQ(put("a", "text"), "");
  faulty.set({FaultKind::io_error});
  faulty.clear();
  EXPECT_EQ(put("a", "text"), "");
}

TEST_F(FaultFileSystemTest, WritesHalfOrWronglyAndReadsShort) {
  faulty.set({FaultKind::short_write, 1, 1, FileOperation::write});
  EXPECT_EQ(put("a", "text"), "a: cannot write: Short write (injected)");
  EXPECT_EQ(get("a"), "te");
  faulty.set({FaultKind::short_write, 1});
  EXPECT_EQ(put("a", "text"), "") << "an open cannot be short";
  faulty.set({FaultKind::wrong_bit, 2});
  EXPECT_EQ(put("a", "text"), "");
  EXPECT_EQ(get("a"), "te|t");
  EXPECT_EQ(faulty.struck(), 1u);
  faulty.set({FaultKind::short_read, 1});
  EXPECT_EQ(as_text(*files.read("a", 10)), "te");
  EXPECT_EQ(as_text(*files.read("a", 10)), "te|t");
  faulty.set({FaultKind::late_error, 1});
  EXPECT_FALSE(files.remove("a"));
  EXPECT_EQ(get("a"), "(not_found)");
}

TEST_F(FaultFileSystemTest, LetsNothingThroughAfterACrash) {
  faulty.set({FaultKind::crash, 2});
  EXPECT_EQ(put("a", "text"), "a: cannot write: The process is gone (injected)");
  EXPECT_EQ(get("a"), "te") << "it went in the middle of the write";
  EXPECT_NE(put("a", "more"), "");
  EXPECT_FALSE(files.remove("a"));
  EXPECT_FALSE(files.read("a", 10));
  EXPECT_EQ(get("a"), "te");
}

TEST_F(FaultFileSystemTest, TellsOfAFailedSync) {
  faulty.set({FaultKind::io_error, 3});
  EXPECT_NE(put("a", "text"), "");
  const auto again = memory.open("a", OpenMode::append);
  ASSERT_TRUE((*again)->sync() && memory.sync_directory("."));
  bool is_lost = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto copy = memory.copy();
    copy->power_cut(seed);
    is_lost |= as_text(*copy->read("a", 10)) != "text";
  }
  EXPECT_TRUE(is_lost) << "a later sync must not bring it back";
}

TEST_F(FaultFileSystemTest, IsRecordedCallByCall) {
  faulty.set({FaultKind::io_error, 3});
  (void)put("a", "text");
  std::string text;
  for (const RecordedCall& call : files.calls()) text += to_string(call) + "\n";
  EXPECT_EQ(text, "open #1 a\nwrite #1 a 4\nsync #1 a: a: cannot sync: Input/output error (injected)\n");
  EXPECT_EQ(files.use_after_failure(), "");
  const auto file = files.open("b", OpenMode::create);
  faulty.set({FaultKind::no_space});
  EXPECT_FALSE((*file)->write(as_bytes("x")));
  EXPECT_TRUE((*file)->sync());
  EXPECT_EQ(files.use_after_failure(), "sync #2 b");
  ASSERT_TRUE(files.rename("b", "c"));
  EXPECT_EQ(to_string(files.calls().back()), "rename b c");
  files.clear();
  EXPECT_TRUE(files.calls().empty());
}

}  // namespace
}  // namespace weft::storage::fault_file_system_test
