// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"

#include "gpu/vulkan_stream.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::mesh {

/// Words, by node, with which a device decides for itself: a node that has nothing to learn in a step is not updated.
/// @thread one thread at a time
class StepGuards {
 public:
  /// In the device's memory.
  struct Words {
    std::uint32_t* idle = nullptr;     // not 0: the node has nothing to learn in this step
    float* updates = nullptr;          // counts
    const float* minus_one = nullptr;  // one value
  };
  StepGuards(gpu::VulkanStream& to, const Words& words, std::size_t nodes)
      : to_(to), words_(words), is_guarded_(nodes) {}

  /// Skips the node's update in this step when all values, in device memory, are 0.
  void hold_back_if_zero(NodeId node, const float* values, std::size_t count);
  /// Around what moves a node's weights.
  void begin_move(NodeId node);
  void end_move(NodeId node);
  /// Nodes that were held back or might have been, since this was last asked.
  std::vector<NodeId> take();

 private:
  gpu::VulkanStream& to_;
  Words words_;
  std::vector<std::uint8_t> is_guarded_;  // by node
};

}  // namespace weft::mesh
