// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/device_statistics.hpp"

#include "gpu/fault_injection.hpp"

#include <gtest/gtest.h>

#include "on_device.hpp"
#include "tests/thorough.hpp"
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// For tests of meshes whose device fails.
namespace weft::mesh::testing_support {

using gpu::DriverFault;

inline const char* name(DriverFault fault) {
  constexpr const char* kNames[gpu::kDriverFaultCount] = {
      "no_device",    "no_memory", "no_room",          "no_mapping", "no_pipeline", "no_commands", "lost_at_submit",
      "lost_at_wait", "hang",      "validation_error", "no_loader",  "no_feature",  "inexact"};
  return kNames[static_cast<int>(fault)];
}

/// The device that meshes get, with a plan of its faults. One for the program, and no other device beside it.
class FaultyDevice {
 public:
  static FaultyDevice& get() {
    // Never closed, as in need_device.
    static auto* const device = new FaultyDevice;
    return *device;
  }

  gpu::FaultInjection& plan() { return *options_.faults; }
  const gpu::Device& device() const { return *device_; }
  bool validates() const { return device_->validates(); }
  /// Opens it again if it was lost. `anew`: in any case, so that nothing is compiled yet. No mesh may hold it.
  void open(bool anew = false) {
    plan().clear();
    if (anew) device_.reset();
    if (device_ && !device_->is_lost()) return;
    const auto held = std::exchange(device_, nullptr);
    device_ = open_device(options_);
  }
  /// Errors of the validation layers that no plan asked for, since this was last asked.
  std::vector<std::string> new_errors() {
    std::vector<std::string> all = watcher_->validation_errors();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::exchange(seen_, all.size())));
    std::erase_if(all, [](const std::string& text) { return text.find("a plan of faults") != std::string::npos; });
    return all;
  }

 private:
  FaultyDevice() : options_(device_options()) {
    // Opened first, so that it sees the errors of all; not shared, so that no mesh gets it.
    watcher_ = [&] {
      auto opened = gpu::Device::open(device_name(), options_);
      return opened ? *opened : open_device(options_);
    }();
    options_.faults = std::make_shared<gpu::FaultInjection>();
    open();
    std::printf("device: %s; validation: %s\n", device_->info().name.c_str(), validates() ? "on" : "off");
  }
  gpu::DeviceOptions options_;
  std::shared_ptr<gpu::Device> watcher_, device_;
  std::size_t seen_ = 0;
};

class FaultsTest : public ::testing::Test {
 protected:
  void SetUp() override { faulty().open(); }
  void TearDown() override {
    faulty().plan().clear();
    for (const std::string& error : faulty().new_errors()) ADD_FAILURE() << "validation layer: " << error;
  }
  static FaultyDevice& faulty() { return FaultyDevice::get(); }
  static gpu::FaultInjection& plan() { return faulty().plan(); }

  /// A run on the CPU or the device: all that came of it, as text, and what the figures say just before its end.
  struct Outcome {
    std::string all;
    DeviceStatistics statistics;
  };
  using Run = std::function<Outcome(const std::string& where)>;

  /// Fails the first call of the kind, then the second (or `stride` later), and so on, until a run needs no more: each
  /// ends as the CPU's. Returns how many runs had a fault.
  static int expect_nothing_lost(DriverFault fault, const Run& run, bool anew = false, int stride = 1) {
    const std::string expected = run("cpu").all;
    for (int n = 0, runs = 0;; n += stride, ++runs) {
      SCOPED_TRACE(std::string(name(fault)) + " number " + std::to_string(n));
      faulty().open(anew);
      const std::uint64_t before = plan().failed();
      plan().fail(fault, static_cast<std::uint64_t>(n));
      const Outcome outcome = run(device_name());
      EXPECT_EQ(outcome.all, expected);
      const bool has_failed = plan().failed() != before;
      EXPECT_EQ(outcome.statistics.faults, has_failed ? 1u : 0u) << outcome.statistics.last_fault;
      EXPECT_EQ(outcome.statistics.last_fault.empty(), !has_failed);
      EXPECT_EQ(outcome.statistics.why_host, outcome.statistics.last_fault);  // it has not been long ago
      if (!has_failed) {
        EXPECT_GT(outcome.statistics.device_steps, 0u);
        return runs;
      }
      if (::testing::Test::HasFailure()) return runs;
    }
  }
};

}  // namespace weft::mesh::testing_support
