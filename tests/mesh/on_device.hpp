// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/device.hpp"

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

/// Keeps the device open for the whole program: what it compiled is used by all meshes. Without any, and none asked
/// for, the program ends as skipped (77).
inline void need_device() {
  static const std::shared_ptr<gpu::Device> opened = [] {
    auto shared = gpu::Device::share(device_name());
    if (shared) return *shared;
    std::printf("no Vulkan device: %s\n", shared.error().text().c_str());
    std::exit(shared.error().code() == Errc::unsupported && !std::getenv("WEFT_TEST_DEVICE") ? 77 : 1);
  }();
}

}  // namespace weft::mesh::testing_support
