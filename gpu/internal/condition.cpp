// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/condition.hpp"

namespace weft::gpu {

void dispatch(const Context& context, VkCommandBuffer commands, const Place& condition, std::uint32_t x,
              std::uint32_t y, std::uint32_t z) {
  if (!condition.buffer) return context.vk.vkCmdDispatch(commands, x, y, z);
  auto begin = structure<VkConditionalRenderingBeginInfoEXT>(VK_STRUCTURE_TYPE_CONDITIONAL_RENDERING_BEGIN_INFO_EXT);
  begin.buffer = condition.buffer, begin.offset = condition.offset;
  context.vk.vkCmdBeginConditionalRenderingEXT(commands, &begin);
  context.vk.vkCmdDispatch(commands, x, y, z);
  context.vk.vkCmdEndConditionalRenderingEXT(commands);
}

}  // namespace weft::gpu
