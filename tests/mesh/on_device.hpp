// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/device.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

/// For tests of meshes on a device: skipped where none opens.
namespace weft::mesh::testing_support {

/// WEFT_TEST_DEVICE, or the first usable one.
inline std::string device_name() {
  const char* const name = std::getenv("WEFT_TEST_DEVICE");
  return name ? name : "vulkan";
}

/// Kept open for the whole program: what it compiled is used by all meshes. Null: there is none.
inline const gpu::Device* device() {
  static const std::shared_ptr<gpu::Device> opened = [] {
    auto shared = gpu::Device::share(device_name());
    if (!shared) std::printf("no Vulkan device: %s\n", shared.error().text().c_str());
    return shared ? *shared : nullptr;
  }();
  return opened.get();
}

}  // namespace weft::mesh::testing_support
