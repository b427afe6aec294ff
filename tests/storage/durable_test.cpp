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

}  // namespace
}  // namespace weft::storage::durable_test
