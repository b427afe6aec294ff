// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/command_graph.hpp"
#include "gpu/internal/context.hpp"
#include "gpu/internal/graph_capture.hpp"
#include "gpu/internal/pipelines.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::gpu {

class Recorder;

/// A command graph as one command buffer, which may run many times at once, and what it reads.
class RecordedGraph final : public CommandGraph {
 public:
  /// Of what was captured. Leaves in `table` the operands' bytes for table_address(), to be uploaded before it runs.
  static Result<std::shared_ptr<RecordedGraph>> create(std::shared_ptr<Context> context, Heap& heap,
                                                       Pipelines& pipelines, const Recorder& home,
                                                       GraphCapture& captured, std::vector<std::byte>& table);
  ~RecordedGraph() override;
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;

  std::uint64_t operations() const noexcept override { return operations_; }
  std::uint64_t dispatches() const noexcept override { return calls_.size(); }
  std::uint64_t levels() const noexcept override { return levels_; }
  std::uint64_t bytes() const noexcept override { return bytes_; }

  /// Commands that run it as often as they say, at most `most` times. They begin with a barrier that waits for all
  /// before them.
  struct Commands {
    VkCommandBuffer buffer = VK_NULL_HANDLE;
    std::uint64_t runs = 1;
  };
  Result<Commands> commands(std::uint64_t most);
  bool has_conditions() const noexcept { return has_conditions_; }
  std::uint64_t table_address() const noexcept { return table_.address(); }
  /// The stream that captured it.
  const Recorder* home() const noexcept { return home_; }

 private:
  RecordedGraph(std::shared_ptr<Context> context, const Recorder& home) : context_(std::move(context)), home_(&home) {}
  /// A dispatch; the first of its level waits for all before it.
  struct Call {
    VkPipeline pipeline;
    Pipelines::Push push;
    std::uint32_t x, y, z;
    bool is_first;
    bool has_table;
    Place condition;  // of the word that leaves it out; without a buffer: none
  };
  Status initialise(Heap& heap, Pipelines& pipelines, GraphCapture& captured, std::vector<std::byte>& table);
  /// Makes calls of what was captured, `dispatches` of one kind; their operands go into the table.
  Status add_calls(const Heap& heap, Pipelines& pipelines, const GraphCapture& captured,
                   std::span<const GraphCapture::Dispatch> dispatches, std::vector<std::byte>& table);
  Status record(VkCommandBuffer& to, std::uint64_t runs) const;
  void barrier(VkCommandBuffer to) const;

  std::shared_ptr<Context> context_;
  const Recorder* home_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  std::vector<Call> calls_;
  bool has_conditions_ = false;                                     // of some of them
  VkCommandBuffer once_ = VK_NULL_HANDLE, often_ = VK_NULL_HANDLE;  // made when they are asked for
  Buffer table_;
  std::vector<Buffer> memory_;
  std::uint64_t operations_ = 0, levels_ = 0, bytes_ = 0;
};

}  // namespace weft::gpu
