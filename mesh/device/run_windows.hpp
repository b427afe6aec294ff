// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/engine.hpp"
#include "mesh/runtime/run_io.hpp"

#include "gpu/device.hpp"
#include "gpu/memory.hpp"
#include "gpu/vulkan_stream.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace weft::mesh {

/// Steps of one command graph, of the block of steps that a window of inputs and samples holds.
struct BlockSteps {
  std::uint64_t first = 0, count = 0, block = 0, sample = 0;  // the block's first step and sample
};

/// The fed values and the outputs of a block of steps, on the device.
class RunWindows {
 public:
  explicit RunWindows(Engine& engine) : engine_(engine) {}

  /// Forgets the inputs' windows, of which recorded graphs hold addresses.
  void reset_feeds();
  void drop();
  /// Uploads the feeds of these steps, and allocates the outputs of blocks of `block_steps` steps.
  /// @return true when memory was allocated anew: graphs that were recorded before use the old one
  Result<bool> upload(gpu::VulkanStream& stream, gpu::Memory& memory, const BlockSteps& steps,
                      std::uint64_t block_steps);
  /// Downloads the outputs of steps [step, step + count).
  Status download(gpu::VulkanStream& stream, std::uint64_t step, std::uint64_t count);
  /// By port; null: it is not fed.
  std::span<float* const> feeds() const noexcept { return feed_places_; }
  std::span<const OutputSink> sinks() const noexcept { return sink_places_; }

 private:
  std::size_t row(NodeId node) const noexcept;  // floats of a tick
  void push_feed(gpu::VulkanStream& stream, NodeId port, const BlockSteps& steps);
  Result<bool> grow(gpu::Memory& memory, gpu::Buffer& window, std::size_t bytes, const char* what);

  Engine& engine_;
  std::vector<gpu::Buffer> feeds_, sinks_;
  std::vector<float*> feed_places_;
  std::vector<OutputSink> sink_places_;
};

}  // namespace weft::mesh
