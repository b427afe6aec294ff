// SPDX-License-Identifier: Apache-2.0
// Devices whose groups are small, and too small. That their results are the same bits: the tests gpu.*.small.

#include "gpu/internal/limits.hpp"

#include "gpu/internal/graph_capture.hpp"

#include "tests/gpu/gpu_testing.hpp"

namespace weft::gpu::limits_test {
namespace {

class WithLimits : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* before = std::getenv("WEFT_GPU_LIMITS")) before_ = before;
  }
  void TearDown() override {
    if (before_.empty())
      ::unsetenv("WEFT_GPU_LIMITS");
    else
      ::setenv("WEFT_GPU_LIMITS", before_.c_str(), 1);
  }
  static Result<std::shared_ptr<Device>> open(const char* limits) {
    ::setenv("WEFT_GPU_LIMITS", limits, 1);
    DeviceOptions options;
    options.cache_folder = "-";
    return Device::open(testing_support::selector(), options);
  }
  std::string before_;
};

TEST(Limits, AreReadAsTextSaysThem) {
  EXPECT_EQ(parse_limits("")->threads, UINT32_MAX);
  EXPECT_EQ(parse_limits("")->shared_bytes, UINT32_MAX);
  EXPECT_EQ(parse_limits("threads=128,shared=16384")->threads, 128u);
  EXPECT_EQ(parse_limits("threads=128,shared=16384")->shared_bytes, 16384u);
  EXPECT_EQ(parse_limits("shared=0")->shared_bytes, 0u);
  EXPECT_EQ(parse_limits("shared=0")->threads, UINT32_MAX);
  for (const char* text : {"threads", "threads=", "threads=x", "threads=-1", "threads=1x", "shared=99999999999",
                           "memory=1", "threads=128;shared=1", ",threads=128", "threads =128"}) {
    const auto limits = parse_limits(text);
    ASSERT_FALSE(limits) << text;
    EXPECT_EQ(limits.error().code(), Errc::invalid_argument) << text;
    EXPECT_NE(limits.error().text().find(text), std::string::npos) << limits.error().text();
  }
}

TEST(Limits, SmallGroupsDoTheSameWork) {
  for (const std::size_t items : {0u, 1u, 5u, 16u, 63u, 64u, 100u, 127u, 128u, 255u, 256u, 300u, 5000u}) {
    const Groups wide = groups_for(items, 256), least = wide.of_threads(128);
    // A share keeps its threads; what cannot share has twice the groups.
    if (wide.shares > 1) {
      EXPECT_EQ(256 / wide.shares, 128 / least.shares) << items;
      EXPECT_EQ(least.x, wide.x) << items;
    } else {
      EXPECT_EQ(least.shares, 1u) << items;
      EXPECT_EQ(least.x, 2 * wide.x) << items;
    }
    EXPECT_EQ(wide.of_threads(256).x, wide.x) << items;
    EXPECT_EQ(groups_for(items, 64).of_threads(128).shares, groups_for(items, 64).shares) << items;
  }
  const Groups given{3, 4, 2};  // a shader's own size
  EXPECT_EQ(given.of_threads(128).x, 3u);
  EXPECT_EQ(given.of_threads(128).shares, 2u);
}

TEST_F(WithLimits, ChooseTheGroupsOfADevice) {
  testing_support::device();  // or the test ends here
  for (const auto& [limits, threads] : {std::pair("threads=256,shared=32768", 256u),
                                        {"threads=255", 128u},
                                        {"shared=32767", 128u},
                                        {"threads=128,shared=16384", 128u}}) {
    const auto opened = open(limits);
    ASSERT_TRUE(opened) << opened.error().text();
    EXPECT_EQ((*opened)->info().group_threads, threads) << limits;
  }
}

TEST_F(WithLimits, BelowTheLeastADeviceIsRefusedWithBothNumbers) {
  testing_support::device();
  const auto few = open("threads=64");
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().code(), Errc::unsupported);
  EXPECT_NE(few.error().text().find("lacks work groups of 128 threads (it has 64)"), std::string::npos)
      << few.error().text();
  const auto little = open("shared=8192");
  ASSERT_FALSE(little);
  EXPECT_NE(little.error().text().find("lacks 16384 bytes of shared memory (it has 8192)"), std::string::npos)
      << little.error().text();
  const auto nonsense = open("threads=many");
  ASSERT_FALSE(nonsense);
  EXPECT_EQ(nonsense.error().code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace weft::gpu::limits_test
