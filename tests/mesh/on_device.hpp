// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/device.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

/// For tests of meshes on a device.
namespace weft::mesh::testing_support {

/// WEFT_TEST_DEVICE, or the first usable one.
inline std::string device_name() {
  const char* const name = std::getenv("WEFT_TEST_DEVICE");
  return name ? name : "vulkan";
}

/// Validation layers, synchronisation included, where they are installed and WEFT_TEST_NO_VALIDATION does not forbid
/// it.
inline gpu::DeviceOptions device_options() {
  gpu::DeviceOptions options;
  options.validate = std::getenv("WEFT_TEST_NO_VALIDATION") == nullptr;
  return options;
}

/// There is none, and none was asked for. One that does not open, or is not exact, is not absent.
inline bool is_device_absent() {
  const auto all = gpu::devices();
  return !std::getenv("WEFT_TEST_DEVICE") && (!all || all->empty());
}

/// The device, or the end of the program: as skipped (77) where it is absent and nothing has failed.
inline std::shared_ptr<gpu::Device> open_device(const gpu::DeviceOptions& options) {
  auto shared = gpu::Device::share(device_name(), options);
  if (shared) return *shared;
  std::printf("no Vulkan device: %s\n", shared.error().text().c_str());
  std::exit(is_device_absent() && !::testing::UnitTest::GetInstance()->Failed() ? 77 : 1);
}

/// An error of the validation layers fails the test that caused it.
class EachTestIsValid : public ::testing::EmptyTestEventListener {
 public:
  explicit EachTestIsValid(const gpu::Device& device) : device_(device) {}

 private:
  void OnTestEnd(const ::testing::TestInfo&) override {
    const auto errors = device_.validation_errors();
    for (; seen_ < errors.size(); ++seen_) ADD_FAILURE() << "validation layer: " << errors[seen_];
  }
  const gpu::Device& device_;
  std::size_t seen_ = 0;
};

/// Keeps the device open for the whole program, for all meshes: what it compiled is used by all, and what validation
/// finds in any of them is seen.
inline void need_device() {
  const auto open = [] {
    auto device = open_device(device_options());
    std::printf("device: %s; validation: %s\n", device->info().name.c_str(), device->validates() ? "on" : "off");
    ::testing::UnitTest::GetInstance()->listeners().Append(new EachTestIsValid(*device));
    return device;
  };
#ifdef WEFT_SANITIZED
  // Never closed: the validation layer loses memory of its own, which the leak checker cannot name once it is unloaded.
  static const auto* const opened = new std::shared_ptr<gpu::Device>(open());
#else
  static const std::shared_ptr<gpu::Device> opened = open();
#endif
  static_cast<void>(opened);
}

}  // namespace weft::mesh::testing_support
