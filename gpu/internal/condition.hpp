// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/context.hpp"
#include "gpu/internal/heap.hpp"
#include "gpu/internal/range.hpp"

#include <cstdint>

namespace weft::gpu {

/// Dispatches that a word in memory leaves out where it is 0 (VK_EXT_conditional_rendering), on devices that have them.

/// The word at an address; no range of 0.
inline Range condition_range(std::uint64_t word) noexcept { return {word, word ? word + sizeof(std::uint32_t) : 0}; }
/// Stages and accesses of such a dispatch, for the barriers of streams and command graphs that have one.
inline constexpr VkPipelineStageFlags kConditionStage = VK_PIPELINE_STAGE_CONDITIONAL_RENDERING_BIT_EXT;
inline constexpr VkAccessFlags kConditionAccess = VK_ACCESS_CONDITIONAL_RENDERING_READ_BIT_EXT;
/// A dispatch into `commands`, left out where the word at `condition` is 0; without a buffer it always runs.
void dispatch(const Context& context, VkCommandBuffer commands, const Place& condition, std::uint32_t x,
              std::uint32_t y, std::uint32_t z);

}  // namespace weft::gpu
