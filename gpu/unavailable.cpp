// SPDX-License-Identifier: Apache-2.0
// All there is of this room in a build without Vulkan.
#ifdef WEFT_GPU_UNAVAILABLE

#include "gpu/device.hpp"

namespace weft::gpu {
namespace {
constexpr const char* kText =
    "vulkan: this build of Weft has no GPU side: it was configured without WEFT_GPU, or without the Vulkan headers, "
    "volk "
    "and glslangValidator";
}

Result<std::vector<DeviceInfo>> devices() { return fail(Errc::unsupported, kText); }

Result<std::shared_ptr<Device>> Device::open(std::string_view, const DeviceOptions&) {
  return fail(Errc::unsupported, kText);
}

}  // namespace weft::gpu
#endif
