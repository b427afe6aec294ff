// SPDX-License-Identifier: Apache-2.0

#include "storage/mapped_file.hpp"

#include "formats/entity/entity.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/temporary_directory.hpp"
#include <atomic>
#include <fstream>
#include <numeric>
#include <thread>

namespace weft::storage::mapped_file_test {
namespace {

constexpr std::size_t kSize = std::size_t{8} << 20;

std::string write(const TemporaryDirectory& directory, std::size_t size) {
  const std::string path = directory.path() + "/f";
  std::vector<char> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 24);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(size));
  return path;
}

std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

unsigned sum(ByteSpan bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0u,
                         [](unsigned all, std::byte b) { return all * 31 + std::to_integer<unsigned>(b); });
}

/// Reads it all, whatever the compiler thinks of that.
void touch(ByteSpan bytes) {
  volatile unsigned sink = sum(bytes);
  (void)sink;
}

TEST(MappedFile, HoldsWhatReadingGives) {
  const TemporaryDirectory directory;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20, kSize + 123}) {
    const std::string path = write(directory, size);
    const auto mapped = real_file_system().map(path, kSize * 2);
    ASSERT_TRUE(mapped) << mapped.error().text();
    EXPECT_EQ(mapped->is_mapped(), size >= std::size_t{1} << 20) << "small files are copied";
    EXPECT_EQ(mapped->size(), size);
    EXPECT_EQ(sum(mapped->bytes()), sum(*real_file_system().read(path, kSize * 2)));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapped->bytes().data()) % 64, 0u);
    mapped->forget(mapped->bytes());
    EXPECT_EQ(sum(mapped->bytes()), sum(*real_file_system().read(path, kSize * 2))) << "forgotten pages come again";
    EXPECT_TRUE(mapped->intact());
  }
}

TEST(MappedFile, RefusesWhatReadingRefuses) {
  const TemporaryDirectory directory;
  const std::string path = write(directory, kSize);
  EXPECT_EQ(real_file_system().map(path, kSize - 1).error().code(), Errc::too_large);
  EXPECT_EQ(real_file_system().map(path + "x", kSize).error().code(), Errc::not_found);
  EXPECT_EQ(real_file_system().map(directory.path(), kSize).error().code(), Errc::storage);
  EXPECT_EQ(real_file_system().map("/dev/zero", kSize).error().code(), Errc::storage);
}

TEST(MappedFile, OutlivesItsFileAndItsCopies) {
  const TemporaryDirectory directory;
  const std::string path = write(directory, kSize);
  std::optional<MappedFile> kept;
  {
    const auto mapped = real_file_system().map(path, kSize);
    ASSERT_TRUE(mapped);
    kept = *mapped;
  }
  const unsigned before = sum(kept->bytes());
  std::filesystem::remove(path);
  kept->forget(kept->bytes());
  EXPECT_EQ(sum(kept->bytes()), before);
}

TEST(MappedFile, SaysWhereAFileWasCutShort) {
  const TemporaryDirectory directory;
  for (const std::size_t left : {std::size_t{0}, page(), kSize / 2 + 1, kSize - page()}) {
    const std::string path = write(directory, kSize);
    const auto mapped = real_file_system().map(path, kSize);
    ASSERT_TRUE(mapped && mapped->is_mapped());
    std::filesystem::resize_file(path, left);
    touch(mapped->bytes());
    const Status intact = mapped->intact();
    ASSERT_FALSE(intact) << left;
    EXPECT_EQ(intact.error().code(), Errc::storage);
    const std::size_t first_gone = (left + page() - 1) / page() * page();
    EXPECT_EQ(intact.error().text(), path + ": cannot be read at byte " + std::to_string(first_gone) + " of " +
                                         std::to_string(kSize) +
                                         ": it was cut short while it was in use, or the disk failed");
    EXPECT_FALSE(mapped->intact()) << "and it stays so";
  }
}

TEST(MappedFile, TellsThreadsApart) {
  const TemporaryDirectory whole_directory, cut_directory;
  const std::string whole_path = write(whole_directory, kSize), cut_path = write(cut_directory, kSize);
  const unsigned expected = sum(*real_file_system().read(whole_path, kSize));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const auto whole = real_file_system().map(whole_path, kSize);
        const auto cut = real_file_system().map(cut_path, kSize);
        if (!whole || (cut && cut->size() != 0 && t == 0)) std::filesystem::resize_file(cut_path, i % 2 ? kSize : 4096);
        if (cut) touch(cut->bytes());
        if (!whole || sum(whole->bytes()) != expected || !whole->intact()) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0) << "a file that was left alone was taken for the other";
}

