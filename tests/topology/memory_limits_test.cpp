// SPDX-License-Identifier: Apache-2.0

#include "topology/memory_limits.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace weft::topology::memory_limits_test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class MemoryLimitsTest : public testing::Test {
 protected:
  MemoryLimitsTest() : root_(fs::temp_directory_path() / ("weft_memory_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
    sources_.cgroup_root = root_;
    sources_.meminfo =
        "MemTotal:        8388608 kB\nMemFree:  1024 kB\nMemAvailable:    4194304 kB\nSwapTotal:       1024 kB\n"
        "SwapFree:            512 kB\n";
    sources_.status = "Name:\tweft\nVmPeak:\t  204800 kB\nVmSize:\t  102400 kB\n";
  }
  ~MemoryLimitsTest() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
  MemorySources sources_;
};

TEST_F(MemoryLimitsTest, RamCountsWhatIsAvailableWithSwap) {
  const MemoryLimits found = read_memory_limits(sources_);
  ASSERT_EQ(found.limits.size(), 1u);
  EXPECT_EQ(found.limits[0].bytes, 8193 * kMiB);
  EXPECT_EQ(found.limits[0].free, 4096 * kMiB + 512 * 1024);
  EXPECT_EQ(found.cgroup_version, 0);
}

TEST_F(MemoryLimitsTest, AddressSpaceLessWhatIsMapped) {
  sources_.address_space = 1000 * kMiB;
  const MemoryLimits found = read_memory_limits(sources_);
  ASSERT_NE(found.tightest(), nullptr);
  EXPECT_EQ(found.tightest()->source, "ulimit -v");
  EXPECT_EQ(found.tightest()->bytes, 1000 * kMiB);
  EXPECT_EQ(found.tightest()->free, 900 * kMiB);
  sources_.address_space = 10 * kMiB;  // below what is mapped already
  EXPECT_EQ(read_memory_limits(sources_).tightest()->free, 0u);
}

TEST_F(MemoryLimitsTest, ReadsVersion2WithoutPageCache) {
  write("jobs/memory.max", "1073741824\n");
  write("jobs/memory.current", "536870912\n");
  write("jobs/memory.stat", "anon 1\nfile 104857600\ninactive_file 67108864\nactive_file 33554432\n");
  write("jobs/mine/memory.max", "max\n");
  sources_.membership = "0::/jobs/mine\n";
  const MemoryLimits found = read_memory_limits(sources_);
  ASSERT_EQ(found.limits.size(), 2u);
  EXPECT_EQ(found.cgroup_version, 2);
  EXPECT_EQ(found.tightest()->bytes, 1024 * kMiB);
  EXPECT_EQ(found.tightest()->free, (512 + 96) * kMiB);
  EXPECT_EQ(found.tightest()->source, (root_ / "jobs/memory.max").string());
}

TEST_F(MemoryLimitsTest, ReadsVersion1WhereTheHugeNumberIsNone) {
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/box/memory.limit_in_bytes", "50331648\n");
  write("memory/box/memory.usage_in_bytes", "20971520\n");
  write("memory/box/memory.stat", "cache 9\ntotal_inactive_file 4194304\ntotal_active_file 2097152\n");
  sources_.membership = "4:memory:/box\n1:cpu:/\n0::/\n";
  const MemoryLimits found = read_memory_limits(sources_);
  EXPECT_EQ(found.cgroup_version, 1);
  EXPECT_EQ(found.tightest()->bytes, 48 * kMiB);
  EXPECT_EQ(found.tightest()->free, (48 - 20 + 6) * kMiB);
}

TEST_F(MemoryLimitsTest, TheAncestorWithLeastRoomBinds) {
  write("a/memory.max", "1073741824\n");
  write("a/memory.current", "1072693248\n");
  write("a/b/memory.max", "536870912\n");
  write("a/b/memory.current", "0\n");
  sources_.membership = "0::/a/b\n";
  EXPECT_EQ(read_memory_limits(sources_).tightest()->free, 1 * kMiB);
}

TEST_F(MemoryLimitsTest, NonsenseLimitsNothing) {
  sources_.membership = "0::/\n";
  sources_.meminfo = "MemTotal: lots kB\nMemAvailable\n";
  for (const char* text : {"", "\n", "lots", "-1", "99999999999999999999", "12x"}) {
    write("memory.max", text);
    EXPECT_TRUE(read_memory_limits(sources_).limits.empty()) << text;
    EXPECT_EQ(read_memory_limits(sources_).tightest(), nullptr);
  }
}

TEST(MemoryLimits, OfThisProcessFollowItsUlimit) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const MemoryLimits free = read_memory_limits();
  ASSERT_NE(free.tightest(), nullptr);
  EXPECT_GT(free.tightest()->free, 0u);
  const rlimit tight{std::min<rlim_t>(before.rlim_max, std::uint64_t{1} << 40), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const MemoryLimits bound = read_memory_limits();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  const auto found = std::find_if(bound.limits.begin(), bound.limits.end(),
                                  [](const MemoryLimit& limit) { return limit.source == "ulimit -v"; });
  ASSERT_NE(found, bound.limits.end());
  EXPECT_EQ(found->bytes, tight.rlim_cur);
  EXPECT_LT(found->free, found->bytes);
}

}  // namespace
}  // namespace weft::topology::memory_limits_test
