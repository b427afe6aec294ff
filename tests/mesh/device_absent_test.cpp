// SPDX-License-Identifier: Apache-2.0
// A mesh that asks for a device and gets none: it starts on the CPU, says why, and its bits are the CPU's. A program of
// its own: a device that somebody holds would be handed out again. Skipped (77) where there is no Vulkan device.

#include "mesh/device/device_statistics.hpp"
#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"

#include "gpu/fault_injection.hpp"

#include "fault_scenarios.hpp"
#include "on_device.hpp"
#include <cstdint>
#include <memory>
#include <string>

namespace weft::mesh::device_absent_test {
namespace {

using gpu::DriverFault;
using namespace testing_support;

constexpr std::uint64_t kTicks = 20;

/// All that comes of a run.
struct Outcome {
  std::string hashes, warnings;
  DeviceStatistics statistics;
};

Outcome run_on(const std::string& device, const std::shared_ptr<gpu::FaultInjection>& plan = nullptr) {
  MeshOptions options{.threads = 1};
  options.device = device;
  Outcome outcome;
  ::testing::internal::CaptureStderr();
  {
    Mesh mesh = must(MeshAccess::build(mixed_network().spec(), options, plan));
    for (std::uint64_t tick = 0; tick < kTicks; ++tick) {
      must(mesh.set_input("a", noise(7, tick)));
      must(mesh.set_input("b", noise(5, 7777 + tick)));
      must(mesh.tick());
    }
    outcome.hashes = hashes(mesh);
    if (mesh.device_statistics()) outcome.statistics = *mesh.device_statistics();
  }
  outcome.warnings = ::testing::internal::GetCapturedStderr();
  return outcome;
}

class DeviceAbsent : public ::testing::Test {
 protected:
  // The program ends here where there is no device at all. One that is not shared stays open, which sees what
  // validation finds; it is never closed, as in need_device.
  static void SetUpTestSuite() {
    open_device(device_options());
    static auto* const watcher =
        new std::shared_ptr<gpu::Device>(must(gpu::Device::open(device_name(), device_options())));
    ::testing::UnitTest::GetInstance()->listeners().Append(new EachTestIsValid(**watcher));
  }
  const std::shared_ptr<gpu::FaultInjection> plan_ = std::make_shared<gpu::FaultInjection>();

  void expect_on_cpu(DriverFault fault, const std::vector<std::string>& fragments) {
    plan_->fail(fault, 0, UINT64_MAX);
    const Outcome cpu = run_on("cpu"), outcome = run_on(device_name(), plan_);
    EXPECT_GT(plan_->failed(), 0u);
    EXPECT_EQ(outcome.hashes, cpu.hashes);
    const std::string& why = outcome.statistics.why_host;
    for (const std::string& fragment : fragments) EXPECT_NE(why.find(fragment), std::string::npos) << why;
    EXPECT_NE(outcome.warnings.find("warning: the mesh runs on the CPU: " + why), std::string::npos)
        << outcome.warnings;
    EXPECT_EQ(outcome.statistics.host_steps, kTicks);
    EXPECT_EQ(outcome.statistics.device_steps, 0u);
    EXPECT_EQ(outcome.statistics.faults, 0u);  // there was nothing to fail
    EXPECT_EQ(outcome.statistics.device, "");
    EXPECT_EQ(cpu.warnings.find("runs on the CPU"), std::string::npos) << cpu.warnings;
  }
};

TEST_F(DeviceAbsent, WithoutALoader) { expect_on_cpu(DriverFault::no_loader, {"vulkan: no loader", "libvulkan.so.1"}); }

TEST_F(DeviceAbsent, SinceItCannotBeOpened) {
  expect_on_cpu(DriverFault::no_device, {"vulkan: could not open ", "VK_ERROR_INITIALIZATION_FAILED"});
}

TEST_F(DeviceAbsent, SinceItLacksAFeature) {
  expect_on_cpu(DriverFault::no_feature, {"vulkan:0", "lacks 64-bit integers in shaders"});
}

TEST_F(DeviceAbsent, SinceTheOneThatIsNamedLacksAFeature) {
  plan_->fail(DriverFault::no_feature, 0, UINT64_MAX);
  const Outcome cpu = run_on("cpu"), outcome = run_on("vulkan:0", plan_);
  EXPECT_EQ(outcome.hashes, cpu.hashes);
  EXPECT_NE(outcome.statistics.why_host.find("lacks 64-bit integers in shaders"), std::string::npos)
      << outcome.statistics.why_host;
}

TEST_F(DeviceAbsent, SinceItsArithmeticIsNotExact) {
  expect_on_cpu(DriverFault::inexact, {"vulkan: the arithmetic of ", " is not exact: fused: "});
}

TEST_F(DeviceAbsent, ButNotOnceAllIsWell) {
  // The same run with a plan that plans nothing.
  const Outcome cpu = run_on("cpu"), outcome = run_on(device_name(), plan_);
  EXPECT_EQ(outcome.hashes, cpu.hashes);
  EXPECT_EQ(outcome.statistics.why_host, "");
  EXPECT_GT(outcome.statistics.device_steps, 0u);
  EXPECT_EQ(outcome.warnings.find("runs on the CPU"), std::string::npos) << outcome.warnings;
  EXPECT_EQ(plan_->failed(), 0u);
  for (const DriverFault fault :
       {DriverFault::no_loader, DriverFault::no_device, DriverFault::no_feature, DriverFault::inexact})
    EXPECT_GT(plan_->calls(fault), 0u) << static_cast<int>(fault);
}

}  // namespace
}  // namespace weft::mesh::device_absent_test
