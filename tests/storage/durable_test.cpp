// SPDX-License-Identifier: Apache-2.0

#include "storage/durable.hpp"

#include <gtest/gtest.h>

#include "tests/support/fault_file_system.hpp"
#include "tests/support/memory_file_system.hpp"
#include "tests/support/temporary_directory.hpp"

namespace weft::storage::durable_test {
namespace {

std::string content(FileSystem& files, const std::string& path) {
  const auto bytes = files.read(path, 1 << 20);
  return bytes ? std::string(as_text(*bytes)) : "(" + std::string(name(bytes.error().code())) + ")";
}

TEST(WriteFileDurably, ReplacesAFileAndLeavesNothingBeside) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/model";
  ASSERT_TRUE(write_file_durably(real_file_system(), path, as_bytes("old")));
  ASSERT_TRUE(write_file_durably(real_file_system(), path, as_bytes("new")));
  EXPECT_EQ(content(real_file_system(), path), "new");
  EXPECT_EQ(real_file_system().list(directory.path())->size(), 1u);
  EXPECT_EQ(write_file_durably(real_file_system(), directory.path() + "/no/model", as_bytes("x")).error().code(),
            Errc::not_found);
}

TEST(WriteFileDurably, LeavesOldOrNewAfterAFaultAtEveryOperationAndAPowerCut) {
  using enum FaultKind;
  for (const FaultKind kind : {crash, no_space, io_error, interrupted, short_write, late_error}) {
    std::uint64_t at = 1;
    for (;; ++at) {
      MemoryFileSystem memory;
      FaultFileSystem files(memory, [&](const std::string& path) { memory.lose_unsynced(path); });
      ASSERT_TRUE(files.make_directory("d"));
      ASSERT_TRUE(files.sync_directory("."));
      ASSERT_TRUE(write_file_durably(files, "d/model", as_bytes("old content")));
      files.set({kind, at});
      const bool is_written = write_file_durably(files, "d/model", as_bytes("new, longer content")).has_value();
      for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const auto machine = memory.copy();
        machine->power_cut(seed);
        const std::string after = content(*machine, "d/model");
        EXPECT_TRUE(after == "new, longer content" || (!is_written && after == "old content"))
            << "operation " << at << ", power cut " << seed << ": " << after;
      }
      if (files.calls() < at) break;
    }
    EXPECT_EQ(at, 7u) << "open, write, sync, close, rename, sync of the directory";
  }
}

/// Contents of a set's places: "old", "new", or what else there is.
std::string set_in(FileSystem& files) {
  std::string all;
  for (const char* const path : {"d/a", "d/b", "d/last", "d/stale"}) all += content(files, path) + " ";
  return all;
}

TEST(ReplaceFilesDurably, PutsOldFilesBackAfterAFaultAtEveryOperation) {
  using enum FaultKind;
  const std::string old = "old old old old ", gone = "(not_found)";
  for (const bool stale_last : {false, true})
    for (const FaultKind kind : {no_space, io_error, interrupted, short_write, late_error, crash}) {
      std::size_t put_back = 0;
      for (std::uint64_t at = 1;; ++at) {
        MemoryFileSystem memory;
        FaultFileSystem files(memory);
        ASSERT_TRUE(files.make_directory("d"));
        ASSERT_TRUE(files.sync_directory("."));
        for (const char* const path : {"d/a", "d/b", "d/last", "d/stale"})
          ASSERT_TRUE(write_file_durably(files, path, as_bytes("old")));
        const FileSet set{
            {{"d/a", as_bytes("new")}, {"d/b", as_bytes("new")}, {"d/last", as_bytes("new")}}, {"d/stale"}, stale_last};
        files.set({kind, at});
        const Status replaced = replace_files_durably(files, set);
        const bool is_struck = files.calls() >= at;
        const std::string now = set_in(memory);
        SCOPED_TRACE(std::to_string(at) + ": " + now);
        const bool is_new = now.starts_with("new new new ");
        if (replaced) {
          EXPECT_EQ(now, "new new new " + gone + " ");
          EXPECT_EQ(memory.all_files().size(), 3u);
        } else if (kind == crash) {
          EXPECT_TRUE(is_new || now == old || content(memory, "d/last") == gone);
        } else {
          EXPECT_TRUE(now == old || is_new) << replaced.error().text();
          put_back += now == old;
        }
        for (std::uint64_t seed = 0; seed < 10 && (replaced || kind == crash); ++seed) {
          const auto machine = memory.copy();
          machine->power_cut(seed);
          const std::string after = set_in(*machine);
          EXPECT_TRUE(after.starts_with("new new new ") || after == old || content(*machine, "d/last") == gone)
              << seed << ": " << after;
        }
        if (!is_struck) break;
      }
      if (kind != crash && kind != short_write) EXPECT_GE(put_back, 20u) << "writing, and nine steps after it";
    }
}

TEST(ReplaceFilesDurably, SaysWhereOldFilesAreThatCannotBePutBack) {
  MemoryFileSystem memory;
  FaultFileSystem files(memory);
  ASSERT_TRUE(files.make_directory("d"));
  for (const char* const path : {"d/a", "d/last"}) ASSERT_TRUE(write_file_durably(files, path, as_bytes("old")));
  files.set({.kind = FaultKind::io_error, .first = 4, .last = 100, .only = FileOperation::rename});
  const Status replaced = replace_files_durably(files, {{{"d/a", as_bytes("new")}, {"d/last", as_bytes("new")}}, {}});
  ASSERT_FALSE(replaced);
  EXPECT_NE(replaced.error().text().find("could not be put back"), std::string::npos) << replaced.error().text();
  EXPECT_EQ(content(memory, "d/last"), "(not_found)") << "what is there is no model";
  std::size_t olds = 0;
  for (const std::string& path : memory.all_files()) olds += content(memory, path) == "old";
  EXPECT_EQ(olds, 2u);
}

}  // namespace
}  // namespace weft::storage::durable_test
