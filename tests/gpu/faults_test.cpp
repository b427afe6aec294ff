// SPDX-License-Identifier: Apache-2.0
// Behaviour of a device and its streams when the driver fails. Skipped (77) without a Vulkan device.

#include "gpu/device.hpp"
#include "gpu/fault_injection.hpp"
#include "gpu/memory.hpp"

#include "tests/gpu/gpu_testing.hpp"
#include <chrono>
#include <thread>

namespace weft::gpu::faults_test {
namespace {

using namespace std::chrono_literals;

using kernels::ConstMatrixView;
using kernels::MatrixView;

constexpr std::size_t kCount = 1000;

/// A device of the test's own, with a plan of its faults.
class Faults : public testing::Test {
 protected:
  void SetUp() override {
    testing_support::device();  // the program ends here where there is none; and it sees validation errors
    options_.faults = std::make_shared<FaultInjection>();
    options_.validate = std::getenv("WEFT_TEST_NO_VALIDATION") == nullptr;
    open();
  }
  void TearDown() override { plan().clear(); }
  FaultInjection& plan() { return *options_.faults; }
  void open() {
    auto opened = Device::open(testing_support::selector(), options_);
    ASSERT_TRUE(opened) << opened.error().text();
    device_ = *opened;
  }
  /// Uploads, doubles and downloads: the first failure, or nothing.
  static Status work(Device& device) {
    WEFT_TRY(const auto stream, device.make_stream());
    WEFT_TRY(const Buffer buffer, device.memory().allocate(kCount * sizeof(float), "numbers"));
    std::vector<float> values(kCount);
    for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i);
    stream->upload(values.data(), kCount * sizeof(float), buffer.data());
    stream->scale({2, ConstMatrixView{buffer.data(), 1, kCount, kCount}, MatrixView{buffer.data(), 1, kCount, kCount}});
    WEFT_CHECK(stream->download(buffer.data(), kCount * sizeof(float), values.data()));
    for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(values[i], 2.0f * static_cast<float>(i));
    return {};
  }
  Status work() { return work(*device_); }
  void expect_failure(const Status& status, Errc code, const std::vector<std::string>& fragments) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), code) << status.error().text();
    for (const std::string& fragment : fragments)
      EXPECT_NE(status.error().text().find(fragment), std::string::npos) << fragment << " in " << status.error().text();
  }

  DeviceOptions options_;
  std::shared_ptr<Device> device_;
};

TEST_F(Faults, ADeviceThatIsLostStaysLostAndSaysWhy) {
  for (const DriverFault fault : {DriverFault::lost_at_submit, DriverFault::lost_at_wait}) {
    open();
    auto other = device_->make_stream();
    ASSERT_TRUE(other);
    auto buffer = device_->memory().allocate(64, "a few");
    ASSERT_TRUE(buffer);
    EXPECT_FALSE(device_->is_lost());
    plan().fail(fault, 0);
    expect_failure(work(), Errc::unsupported, {device_->info().name, "VK_ERROR_DEVICE_LOST"});
    EXPECT_TRUE(device_->is_lost());
    // The plan's fault is over; the device's is not.
    expect_failure(work(), Errc::unsupported, {device_->info().name, "was lost before", "VK_ERROR_DEVICE_LOST"});
    const auto refused = device_->memory().allocate(64, "more");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text().find("was lost before"), std::string::npos) << refused.error().text();
    const float x[16] = {};
    (*other)->upload(x, sizeof x, buffer->data());
    expect_failure((*other)->finish(), Errc::unsupported, {"was lost before"});
  }
  EXPECT_EQ(plan().failed(), 2u);
}

TEST_F(Faults, WhatIsSharedIsOpenedAnewAfterALoss) {
  device_.reset();
  const std::string selector = "vulkan:" + std::to_string(testing_support::device().info().index);
  const auto first = *Device::share(selector, options_), same = *Device::share(selector, options_);
  EXPECT_EQ(first, same);
  plan().fail(DriverFault::lost_at_wait, 0);
  EXPECT_FALSE(work(*first));
  const auto second = *Device::share(selector, first->options());
  EXPECT_NE(second, first);
  EXPECT_TRUE(first->is_lost());
  EXPECT_TRUE(work(*second));
  EXPECT_EQ(*Device::share(selector), second);
}

