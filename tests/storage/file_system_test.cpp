// SPDX-License-Identifier: Apache-2.0

#include "storage/file_system.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <unistd.h>

#include "tests/support/temporary_directory.hpp"
#include <csignal>
#include <thread>

namespace weft::storage::file_system_test {
namespace {

FileSystem& files() { return real_file_system(); }

Status put(const std::string& path, std::string_view text, OpenMode mode = OpenMode::create) {
  WEFT_TRY(const auto file, files().open(path, mode));
  WEFT_CHECK(file->write(as_bytes(text)));
  WEFT_CHECK(file->sync());
  return file->close();
}

std::string get(const std::string& path) {
  const auto bytes = files().read(path, 1 << 30);
  return bytes ? std::string(as_text(*bytes)) : bytes.error().text();
}

TEST(RealFileSystem, CreatesAppendsReplacesAndReads) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/a";
  ASSERT_TRUE(put(path, "one"));
  ASSERT_TRUE(put(path, "two", OpenMode::append));
  EXPECT_EQ(get(path), "onetwo");
  ASSERT_TRUE(put(path, "x"));
  EXPECT_EQ(get(path), "x");
  EXPECT_FALSE(put(path, "y", OpenMode::create_new));
  EXPECT_EQ(get(path), "x");
  ASSERT_TRUE(put(path, ""));
  EXPECT_EQ(get(path), "");
}

TEST(RealFileSystem, ListsRenamesAndRemoves) {
  const TemporaryDirectory directory;
  const std::string root = directory.path();
  EXPECT_TRUE(*files().make_directory(root + "/d"));
  EXPECT_FALSE(*files().make_directory(root + "/d"));
  ASSERT_TRUE(put(root + "/d/z", "1"));
  ASSERT_TRUE(put(root + "/d/a", "2"));
  EXPECT_EQ(*files().list(root + "/d"), (std::vector<std::string>{"a", "z"}));
  ASSERT_TRUE(files().rename(root + "/d/a", root + "/d/z"));
  EXPECT_EQ(get(root + "/d/z"), "2");
  EXPECT_FALSE(files().remove(root + "/d")) << "not empty";
  ASSERT_TRUE(files().rename(root + "/d", root + "/e"));
  ASSERT_TRUE(files().sync_directory(root));
  ASSERT_TRUE(files().remove(root + "/e/z"));
  ASSERT_TRUE(files().remove(root + "/e"));
  EXPECT_TRUE(files().list(root)->empty());
}

TEST(RealFileSystem, NamesPathAndReason) {
  const TemporaryDirectory directory;
  const std::string gone = directory.path() + "/gone", file = directory.path() + "/file";
  ASSERT_TRUE(put(file, "0123456789"));
  EXPECT_EQ(files().read(gone, 10).error().text(), gone + ": cannot open: No such file or directory");
  EXPECT_EQ(files().read(gone, 10).error().code(), Errc::not_found);
  EXPECT_EQ(files().read(directory.path(), 10).error().text(), directory.path() + ": not a regular file");
  EXPECT_EQ(files().read(file, 9).error().code(), Errc::too_large);
  EXPECT_TRUE(files().read(file, 10));
  EXPECT_EQ(files().list(gone).error().code(), Errc::not_found);
  EXPECT_EQ(files().remove(gone).error().code(), Errc::not_found);
  EXPECT_EQ(files().rename(gone, file).error().code(), Errc::not_found);
  EXPECT_EQ(files().open(gone + "/x", OpenMode::create).error().code(), Errc::not_found);
  EXPECT_EQ(files().make_directory(file).error().code(), Errc::storage);
  EXPECT_EQ(files().sync_directory(gone).error().code(), Errc::not_found);
}

TEST(RealFileSystem, DoesNotHangOnAFifo) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(files().read(path, 10).error().text(), path + ": not a regular file");
}

TEST(RealFileSystem, RefusesToUseAFileAfterItFailedOrWasClosed) {
  // /dev/full takes an open and refuses every write with no space left.
  const auto full = files().open("/dev/full", OpenMode::append);
  ASSERT_TRUE(full) << full.error().text();
  const Status first = (*full)->write(as_bytes("x"));
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().text(), "/dev/full: cannot write: No space left on device");
  EXPECT_FALSE((*full)->sync());
  EXPECT_FALSE((*full)->close());
  const TemporaryDirectory directory;
  const auto file = files().open(directory.path() + "/a", OpenMode::create);
  ASSERT_TRUE((*file)->close());
  EXPECT_FALSE((*file)->write(as_bytes("x")));
  EXPECT_FALSE((*file)->close());
}

TEST(RealFileSystem, ResumesShortAndInterruptedWrites) {
  // A pipe takes what it has room for and a signal breaks the wait: both show as short writes or EINTR.
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  struct sigaction action {};
  action.sa_handler = [](int) {};  // without SA_RESTART
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  const std::string text(3'000'000, 'w');
  std::string got;
  std::thread reader([&] {
    FILE* in = std::fopen(path.c_str(), "r");
    std::vector<char> buffer(70'001);
    while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), in)) {
      got.append(buffer.data(), size);
      ::usleep(500);
    }
    std::fclose(in);
  });
  const pthread_t writer = ::pthread_self();
  std::atomic<bool> is_done = false;
  std::thread interrupter([&] {
    while (!is_done) {
      ::pthread_kill(writer, SIGUSR1);
      ::usleep(300);
    }
  });
  Status status;
  {
    const auto file = files().open(path, OpenMode::append);
    status = file ? (*file)->write(as_bytes(text)) : Status(fail(file.error()));
  }
  is_done = true;
  interrupter.join();
  reader.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(got, text);
}

TEST(RealFileSystem, LocksUntilTheHolderGoes) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/lock";
  auto lock = files().lock(path);
  ASSERT_TRUE(lock);
  EXPECT_EQ(files().lock(path).error().text(), path + ": in use by process " + std::to_string(::getpid()));
  lock->reset();
  EXPECT_TRUE(files().lock(path));
}

TEST(ParentPath, StripsTheLastName) {
  EXPECT_EQ(parent_path("a/b/c"), "a/b");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("a//b"), "a");
  EXPECT_EQ(parent_path("a"), ".");
  EXPECT_EQ(parent_path("a/"), ".");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("/"), "/");
  EXPECT_EQ(parent_path(""), ".");
}

}  // namespace
}  // namespace weft::storage::file_system_test
