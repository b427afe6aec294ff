// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/budget.hpp"

#include <algorithm>

namespace weft::gpu {

void Budget::open(VkPhysicalDevice physical, std::string_view device, bool asks, std::uint64_t most) {
  physical_ = physical;
  device_ = device;
  asks_ = asks;
  most_ = most;
}

std::uint64_t Budget::limit(std::uint32_t heap) const {
  auto budget = structure<VkPhysicalDeviceMemoryBudgetPropertiesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
  auto properties = structure<VkPhysicalDeviceMemoryProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                                 asks_ ? &budget : nullptr);
  vkGetPhysicalDeviceMemoryProperties2(physical_, &properties);
  std::uint64_t limit = properties.memoryProperties.memoryHeaps[heap].size;
  if (asks_) limit = std::min(limit, budget.heapBudget[heap]);
  return most_ != 0 ? std::min(limit, most_) : limit;
}

Status Budget::take(std::uint32_t heap, std::uint64_t bytes, std::string_view what) {
  const std::uint64_t most = limit(heap);
  const std::lock_guard lock(mutex_);
  std::uint64_t& held = held_[heap];
  if (held <= most && bytes <= most - held) {
    held += bytes;
    return {};
  }
  return fail(Errc::too_large, std::string(what) + ": " + std::to_string(bytes) + " bytes more than the " +
                                   std::to_string(held) + " that Weft holds on " + device_ + ", whose budget is " +
                                   std::to_string(most) + "; use a smaller weight type, or leave layers on the CPU");
}

void Budget::give_back(std::uint32_t heap, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  held_[heap] -= bytes;
}

std::uint64_t Budget::held(std::uint32_t heap) const {
  const std::lock_guard lock(mutex_);
  return held_[heap];
}

}  // namespace weft::gpu
