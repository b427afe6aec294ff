// SPDX-License-Identifier: Apache-2.0

#include "core/log.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace weft::log_test {
namespace {

class LogFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = std::filesystem::temp_directory_path() / "weft-log-XXXXXX";
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    folder = made;
    set_log_level(LogLevel::off);
  }
  void TearDown() override {
    set_log_file("");
    set_log_level(LogLevel::warn);
    std::filesystem::remove_all(folder);
  }
  static std::string read(const std::filesystem::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::filesystem::path folder;
};

TEST_F(LogFile, TakesLinesFromInfoOnAtItsEnd) {
  std::ofstream(folder / "log") << "what was there\n";
  set_log_file(folder / "log");
  log(LogLevel::debug, "too small");
  log_info("one");
  log_error("two");
  const std::string text = read(folder / "log");
  EXPECT_EQ(text.find("what was there\n"), 0u);
  EXPECT_EQ(text.find("too small"), std::string::npos);
  EXPECT_NE(text.find("] info: one\n"), std::string::npos) << text;
  EXPECT_NE(text.find("weft[" + std::to_string(getpid()) + "] error: two\n"), std::string::npos) << text;
  set_log_file("");
  log_error("three");
  EXPECT_EQ(read(folder / "log"), text);
}

TEST_F(LogFile, IsOpenedAnewByItsName) {
  set_log_file(folder / "log");
  log_info("before");
  std::filesystem::rename(folder / "log", folder / "log.1");
  log_info("still the renamed one");
  EXPECT_FALSE(std::filesystem::exists(folder / "log"));
  reopen_log_file();
  log_info("after");
  EXPECT_NE(read(folder / "log.1").find("still the renamed one"), std::string::npos);
  EXPECT_EQ(read(folder / "log.1").find("after"), std::string::npos);
  EXPECT_NE(read(folder / "log").find("after"), std::string::npos);
}

TEST_F(LogFile, ThatCannotBeOpenedIsToldOfOnceAndNothingStops) {
  testing::internal::CaptureStderr();
  set_log_file(folder / "missing" / "log");
  log_error("one");
  log_error("two");
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(told.find("weft: warning: log " + (folder / "missing" / "log").string() + ": cannot be opened: "), 0u)
      << told;
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
  std::filesystem::create_directory(folder / "missing");
  reopen_log_file();
  log_error("three");
  EXPECT_NE(read(folder / "missing" / "log").find("three"), std::string::npos);
}

TEST_F(LogFile, ThatCannotBeWrittenIsToldOfOnce) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  testing::internal::CaptureStderr();
  set_log_file("/dev/full");
  for (int i = 0; i < 10; ++i) log_error("lost");
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("log /dev/full: cannot be written: No space left on device"), std::string::npos) << told;
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
}

TEST_F(LogFile, KeepsLinesWholeWhileItIsOpenedAnewUnderWriters) {
  set_log_file(folder / "log");
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer)
    writers.emplace_back([] {
      for (int i = 0; i < 200; ++i) log_info("0123456789");
    });
  for (int i = 0; i < 50; ++i) reopen_log_file();
  for (std::thread& writer : writers) writer.join();
  std::ifstream in(folder / "log");
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) EXPECT_TRUE(line.ends_with(" info: 0123456789")) << line;
  EXPECT_EQ(lines, 800);
}

}  // namespace
}  // namespace weft::log_test
