// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <volk.h>

#include <string>
#include <string_view>

namespace weft::gpu {

/// "VK_ERROR_DEVICE_LOST" and the like.
std::string_view name(VkResult result) noexcept;
/// A failure of a Vulkan call, in words: what was tried, and what came back.
Failure vulkan_failure(std::string_view what, VkResult result, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE());

/// A Vulkan structure with all else zero.
template <class T>
T structure(VkStructureType type, void* next = nullptr) noexcept {
  T made{};
  made.sType = type;
  made.pNext = next;
  return made;
}

}  // namespace weft::gpu

/// `WEFT_VULKAN_CHECK("create a fence", vk.vkCreateFence(...));` passes a failure on.
#define WEFT_VULKAN_CHECK(what, ...)                                          \
  do {                                                                        \
    if (const VkResult weft_result = (__VA_ARGS__); weft_result < VK_SUCCESS) \
      return vulkan_failure(what, weft_result);                               \
  } while (false)
