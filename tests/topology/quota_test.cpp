// SPDX-License-Identifier: Apache-2.0

#include "topology/quota.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>

namespace weft::topology::quota_test {
namespace {

namespace fs = std::filesystem;

class QuotaTest : public testing::Test {
 protected:
  QuotaTest() : root_(fs::temp_directory_path() / ("weft_quota_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~QuotaTest() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

TEST_F(QuotaTest, ReadsVersion2) {
  write("jobs/mine/cpu.max", "250000 100000\n");
  const Quota quota = read_quota(root_, "0::/jobs/mine\n");
  EXPECT_EQ(quota.cgroup_version, 2);
  EXPECT_DOUBLE_EQ(quota.cpus, 2.5);
  EXPECT_EQ(quota.source, (root_ / "jobs/mine/cpu.max").string());
}

TEST_F(QuotaTest, TakesTheTightestAncestor) {
  write("jobs/cpu.max", "150000 50000\n");
  write("jobs/mine/cpu.max", "max 100000\n");
  write("jobs/mine/inner/cpu.max", "800000 100000\n");
  const Quota quota = read_quota(root_, "0::/jobs/mine/inner\n");
  EXPECT_DOUBLE_EQ(quota.cpus, 3.0);
  EXPECT_EQ(quota.source, (root_ / "jobs/cpu.max").string());
}

TEST_F(QuotaTest, UnlimitedIsZero) {
  write("jobs/cpu.max", "max 100000\n");
  const Quota quota = read_quota(root_, "0::/jobs\n");
  EXPECT_EQ(quota.cgroup_version, 2);
  EXPECT_EQ(quota.cpus, 0);
  EXPECT_TRUE(quota.source.empty());
}

TEST_F(QuotaTest, DefaultPeriodIsAHundredMilliseconds) {
  write("cpu.max", "50000");
  EXPECT_DOUBLE_EQ(read_quota(root_, "0::/\n").cpus, 0.5);
}

TEST_F(QuotaTest, ReadsVersion1InItsOwnMount) {
  write("cpu/box/cpu.cfs_quota_us", "300000\n");
  write("cpu/box/cpu.cfs_period_us", "100000\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  const Quota quota = read_quota(root_, "4:memory:/x\n3:cpuset:/\n1:cpu:/box\n");
  EXPECT_EQ(quota.cgroup_version, 1);
  EXPECT_DOUBLE_EQ(quota.cpus, 3.0);
}

TEST_F(QuotaTest, ReadsVersion1InAJointMount) {
  write("cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
  write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  // The path is the host's and does not exist here: the mount's root is the container's group.
  EXPECT_DOUBLE_EQ(read_quota(root_, "2:cpu,cpuacct:/docker/4af1\n").cpus, 0.5);
}

TEST_F(QuotaTest, HybridTakesTheTighterOfBoth) {
  write("unified/a/cpu.max", "400000 100000");
  write("cpu/a/cpu.cfs_quota_us", "200000\n");
  write("cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(read_quota(root_, "1:cpu:/a\n0::/a\n").cpus, 2.0);
}

TEST_F(QuotaTest, NonsenseLimitsNothing) {
  for (const char* text : {"", "\n", "lots 100000", "100000 0", "-5 100000", "99999999999999999999 1", "1x 2"}) {
    write("cpu.max", text);
    EXPECT_EQ(read_quota(root_, "0::/\n").cpus, 0) << text;
  }
  EXPECT_EQ(read_quota(root_, "").cpus, 0);
  EXPECT_EQ(read_quota(root_, "garbage\n0:\n:::\n").cpus, 0);
  EXPECT_EQ(read_quota(root_, "0::/../elsewhere\n").cpus, 0);
  EXPECT_EQ(read_quota(root_ / "absent", "0::/\n").cgroup_version, 0);
}

}  // namespace
}  // namespace weft::topology::quota_test
