// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/recorded_graph.hpp"

#include "gpu/internal/condition.hpp"
#include "gpu/internal/operand_table.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace weft::gpu {
namespace {

/// Those that become one dispatch are equal in it.
auto kind_of(const GraphCapture::Dispatch& d) noexcept {
  return std::tie(d.level, d.kernel, d.x, d.y, d.shares, d.pushes, d.operand_bytes);
}

// Runs of commands that are recorded one after the other for a command graph that runs often: between command buffers a
// device does nothing for a while.
constexpr std::uint64_t kOften = 16;

}  // namespace

Result<std::shared_ptr<RecordedGraph>> RecordedGraph::create(std::shared_ptr<Context> context, Heap& heap,
                                                             Pipelines& pipelines, const Recorder& home,
                                                             GraphCapture& captured, std::vector<std::byte>& table) {
  std::shared_ptr<RecordedGraph> graph(new RecordedGraph(std::move(context), home));
  WEFT_CHECK(graph->initialise(heap, pipelines, captured, table));
  return graph;
}

RecordedGraph::~RecordedGraph() {
  if (!context_->is_abandoned()) context_->vk.vkDestroyCommandPool(context_->device, pool_, nullptr);
}

Status RecordedGraph::initialise(Heap& heap, Pipelines& pipelines, GraphCapture& captured,
                                 std::vector<std::byte>& table) {
  std::vector<GraphCapture::Dispatch>& all = captured.dispatches();
  // In a level by kind; among equals as their first operands lie. Every other level runs the other way: what the last
  // one touched last is still in the device's cache.
  const auto place_of = [&](const GraphCapture::Dispatch& d) {
    std::uint64_t first = 0;
    std::memcpy(&first, captured.operands().data() + d.operands, sizeof first);
    return d.level % 2 ? std::pair(first, d.operands) : std::pair(~first, ~d.operands);
  };
  std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return kind_of(a) != kind_of(b) ? kind_of(a) < kind_of(b) : place_of(a) < place_of(b);
  });
  table.clear();
  layout_ = pipelines.layout();
  for (std::size_t at = 0; at < all.size();) {
    std::size_t count = 1;
    while (at + count < all.size() && kind_of(all[at + count]) == kind_of(all[at])) ++count;
    const std::size_t before = calls_.size();
    WEFT_CHECK(add_calls(heap, pipelines, captured, std::span(all).subspan(at, count), table));
    calls_[before].is_first = at == 0 || all[at - 1].level != all[at].level;
    at += count;
  }
  if (!table.empty()) {
    WEFT_TRY(table_, heap.allocate(table.size(), "the operands of a command graph"));
    for (Call& call : calls_)
      if (call.has_table) call.push.table += table_.address();
  }
  memory_ = std::move(captured.memory());
  bytes_ = table_.bytes();
  for (const Buffer& each : memory_) bytes_ += each.bytes();
  operations_ = all.size();
  levels_ = 0;
  for (const Call& call : calls_) levels_ += call.is_first ? 1 : 0;
  auto pool = structure<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  pool.queueFamilyIndex = context_->queue_family;
  WEFT_VULKAN_CHECK("make a command pool", context_->vk.vkCreateCommandPool(context_->device, &pool, nullptr, &pool_));
  return {};
}

Status RecordedGraph::add_calls(const Heap& heap, Pipelines& pipelines, const GraphCapture& captured,
                                std::span<const GraphCapture::Dispatch> dispatches, std::vector<std::byte>& table) {
  const GraphCapture::Dispatch& first = dispatches.front();
  const std::size_t words = first.operand_bytes / sizeof(std::uint64_t);
  std::vector<std::uint64_t> entries(dispatches.size() * words);
  for (std::size_t i = 0; i < dispatches.size(); ++i)
    std::memcpy(entries.data() + i * words, captured.operands().data() + dispatches[i].operands, first.operand_bytes);
  const GraphCapture::Kernel& kernel = captured.kernels()[first.kernel];
  const std::size_t most = std::size_t{context_->info.max_groups[2]} * first.shares;
  Place condition;
  if (kernel.condition != 0) {
    has_conditions_ = true;
    WEFT_TRY(condition, heap.find(kernel.condition, sizeof(std::uint32_t)));
  }
  for (const OperandRun& run : tabulate(entries, words, {first.shares, most, first.pushes}, table)) {
    WEFT_TRY(const VkPipeline pipeline, pipelines.get(*kernel.shader, kernel.constants, run.form));
    Pipelines::Push push{
        .table = run.place, .table_stride = first.operand_bytes, .entries = static_cast<std::uint32_t>(run.count)};
    const bool has_table = run.form.shares != 0 && !run.form.is_pushed;
    if (!has_table) std::memcpy(static_cast<void*>(&push), run.pushed.data(), sizeof push);
    calls_.push_back({pipeline, push, first.x, first.y, static_cast<std::uint32_t>(groups_of(run.count, first.shares)),
                      false, has_table, condition});
  }
  return {};
}

Result<RecordedGraph::Commands> RecordedGraph::commands(std::uint64_t most) {
  const bool is_often = most >= kOften;
  VkCommandBuffer& buffer = is_often ? often_ : once_;
  if (!buffer) WEFT_CHECK(record(buffer, is_often ? kOften : 1));
  return Commands{buffer, is_often ? kOften : 1};
}

Status RecordedGraph::record(VkCommandBuffer& to, std::uint64_t runs) const {
  const auto& vk = context_->vk;
  VkCommandBuffer buffer = VK_NULL_HANDLE;
  auto allocate = structure<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  allocate.commandPool = pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  WEFT_VULKAN_CHECK("make a command buffer", vk.vkAllocateCommandBuffers(context_->device, &allocate, &buffer));
  auto begin = structure<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
  begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  WEFT_VULKAN_CHECK("begin the commands of a command graph", context_->strikes(DriverFault::no_commands)
                                                                 ? VK_ERROR_OUT_OF_HOST_MEMORY
                                                                 : vk.vkBeginCommandBuffer(buffer, &begin));
  VkPipeline bound = VK_NULL_HANDLE;
  for (std::uint64_t run = 0; run < runs; ++run)
    for (const Call& call : calls_) {
      if (call.is_first) barrier(buffer);
      if (std::exchange(bound, call.pipeline) != call.pipeline)
        vk.vkCmdBindPipeline(buffer, VK_PIPELINE_BIND_POINT_COMPUTE, call.pipeline);
      vk.vkCmdPushConstants(buffer, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof call.push, &call.push);
      dispatch(*context_, buffer, call.condition, call.x, call.y, call.z);
    }
  WEFT_VULKAN_CHECK("end the commands of a command graph", vk.vkEndCommandBuffer(buffer));
  to = buffer;
  return {};
}

void RecordedGraph::barrier(VkCommandBuffer to) const {
  constexpr VkAccessFlags kWrites = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  const VkMemoryBarrier memory{
      VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, kWrites,
      VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | (has_conditions_ ? kConditionAccess : 0)};
  const VkPipelineStageFlags conditions = has_conditions_ ? kConditionStage : 0;
  context_->vk.vkCmdPipelineBarrier(
      to, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | conditions,
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | conditions, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

}  // namespace weft::gpu
