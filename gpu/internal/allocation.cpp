// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/heap.hpp"

#include <optional>

namespace weft::gpu {
namespace {

/// The first memory type that has all of `wanted`; the device lists faster ones first.
std::optional<std::uint32_t> find_type(const Context& context, std::uint32_t allowed, VkMemoryPropertyFlags wanted) {
  for (std::uint32_t i = 0; i < context.memory.memoryTypeCount; ++i)
    if ((allowed >> i & 1) && (context.memory.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  return std::nullopt;
}

std::optional<std::uint32_t> choose_type(const Context& context, std::uint32_t allowed, Use use) {
  constexpr VkMemoryPropertyFlags kShared = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  if (use == Use::device) {
    const auto local = find_type(context, allowed, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    return local ? local : find_type(context, allowed, 0);
  }
  if (use == Use::download)
    if (const auto cached = find_type(context, allowed, kShared | VK_MEMORY_PROPERTY_HOST_CACHED_BIT)) return cached;
  return find_type(context, allowed, kShared);
}

Status make_buffer(const Context& context, std::size_t bytes, const std::string& wanted, VkBuffer& buffer) {
  auto create = structure<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
  create.size = bytes;
  create.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                 VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  if (context.info.conditional_dispatches) create.usage |= VK_BUFFER_USAGE_CONDITIONAL_RENDERING_BIT_EXT;
  WEFT_VULKAN_CHECK("make a buffer for " + wanted,
                    context.vk.vkCreateBuffer(context.device, &create, nullptr, &buffer));
  return {};
}

}  // namespace

std::uint32_t heap_for(const Context& context, Use use) {
  // The memory types that fit are the same for all buffers of one usage (Vulkan 1.2, section 12.7).
  std::uint32_t allowed = ~0u;
  VkBuffer probe = VK_NULL_HANDLE;
  if (make_buffer(context, Memory::kAlignment, "a look at memory", probe)) {
    VkMemoryRequirements needs{};
    context.vk.vkGetBufferMemoryRequirements(context.device, probe, &needs);
    allowed = needs.memoryTypeBits;
    context.vk.vkDestroyBuffer(context.device, probe, nullptr);
  }
  return context.memory.memoryTypes[choose_type(context, allowed, use).value_or(0)].heapIndex;
}

Result<Allocation> make_allocation(Context& context, std::size_t bytes, Use use, std::string_view what) {
  const auto& vk = context.vk;
  const DeviceInfo& info = context.info;
  const std::string wanted = std::string(what) + ": " + std::to_string(bytes) + " bytes on " + info.name;
  if (info.max_buffer_bytes != 0 && bytes > info.max_buffer_bytes)
    return fail(Errc::too_large,
                wanted + ", whose buffers hold at most " + std::to_string(info.max_buffer_bytes) + "; split the layer");
  Allocation allocation;
  allocation.bytes = bytes;
  WEFT_CHECK(make_buffer(context, bytes, wanted, allocation.buffer));
  VkMemoryRequirements needs{};
  vk.vkGetBufferMemoryRequirements(context.device, allocation.buffer, &needs);
  const auto type = choose_type(context, needs.memoryTypeBits, use);
  if (!type) {
    destroy(context, allocation);
    return fail(Errc::unsupported, "vulkan: " + wanted + ": no type of memory fits");
  }
  allocation.heap = context.memory.memoryTypes[*type].heapIndex;
  if (auto taken = context.budget.take(allocation.heap, needs.size, what); !taken) {
    destroy(context, allocation);
    return fail(taken.error());
  }
  allocation.taken = needs.size;
  // maxMemoryAllocationSize is not asked: the driver may give more than it promises, and says so itself if not.
  auto flags = structure<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags, needs.size, *type};
  VkResult result = context.strikes(DriverFault::no_memory)
                        ? VK_ERROR_OUT_OF_DEVICE_MEMORY
                        : vk.vkAllocateMemory(context.device, &allocate, nullptr, &allocation.memory);
  if (result == VK_SUCCESS) result = vk.vkBindBufferMemory(context.device, allocation.buffer, allocation.memory, 0);
  void* mapped = nullptr;
  if (result == VK_SUCCESS && use != Use::device)
    result = context.strikes(DriverFault::no_mapping)
                 ? VK_ERROR_MEMORY_MAP_FAILED
                 : vk.vkMapMemory(context.device, allocation.memory, 0, VK_WHOLE_SIZE, 0, &mapped);
  if (result != VK_SUCCESS) {
    destroy(context, allocation);
    return vulkan_failure("allocate " + wanted + " (one allocation holds at most " +
                              std::to_string(info.max_allocation_bytes) + ", it says)",
                          result);
  }
  allocation.mapped = static_cast<std::byte*>(mapped);
  const VkBufferDeviceAddressInfo address{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr, allocation.buffer};
  allocation.address = vk.vkGetBufferDeviceAddress(context.device, &address);
  return allocation;
}

void destroy(Context& context, const Allocation& allocation) noexcept {
  if (context.is_abandoned()) return;
  context.budget.give_back(allocation.heap, allocation.taken);
  context.vk.vkDestroyBuffer(context.device, allocation.buffer, nullptr);
  context.vk.vkFreeMemory(context.device, allocation.memory, nullptr);
}

}  // namespace weft::gpu
