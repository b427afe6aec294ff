// SPDX-License-Identifier: Apache-2.0

#include "gpu/vulkan_stream.hpp"

namespace weft::gpu {

Status VulkanStream::finish() {
  WEFT_TRY(const std::uint64_t number, submit());
  return wait(number);
}

}  // namespace weft::gpu
