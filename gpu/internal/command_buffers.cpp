// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/command_buffers.hpp"

namespace weft::gpu {

Status CommandBuffers::initialise() {
  auto pool = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = context_.queue_family;
  WEFT_VULKAN_CHECK("make a command pool", context_.vk.vkCreateCommandPool(context_.device, &pool, nullptr, &pool_));
  return {};
}

void CommandBuffers::release() noexcept { context_.vk.vkDestroyCommandPool(context_.device, pool_, nullptr); }

Status CommandBuffers::begin() {
  if (!submitted_.empty() && submitted_.front().number <= context_.done()) {
    open_ = submitted_.front();
    submitted_.pop_front();
  } else {
    auto allocate = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    allocate.commandPool = pool_;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    WEFT_VULKAN_CHECK("make a command buffer",
                      context_.vk.vkAllocateCommandBuffers(context_.device, &allocate, &open_.buffer));
  }
  auto begin = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  WEFT_VULKAN_CHECK("begin commands", context_.strikes(DriverFault::no_commands)
                                          ? VK_ERROR_OUT_OF_HOST_MEMORY
                                          : context_.vk.vkBeginCommandBuffer(open_.buffer, &begin));
  is_open_ = true;
  return {};
}

Status CommandBuffers::close() {
  if (!is_open_) return {};
  is_open_ = false;
  WEFT_VULKAN_CHECK("end commands", context_.vk.vkEndCommandBuffer(open_.buffer));
  closed_.push_back(open_);
  waiting_.push_back(open_.buffer);
  return {};
}

void CommandBuffers::append(VkCommandBuffer commands, std::uint64_t runs) {
  waiting_.push_back(commands);
  waiting_runs_ += runs;
}

Result<std::uint64_t> CommandBuffers::submit() {
  if (waiting_.empty()) return last_;
  WEFT_TRY(last_, context_.submit(waiting_));
  waiting_.clear();
  waiting_runs_ = 0;
  for (Commands& each : closed_) {
    each.number = last_;
    submitted_.push_back(each);
  }
  closed_.clear();
  return last_;
}

}  // namespace weft::gpu
