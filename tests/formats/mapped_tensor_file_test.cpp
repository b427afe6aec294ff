// SPDX-License-Identifier: Apache-2.0

#include "formats/mapped_tensor_file.hpp"

#include "formats/gguf/gguf.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/file_system.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>

namespace weft::formats::mapped_tensor_file_test {
namespace {

using storage::TemporaryDirectory;

constexpr std::size_t kSize = std::size_t{64} << 20;

/// One tensor of kSize ones that begins on no multiple of 64.
std::string write_unaligned(const TemporaryDirectory& directory) {
  std::string header = R"({"t":{"dtype":"U8","shape":[67108864],"data_offsets":[0,67108864]}})";
  while ((8 + header.size()) % 64 != 8) header += ' ';
  const std::uint64_t length = header.size();
  const std::string path = directory.path() + "/t.safetensors";
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header << std::string(kSize, '\1');
  return path;
}

/// Bounds the address space of this process while it exists.
class LittleMemory {
 public:
  LittleMemory() {
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit tight{std::min<rlim_t>(before_.rlim_max, std::size_t{32} << 20), before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &tight);
  }
  ~LittleMemory() { ::setrlimit(RLIMIT_AS, &before_); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;

 private:
  rlimit before_{};
};

bool finds_in_little_memory(const MappedTensorFile& file) {
  const LittleMemory bound;
  try {
    return file.find("t").has_value();
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// An empty copy was kept where memory ended, and given out by the next call with the tensor's whole shape.
TEST(MappedTensorFile, KeepsNoCopyThatMemoryHadNoRoomFor) {
#ifdef WEFT_SANITIZED
  GTEST_SKIP() << "sanitizers need the address space themselves";
#endif
  const TemporaryDirectory directory;
  const auto file = load_safetensors(storage::real_file_system(), write_unaligned(directory));
  ASSERT_TRUE(file) << file.error().text();
  ASSERT_NE(reinterpret_cast<std::uintptr_t>(file->describe("t")->bytes.data()) % 64, 0u);
  for (int time = 0; time < 2; ++time) EXPECT_FALSE(finds_in_little_memory(*file)) << time;
  const auto whole = file->find("t");
  ASSERT_TRUE(whole) << whole.error().text();
  ASSERT_EQ(whole->bytes.size(), kSize);
  EXPECT_EQ(std::count(whole->bytes.begin(), whole->bytes.end(), std::byte{1}), static_cast<std::ptrdiff_t>(kSize));
}

// The bytes of a file that was cut short are not what its owner wrote: the cut is the fault to tell of.
TEST(MappedTensorFile, BlamesThePageThatCouldNotBeRead) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/f";
  for (const bool is_gguf : {false, true}) {
    std::ofstream(path, std::ios::binary) << std::string(std::size_t{2} << 20, '\1');
    auto mapped = storage::real_file_system().map(path, kSize);
    ASSERT_TRUE(mapped && mapped->is_mapped());
    std::filesystem::resize_file(path, 0);
    const auto code = is_gguf ? decode_gguf(*std::move(mapped)).error().code()
                              : decode_safetensors(*std::move(mapped)).error().code();
    EXPECT_EQ(code, Errc::storage) << is_gguf;
  }
}

}  // namespace
}  // namespace weft::formats::mapped_tensor_file_test
