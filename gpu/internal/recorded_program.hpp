// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/internal/collector.hpp"
#include "gpu/internal/context.hpp"
#include "gpu/internal/pipelines.hpp"
#include "gpu/program.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft::gpu {

class Recorder;

/// A program as one command buffer, which may run many times at once, and what it reads.
class RecordedProgram final : public Program {
 public:
  /// Of what was collected. Leaves in `table` the operands' bytes for table_address(), to be uploaded before it runs.
  static Result<std::shared_ptr<RecordedProgram>> create(std::shared_ptr<Context> context, Heap& heap,
                                                         const Pipelines& pipelines, const Recorder& home,
                                                         Collector& collected, std::vector<std::byte>& table);
  ~RecordedProgram() override;
  RecordedProgram(const RecordedProgram&) = delete;
  RecordedProgram& operator=(const RecordedProgram&) = delete;

  std::uint64_t operations() const noexcept override { return operations_; }
  std::uint64_t dispatches() const noexcept override { return dispatches_; }
  std::uint64_t levels() const noexcept override { return levels_; }
  std::uint64_t bytes() const noexcept override { return bytes_; }

  /// Begins with a barrier that waits for all before it.
  VkCommandBuffer commands() const noexcept { return commands_; }
  std::uint64_t table_address() const noexcept { return table_.address(); }
  /// The stream that collected it.
  const Recorder* home() const noexcept { return home_; }

 private:
  RecordedProgram(std::shared_ptr<Context> context, const Recorder& home)
      : context_(std::move(context)), home_(&home) {}
  Status initialise(Heap& heap, const Pipelines& pipelines, Collector& collected, std::vector<std::byte>& table);
  Status begin();
  Status record(const Pipelines& pipelines, const Collector& collected,
                const std::vector<Collector::Dispatch>& dispatches);
  void barrier();

  std::shared_ptr<Context> context_;
  const Recorder* home_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  Buffer table_;
  std::vector<Buffer> memory_;
  std::uint64_t operations_ = 0, dispatches_ = 0, levels_ = 0, bytes_ = 0;
};

}  // namespace weft::gpu