TEST_F(Faults, MemoryThatRunsOutFailsAStreamAndNoDevice) {
  for (const DriverFault fault : {DriverFault::no_memory, DriverFault::no_room, DriverFault::no_mapping,
                                  DriverFault::no_commands, DriverFault::no_pipeline}) {
    open();  // nothing is compiled yet
    plan().fail(fault, 0);
    const Status failed = work();
    ASSERT_FALSE(failed) << static_cast<int>(fault);
    EXPECT_NE(failed.error().text().find("VK_ERROR_"), std::string::npos) << failed.error().text();
    EXPECT_FALSE(device_->is_lost());
    EXPECT_TRUE(work());
  }
}

TEST_F(Faults, OpeningFailsAsTheDriverDoes) {
  plan().fail(DriverFault::no_device, 0);
  const auto opened = Device::open(testing_support::selector(), options_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Errc::unsupported);
  EXPECT_NE(opened.error().text().find("VK_ERROR_INITIALIZATION_FAILED"), std::string::npos) << opened.error().text();
  open();
  EXPECT_TRUE(work());
}

TEST_F(Faults, APlannedHangIsTakenForALossAndTheDeviceIsClosedInOrder) {
  plan().fail(DriverFault::hang, 0);
  expect_failure(work(), Errc::timed_out,
                 {device_->info().name, "hangs", std::to_string(device_->options().timeout.count()) + " ms",
                  "DeviceOptions::timeout"});
  EXPECT_TRUE(device_->is_lost());
  expect_failure(work(), Errc::timed_out, {"was lost before"});
}

// A wait that is really too long: work that takes far more than the timeout.
TEST_F(Faults, ASubmissionThatTakesLongerThanTheTimeoutIsAHang) {
  // The device's proof has to be done within it too.
  options_.timeout = device_->info().kind == "cpu" ? 3000ms : 200ms;
  open();
  ASSERT_EQ(device_->options().timeout, options_.timeout);
  // The default, where none is given, is not 0.
  EXPECT_GE(testing_support::device().options().timeout, 30s);
  {
    const auto stream = device_->make_stream();
    ASSERT_TRUE(stream);
    constexpr std::size_t kMany = std::size_t{1} << 26;
    const auto numbers = device_->memory().allocate(kMany * sizeof(float), "many numbers");
    ASSERT_TRUE(numbers);
    const MatrixView all{numbers->data(), 1, kMany, kMany};
    Status finished;
    for (std::size_t scalings = 1; finished && scalings < 1 << 14; scalings *= 2) {
      for (std::size_t i = 0; i < scalings; ++i) (*stream)->scale({1.5f, all, all});
      finished = (*stream)->finish();
    }
    expect_failure(finished, Errc::timed_out,
                   {device_->info().name, "hangs", std::to_string(options_.timeout.count()) + " ms"});
    EXPECT_TRUE(device_->is_lost());
  }
  // Memory in use is not freed, and the work ends although nobody waits.
  device_.reset();
  std::this_thread::sleep_for(1s);
}

TEST_F(Faults, AnErrorOfTheValidationLayersFailsTheStreamThatIsAtWork) {
  if (!device_->validates()) GTEST_SKIP() << "no validation layers";
  const std::size_t before = device_->validation_errors().size();
  plan().fail(DriverFault::validation_error, 0);
  expect_failure(work(), Errc::internal, {"validation", device_->info().name, "a plan of faults asked for"});
  EXPECT_EQ(device_->validation_errors().size(), before + 1);
  EXPECT_FALSE(device_->is_lost());
  EXPECT_TRUE(work());
  open();
  EXPECT_TRUE(device_->validation_errors().empty());
}

TEST(FaultInjection, CountsCallsAndFailsThoseThatItWasTold) {
  FaultInjection plan;
  const auto strikes = [&](DriverFault fault, int calls) {
    std::string all;
    for (int i = 0; i < calls; ++i) all += plan.strikes(fault) ? 'x' : '.';
    return all;
  };
  EXPECT_EQ(strikes(DriverFault::hang, 2), "..");
  plan.fail(DriverFault::hang, 1, 2);
  plan.fail(DriverFault::no_room, 0, UINT64_MAX);
  EXPECT_EQ(strikes(DriverFault::hang, 5), ".xx..");
  EXPECT_EQ(strikes(DriverFault::no_room, 3), "xxx");
  EXPECT_EQ(strikes(DriverFault::no_memory, 3), "...");
  EXPECT_EQ(plan.calls(DriverFault::hang), 7u);
  EXPECT_EQ(plan.failed(), 5u);
  plan.clear();
  EXPECT_EQ(strikes(DriverFault::no_room, 3), "...");
}

}  // namespace
}  // namespace weft::gpu::faults_test
