// SPDX-License-Identifier: Apache-2.0

#include "formats/durable.hpp"

#include <gtest/gtest.h>

#include "crash_file_system.hpp"
#include "temporary_directory.hpp"

namespace weft::formats {
namespace {

using Fault = CrashFileSystem::Fault;

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
  for (const Fault fault : {Fault::crash, Fault::fail}) {
    std::size_t at = 1;
    for (bool has_struck = true; has_struck; ++at) {
      CrashFileSystem files;
      ASSERT_TRUE(files.make_directory("d"));
      ASSERT_TRUE(files.sync_directory("."));
      ASSERT_TRUE(write_file_durably(files, "d/model", as_bytes("old content")));
      files.arm(fault, at);
      const bool is_written = write_file_durably(files, "d/model", as_bytes("new, longer content")).has_value();
      has_struck = files.has_struck();
      for (std::uint64_t seed = 0; seed < 50; ++seed) {
        RandomStream random(seed, at, RandomPurpose::test);
        const std::string after = content(*files.after_power_cut(random), "d/model");
        EXPECT_TRUE(after == "new, longer content" || (!is_written && after == "old content"))
            << "operation " << at << ", power cut " << seed << ": " << after;
      }
    }
    EXPECT_GE(at, 7u) << "open, write, sync, close, rename, sync of the directory";
  }
}

}  // namespace
}  // namespace weft::formats
