// SPDX-License-Identifier: Apache-2.0

#define VOLK_IMPLEMENTATION
#include "gpu/internal/vulkan.hpp"

namespace weft::gpu {

std::string_view name(VkResult result) noexcept {
  switch (result) {
#define WEFT_RESULT(value) \
  case value:              \
    return #value
    WEFT_RESULT(VK_SUCCESS);
    WEFT_RESULT(VK_NOT_READY);
    WEFT_RESULT(VK_TIMEOUT);
    WEFT_RESULT(VK_INCOMPLETE);
    WEFT_RESULT(VK_ERROR_OUT_OF_HOST_MEMORY);
    WEFT_RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    WEFT_RESULT(VK_ERROR_INITIALIZATION_FAILED);
    WEFT_RESULT(VK_ERROR_DEVICE_LOST);
    WEFT_RESULT(VK_ERROR_MEMORY_MAP_FAILED);
    WEFT_RESULT(VK_ERROR_LAYER_NOT_PRESENT);
    WEFT_RESULT(VK_ERROR_EXTENSION_NOT_PRESENT);
    WEFT_RESULT(VK_ERROR_FEATURE_NOT_PRESENT);
    WEFT_RESULT(VK_ERROR_INCOMPATIBLE_DRIVER);
    WEFT_RESULT(VK_ERROR_TOO_MANY_OBJECTS);
    WEFT_RESULT(VK_ERROR_FRAGMENTED_POOL);
    WEFT_RESULT(VK_ERROR_OUT_OF_POOL_MEMORY);
    WEFT_RESULT(VK_ERROR_INVALID_SHADER_NV);
#undef WEFT_RESULT
    default:
      return "an error without a name";
  }
}

Failure vulkan_failure(std::string_view what, VkResult result, const char* file, int line) {
  const bool is_memory = result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY;
  return fail(is_memory ? Errc::too_large : Errc::unsupported,
              "vulkan: could not " + std::string(what) + ": " + std::string(name(result)) + " (" +
                  std::to_string(static_cast<int>(result)) + ")",
              file, line);
}

}  // namespace weft::gpu