/// An .entity file of 8 MiB.
ByteBuffer model() {
  std::vector<float> values(kSize / 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return formats::encode_entity(Json("n"), Json(), {formats::make_tensor<float>("w", values)}).value();
}

void save(const std::string& path, const ByteBuffer& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

TEST(MappedFile, LoadsOrFailsWhileSomeoneCutsTheFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/m.entity";
  const ByteBuffer bytes = model();
  int failed = 0, storage = 0;
  for (int i = 0; i < 60; ++i) {
    save(path, bytes);
    std::atomic<bool> is_on{false};
    std::thread cutter([&] {
      while (!is_on) std::this_thread::yield();
      for (int spin = 0; spin < i * 400; ++spin) std::atomic_signal_fence(std::memory_order_seq_cst);
      std::filesystem::resize_file(path, static_cast<std::size_t>(i) * 130000 % kSize);
    });
    is_on = true;
    const auto file = formats::load_entity(real_file_system(), path);
    cutter.join();
    if (file) {
      // Read in time. What is still to be read may be gone; then it is said.
      touch(file->tensors()[0].bytes);
      EXPECT_FALSE(file->intact()) << "the file is shorter now";
      continue;
    }
    ++failed;
    if (file.error().code() == Errc::storage) {
      ++storage;
      EXPECT_NE(file.error().text().find(path + ": "), std::string::npos) << file.error().text();
    }
  }
  RecordProperty("failed", failed);
  RecordProperty("storage", storage);
}

/// Cuts a file right after it was mapped: what a load meets at the worst moment.
class CuttingFileSystem final : public FileSystem {
 public:
  explicit CuttingFileSystem(std::size_t left) : left_(left) {}
  Result<MappedFile> map(const std::string& path, std::size_t max_bytes) override {
    auto mapped = real_file_system().map(path, max_bytes);
    std::filesystem::resize_file(path, left_);
    return mapped;
  }
  Result<ByteBuffer> read(const std::string& path, std::size_t max) override {
    return real_file_system().read(path, max);
  }
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    return real_file_system().open(path, mode);
  }
  Status rename(const std::string& from, const std::string& to) override { return real_file_system().rename(from, to); }
  Status sync_directory(const std::string& path) override { return real_file_system().sync_directory(path); }
  Result<bool> make_directory(const std::string& path) override { return real_file_system().make_directory(path); }
  Result<std::vector<std::string>> list(const std::string& path) override { return real_file_system().list(path); }
  Status remove(const std::string& path) override { return real_file_system().remove(path); }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override { return real_file_system().lock(path); }

 private:
  std::size_t left_;
};

TEST(MappedFile, ACutFileIsAnErrorOfStorageThatNamesFileAndOffset) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/m.entity";
  const ByteBuffer bytes = model();
  // Not into the last page: what is missing there reads as zeros, and the hash says so.
  const std::size_t last_page = (bytes.size() - 1) / page() * page();
  for (std::size_t left = 0; left <= last_page; left += last_page / 37) {
    save(path, bytes);
    CuttingFileSystem files(left);
    const auto file = formats::load_entity(files, path);
    ASSERT_FALSE(file) << left;
    EXPECT_EQ(file.error().code(), Errc::storage) << file.error().text();
    const std::size_t offset = (left + page() - 1) / page() * page();
    EXPECT_EQ(file.error().text().find(path + ": cannot be read at byte " + std::to_string(offset) + " of "), 0u)
        << file.error().text();
  }
}

// Other handlers of SIGBUS. Each in its own process: a handler is installed once.

void* foreign_fault(const TemporaryDirectory& directory) {
  const std::string path = directory.path() + "/foreign";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
  if (::ftruncate(fd, static_cast<off_t>(page())) != 0) return nullptr;
  void* const mapped = ::mmap(nullptr, page(), PROT_READ, MAP_PRIVATE, fd, 0);
  if (::ftruncate(fd, 0) != 0) return nullptr;
  return mapped;
}

void install(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

class SigbusDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(SigbusDeathTest, GoesToWhoHandledItBefore) {
  EXPECT_EXIT(
      {
        const TemporaryDirectory directory;
        install([](int, siginfo_t*, void*) { ::_exit(42); });
        const auto mapped = real_file_system().map(write(directory, kSize), kSize);
        if (!mapped || !mapped->is_mapped()) ::_exit(1);
        (void)*static_cast<volatile char*>(foreign_fault(directory));
        ::_exit(2);
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(SigbusDeathTest, EndsTheProcessWhereNobodyHandledIt) {
  EXPECT_EXIT(
      {
        const TemporaryDirectory directory;
        ::signal(SIGBUS, SIG_DFL);  // a sanitizer's own would be chained to
        const auto mapped = real_file_system().map(write(directory, kSize), kSize);
        if (!mapped || !mapped->is_mapped()) ::_exit(1);
        (void)*static_cast<volatile char*>(foreign_fault(directory));
        ::_exit(2);
      },
      ::testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        const TemporaryDirectory directory;
        ::signal(SIGBUS, SIG_DFL);
        const auto mapped = real_file_system().map(write(directory, kSize), kSize);
        ::raise(SIGBUS);  // sent, not met
        ::_exit(2);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(SigbusDeathTest, IsLeftToWhoTookItAfterUsAndFilesAreRead) {
  EXPECT_EXIT(
      {
        const TemporaryDirectory directory;
        const std::string path = write(directory, kSize);
        bool was_mapped = false;
        {
          const auto first = real_file_system().map(path, kSize);
          was_mapped = first && first->is_mapped();
        }
        install([](int, siginfo_t*, void*) { ::_exit(42); });
        const auto second = real_file_system().map(path, kSize);
        const bool is_read = second && !second->is_mapped() && second->size() == kSize;
        if (!was_mapped || !is_read) ::_exit(1);
        std::filesystem::resize_file(path, 0);
        touch(second->bytes());
        ::_exit(second->intact() ? 0 : 3);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(SigbusDeathTest, ManyFilesFindNoSlotAndAreRead) {
  EXPECT_EXIT(
      {
        const TemporaryDirectory directory;
        const std::string path = write(directory, std::size_t{1} << 20);
        std::vector<MappedFile> held;
        for (int i = 0; i < 1030; ++i) held.push_back(*real_file_system().map(path, kSize));
        std::size_t mapped = 0;
        for (const MappedFile& file : held) mapped += file.is_mapped();
        held.clear();
        ::_exit(mapped == 1024 && real_file_system().map(path, kSize)->is_mapped() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft::storage::mapped_file_test
