// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/device/recordable_rule.hpp"
#include "mesh/device/step_guards.hpp"

#include "gpu/device.hpp"
#include "gpu/memory.hpp"
#include "gpu/vulkan_stream.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::mesh {

/// Words that a device writes as it runs steps: flags of what went wrong, and counts of updates that it predicates
/// itself.
class RunCounts {
 public:
  Status allocate_flags(gpu::Memory& memory);
  Status allocate_counts(gpu::Memory& memory, std::size_t nodes);
  void drop();

  std::uint32_t* flags() noexcept { return flags_.data<std::uint32_t>(); }
  StepGuards::Words guards() noexcept;
  /// Before a run. `counts`: updates too.
  Status reset(gpu::VulkanStream& stream, bool counts);
  /// Updates of these nodes are predicated in the run under way.
  void add_guarded(std::span<const NodeId> nodes);
  Result<std::uint32_t> download_flags(gpu::VulkanStream& stream);
  /// Adds the counts to the rule's.
  Status download_updates(gpu::VulkanStream& stream, RecordableRule& rule);

 private:
  gpu::Buffer flags_;
  gpu::Buffer counts_;                    // by node: predicates, then counts, and -1 at the end
  std::vector<std::uint8_t> is_guarded_;  // by node, in the run under way
  std::size_t nodes_ = 0;
};

}  // namespace weft::mesh
