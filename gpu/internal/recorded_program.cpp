// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/recorded_program.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace weft::gpu {
namespace {

/// Those that become one dispatch are equal in it.
auto kind_of(const Collector::Dispatch& d) noexcept { return std::tie(d.level, d.pipeline, d.x, d.y, d.operand_bytes); }

}  // namespace

Result<std::shared_ptr<RecordedProgram>> RecordedProgram::create(std::shared_ptr<Context> context, Heap& heap,
                                                                 const Pipelines& pipelines, const Recorder& home,
                                                                 Collector& collected, std::vector<std::byte>& table) {
  std::shared_ptr<RecordedProgram> program(new RecordedProgram(std::move(context), home));
  WEFT_CHECK(program->initialise(heap, pipelines, collected, table));
  return program;
}

RecordedProgram::~RecordedProgram() {
  if (!context_->is_abandoned()) context_->vk.vkDestroyCommandPool(context_->device, pool_, nullptr);
}

Status RecordedProgram::initialise(Heap& heap, const Pipelines& pipelines, Collector& collected,
                                   std::vector<std::byte>& table) {
  std::vector<Collector::Dispatch>& all = collected.dispatches();
  // In a level by kind; among equals as they came, which is mostly as their operands lie.
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tuple_cat(kind_of(a), std::tie(a.operands)) < std::tuple_cat(kind_of(b), std::tie(b.operands));
  });
  table.clear();
  table.reserve(collected.operands().size());
  for (const Collector::Dispatch& each : all) {
    const auto from = collected.operands().subspan(each.operands, each.operand_bytes);
    table.insert(table.end(), from.begin(), from.end());
  }
  if (!table.empty()) {
    WEFT_TRY(table_, heap.allocate(table.size(), "the operands of a program"));
  }
  memory_ = std::move(collected.memory());
  bytes_ = table_.bytes();
  for (const Buffer& each : memory_) bytes_ += each.bytes();
  operations_ = all.size();
  levels_ = collected.levels();
  WEFT_CHECK(begin());
  WEFT_CHECK(record(pipelines, collected, all));
  WEFT_VULKAN_CHECK("end the commands of a program", context_->vk.vkEndCommandBuffer(commands_));
  return {};
}

Status RecordedProgram::begin() {
  auto pool = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool.queueFamilyIndex = context_->queue_family;
  WEFT_VULKAN_CHECK("make a command pool", context_->vk.vkCreateCommandPool(context_->device, &pool, nullptr, &pool_));
  auto allocate = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  allocate.commandPool = pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  WEFT_VULKAN_CHECK("make a command buffer",
                    context_->vk.vkAllocateCommandBuffers(context_->device, &allocate, &commands_));
  auto begin = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  WEFT_VULKAN_CHECK("begin the commands of a program", context_->strikes(DriverFault::no_commands)
                                                           ? VK_ERROR_OUT_OF_HOST_MEMORY
                                                           : context_->vk.vkBeginCommandBuffer(commands_, &begin));
  return {};
}

void RecordedProgram::barrier() {
  constexpr VkAccessFlags kWrites = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, kWrites,
                               VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
  context_->vk.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                                    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

Status RecordedProgram::record(const Pipelines& pipelines, const Collector& collected,
                               const std::vector<Collector::Dispatch>& all) {
  const auto& vk = context_->vk;
  std::uint32_t level = 0;
  std::uint32_t bound = ~0u;
  Pipelines::Push push{.table = table_.address()};
  for (std::size_t at = 0; at < all.size();) {
    const Collector::Dispatch& first = all[at];
    const std::size_t most = std::size_t{context_->info.max_groups[2]} * first.shares;
    std::size_t count = 1;
    while (count < most && at + count < all.size() && kind_of(all[at + count]) == kind_of(first)) ++count;
    if (std::exchange(level, first.level) != first.level) barrier();
    if (std::exchange(bound, first.pipeline) != first.pipeline)
      vk.vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, collected.pipelines()[first.pipeline]);
    push.table_stride = first.operand_bytes;
    push.entries = static_cast<std::uint32_t>(count);
    vk.vkCmdPushConstants(commands_, pipelines.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
    vk.vkCmdDispatch(commands_, first.x, first.y, static_cast<std::uint32_t>(groups_of(count, first.shares)));
    push.table += count * first.operand_bytes;
    ++dispatches_;
    at += count;
  }
  return {};
}

}  // namespace weft::gpu
