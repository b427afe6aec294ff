// SPDX-License-Identifier: Apache-2.0

#include "gpu/device.hpp"

#include "tests/gpu/gpu_testing.hpp"
#include <filesystem>
#include <fstream>

namespace weft::gpu::device_test {
namespace {

using testing_support::device;

TEST(Device, ProvesThatItsArithmeticIsTheCpus) {
  const SelfTest& proof = device().self_test();
  EXPECT_GT(proof.cases, 30000u);
  EXPECT_FALSE(proof.variant.empty());
  std::printf("fma %s (%.1f %% differ), subnormals %s, division differs %.1f %%, root %.1f %%, tiny %s rounding\n",
              proof.fma_is_fused ? "fused" : "not fused", 100 * proof.fma_differs, proof.flushes ? "flushed" : "kept",
              100 * proof.division_differs, 100 * proof.root_differs, proof.tiny_after_rounding ? "after" : "before");
  // A device whose own fma rounds twice cannot have passed with it.
  EXPECT_TRUE(proof.fma_is_fused || proof.variant == "emulated");
}

TEST(Device, IsChosenByNumberAndByPartOfItsName) {
  const DeviceInfo info = device().info();
  DeviceOptions options;
  options.cache_folder = "-";
  const auto by_number = Device::open("vulkan:" + std::to_string(info.index), options);
  ASSERT_TRUE(by_number) << by_number.error().text();
  EXPECT_EQ((*by_number)->info().name, info.name);
  std::string part = info.name.substr(0, 5);
  for (char& c : part) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto by_name = Device::open("vulkan:" + part, options);
  ASSERT_TRUE(by_name) << by_name.error().text();
}

TEST(Device, WhatIsNotThereIsNamedWithWhatIs) {
  for (const char* selector : {"vulkan:99", "vulkan:no such card", "vulkan:", "cuda", "vulkan0"}) {
    const auto opened = Device::open(selector);
    ASSERT_FALSE(opened) << selector;
    EXPECT_EQ(opened.error().code(), Errc::unknown_name) << selector;
    EXPECT_NE(opened.error().text().find(selector), std::string::npos) << opened.error().text();
  }
  EXPECT_NE(Device::open("vulkan:99").error().text().find(device().info().name), std::string::npos);
}

// --- the pipeline cache ---

class Cache : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("weft-gpu-cache-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Status open() const {
    DeviceOptions options;
    options.cache_folder = folder_.string();
    auto opened = Device::open(testing_support::selector(), options);
    if (!opened) return fail(opened.error());
    return {};
  }
  std::filesystem::path file() const {
    for (const auto& each : std::filesystem::directory_iterator(folder_)) return each.path();
    return {};
  }
  std::string bytes() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const { std::ofstream(file(), std::ios::binary | std::ios::trunc) << text; }
  std::filesystem::path folder_;
};

TEST_F(Cache, IsWrittenAndTakenBack) {
  ASSERT_TRUE(open());
  ASSERT_FALSE(file().empty());
  EXPECT_EQ(bytes().substr(0, 8), "WEFTPIPE");
  testing::internal::CaptureStderr();
  ASSERT_TRUE(open());
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("ignored"), std::string::npos);
}

TEST_F(Cache, ThatIsForeignOrDamagedIsIgnoredWithALine) {
  ASSERT_TRUE(open());
  const std::string good = bytes();
  std::string other_device = good, changed = good, other_form = good;
  other_device[16] ^= 1;
  changed.back() ^= 1;
  other_form[8] ^= 1;
  for (const auto& [bad, why] : {std::pair<std::string, const char*>{"", "cut off"},
                                 {"hello", "cut off"},
                                 {std::string(100, 'x'), "is no pipeline cache"},
                                 {good.substr(0, good.size() - 1), "cut off"},
                                 {other_device, "another device"},
                                 {changed, "has changed"},
                                 {other_form, "another form"}}) {
    write(bad);
    testing::internal::CaptureStderr();
    ASSERT_TRUE(open()) << why;
    EXPECT_NE(testing::internal::GetCapturedStderr().find(why), std::string::npos) << why;
    EXPECT_EQ(bytes().size(), good.size()) << why << ": and a good one is written";
  }
}

TEST_F(Cache, WhereNoFileCanBeReadOrWrittenIsDoneWithout) {
  ASSERT_TRUE(open());
  const std::filesystem::path path = file();
  // A pipe would keep a reader waiting for a writer.
  const std::string kFolder = "a folder";
  for (const std::string& kind : {kFolder, std::string("a pipe")}) {
    std::filesystem::remove_all(path);
    if (kind == kFolder)
      std::filesystem::create_directories(path / "within");
    else
      ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    testing::internal::CaptureStderr();
    const Status opened = open();
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(opened) << kind;
    EXPECT_NE(said.find("is no file"), std::string::npos) << kind << ": " << said;
  }
  std::filesystem::remove_all(folder_);
  std::ofstream(folder_) << "no folder";
  testing::internal::CaptureStderr();
  ASSERT_TRUE(open());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("could not write"), std::string::npos);
}

TEST(Device, HasAPeakOfMultiplyAdds) {
  // Of all that computes at all; a GPU does more than 10^11.
  const auto peak = device().fma_peak();
  ASSERT_TRUE(peak) << peak.error().text();
  EXPECT_GT(*peak, device().info().kind == "cpu" ? 1e6 : 1e11);
  EXPECT_LT(*peak, 1e16);
}

}  // namespace
}  // namespace weft::gpu::device_test
