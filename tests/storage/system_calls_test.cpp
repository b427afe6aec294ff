// SPDX-License-Identifier: Apache-2.0

#include "storage/internal/system_calls.hpp"

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <cerrno>
#include <map>

namespace weft::storage::system_calls_test {
namespace {

/// Behaviour of the calls below, and the calls made on each descriptor.
struct Script {
  int interruptions = 0;              // of each call before it is done
  std::size_t most_bytes = SIZE_MAX;  // that one read or write carries
  std::int64_t capacity = INT64_MAX;  // bytes that may yet be written
  int fsync_error = 0;
  bool writes_nothing = false;
  std::map<int, int> fsyncs, writes_after_failure;
  std::map<int, bool> has_failed;
  int interrupted = 0, calls = 0;
};
Script script;

/// True when this call is to be interrupted instead.
bool interrupt() {
  ++script.calls;
  if (script.interrupted++ < script.interruptions) return errno = EINTR, true;
  script.interrupted = 0;
  return false;
}

constexpr SystemCalls kScripted = {
    .open = [](const char* path, int flags,
               mode_t mode) { return interrupt() ? -1 : real_system_calls().open(path, flags, mode); },
    .read =
        [](int fd, void* bytes, std::size_t size) {
          return interrupt() ? ssize_t{-1} : real_system_calls().read(fd, bytes, std::min(size, script.most_bytes));
        },
    .write = [](int fd, const void* bytes, std::size_t size) -> ssize_t {
      script.writes_after_failure[fd] += script.has_failed[fd];
      if (interrupt()) return -1;
      if (script.writes_nothing) return 0;
      const auto capacity = static_cast<std::size_t>(std::max<std::int64_t>(script.capacity, 0));
      if (capacity == 0) return script.has_failed[fd] = true, errno = ENOSPC, -1;
      const ssize_t done = real_system_calls().write(fd, bytes, std::min({size, script.most_bytes, capacity}));
      script.capacity -= done;
      return done;
    },
    .fsync =
        [](int fd) {
          ++script.calls;
          ++script.fsyncs[fd];
          if (script.fsync_error) return errno = script.fsync_error, -1;
          return real_system_calls().fsync(fd);
        },
    .close = [](int fd) { return real_system_calls().close(fd); }};

struct Fixture : testing::Test {
  Fixture() { script = {}; }
  std::string path() const { return directory.path() + "/a"; }
  const TemporaryDirectory directory;
  const std::unique_ptr<FileSystem> files = make_posix_file_system(kScripted);
};
using PosixFileSystem = Fixture;

const std::string kText = [] {
  std::string text(10'007, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i * i % 23);
  return text;
}();

TEST_F(PosixFileSystem, FinishesShortAndInterruptedReadsAndWrites) {
  for (const std::size_t most : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, SIZE_MAX}) {
    for (const int interruptions : {0, 1, 3}) {
      script = {};
      script.most_bytes = most;
      script.interruptions = interruptions;
      const auto file = files->open(path(), OpenMode::create);
      ASSERT_TRUE(file) << file.error().text();
      ASSERT_TRUE((*file)->write(as_bytes(kText)));
      ASSERT_TRUE((*file)->sync());
      ASSERT_TRUE((*file)->close());
      EXPECT_EQ(as_text(*real_file_system().read(path(), 1 << 20)), kText) << most << ", " << interruptions;
      const auto read = files->read(path(), 1 << 20);
      ASSERT_TRUE(read) << read.error().text();
      EXPECT_EQ(as_text(*read), kText) << most << ", " << interruptions;
      const auto pieces = static_cast<int>((kText.size() + most - 1) / std::min(most, kText.size()));
      EXPECT_GE(script.calls, 2 * std::min<int>(pieces, 10'007) * (interruptions + 1)) << "the script was followed";
      ASSERT_TRUE(files->sync_directory(directory.path()));
      ASSERT_TRUE(files->lock(directory.path() + "/lock"));
    }
  }
}

TEST_F(PosixFileSystem, StopsAtTheByteWhereTheDiskIsFullAndIsNotUsedAgain) {
  for (const std::int64_t capacity : {0, 1, 4096, 10'006}) {
    script = {};
    script.capacity = capacity;
    script.most_bytes = 1000;
    script.interruptions = 1;
    const auto file = files->open(path(), OpenMode::create);
    const Status written = (*file)->write(as_bytes(kText));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().text(), path() + ": cannot write: No space left on device");
    EXPECT_EQ(real_file_system().read(path(), 1 << 20)->size(), static_cast<std::size_t>(capacity));
    script.capacity = INT64_MAX;
    EXPECT_FALSE((*file)->write(as_bytes("x")));
    EXPECT_FALSE((*file)->sync());
    for (const auto& [fd, count] : script.writes_after_failure) EXPECT_EQ(count, 0) << "descriptor " << fd;
    EXPECT_TRUE(script.fsyncs.empty());
  }
}

TEST_F(PosixFileSystem, NeverSyncsADescriptorAgainThatFailedNotEvenWhenInterrupted) {
  for (const int error : {EIO, ENOSPC, EINTR}) {
    script = {};
    script.fsync_error = error;
    const auto file = files->open(path(), OpenMode::create);
    ASSERT_TRUE((*file)->write(as_bytes(kText)));
    EXPECT_EQ((*file)->sync().error().code(), Errc::storage);
    script.fsync_error = 0;
    EXPECT_FALSE((*file)->sync());
    EXPECT_FALSE((*file)->write(as_bytes(kText)));
    EXPECT_FALSE((*file)->close());
    ASSERT_EQ(script.fsyncs.size(), 1u);
    EXPECT_EQ(script.fsyncs.begin()->second, 1);
    script = {};
    script.fsync_error = error;
    EXPECT_FALSE(files->sync_directory(directory.path()));
    EXPECT_EQ(script.fsyncs.begin()->second, 1);
  }
}

TEST_F(PosixFileSystem, DoesNotSpinOnAWriteOfNothing) {
  script.writes_nothing = true;
  const auto file = files->open(path(), OpenMode::create);
  EXPECT_EQ((*file)->write(as_bytes(kText)).error().text(), path() + ": cannot write: Input/output error");
}

TEST(SystemCalls, AFileThatGrowsMeanwhileIsReadAsFarAsItWentOrNotAtAll) {
  static std::string path;
  const TemporaryDirectory directory;
  path = directory.path() + "/growing";
  SystemCalls calls = real_system_calls();
  calls.read = [](int fd, void* bytes, std::size_t size) {
    auto more = real_file_system().open(path, OpenMode::append);
    EXPECT_TRUE(more && (*more)->write(as_bytes("more")));
    return real_system_calls().read(fd, bytes, size);
  };
  const auto files = make_posix_file_system(calls);
  auto file = real_file_system().open(path, OpenMode::create);
  ASSERT_TRUE(file && (*file)->write(as_bytes("begun")));
  const auto so_far = files->read_so_far(path, 100);
  ASSERT_TRUE(so_far) << so_far.error().text();
  EXPECT_EQ(as_text(*so_far), "begun");
  const auto whole = files->read(path, 100);
  ASSERT_FALSE(whole);
  EXPECT_NE(whole.error().text().find("grew while it was read"), std::string::npos) << whole.error().text();
}

}  // namespace
}  // namespace weft::storage::system_calls_test
