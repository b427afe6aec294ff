// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/run_counts.hpp"

#include <algorithm>

namespace weft::mesh {

Status RunCounts::allocate_flags(gpu::Memory& memory) {
  WEFT_TRY(flags_, memory.allocate(sizeof(std::uint32_t), "the flags of a run"));
  return {};
}

Status RunCounts::allocate_counts(gpu::Memory& memory, std::size_t nodes) {
  nodes_ = nodes;
  WEFT_TRY(counts_, memory.allocate((2 * nodes + 1) * sizeof(float), "counts of updates"));
  return {};
}

void RunCounts::drop() {
  flags_ = gpu::Buffer();
  counts_ = gpu::Buffer();
}

StepGuards::Words RunCounts::guards() noexcept {
  float* const counts = counts_.data() + nodes_;
  return {counts_.data<std::uint32_t>(), counts, counts + nodes_};
}

Status RunCounts::reset(gpu::VulkanStream& stream, bool counts) {
  const std::uint32_t none = 0;
  stream.upload(&none, sizeof none, flags_.data<void>());
  if (!counts) return {};
  is_guarded_.assign(nodes_, 0);
  std::vector<float> values(nodes_ + 1, 0.0f);
  values.back() = -1.0f;
  stream.upload(values.data(), values.size() * sizeof(float), counts_.data() + nodes_);
  return stream.status();
}

void RunCounts::add_guarded(std::span<const NodeId> nodes) {
  for (const NodeId node : nodes) is_guarded_[node] = 1;
}

Result<std::uint32_t> RunCounts::download_flags(gpu::VulkanStream& stream) {
  std::uint32_t flags = 0;
  WEFT_CHECK(stream.download(flags_.data<void>(), sizeof flags, &flags));
  return flags;
}

// Whole numbers up to a run's steps, so float32 counts them.
Status RunCounts::download_updates(gpu::VulkanStream& stream, RecordableRule& rule) {
  if (std::find(is_guarded_.begin(), is_guarded_.end(), 1) == is_guarded_.end()) return {};
  std::vector<float> counts(nodes_);
  WEFT_CHECK(stream.download(counts_.data() + nodes_, nodes_ * sizeof(float), counts.data()));
  for (NodeId node = 0; node < nodes_; ++node)
    if (is_guarded_[node]) rule.add_updates(node, static_cast<std::uint64_t>(counts[node]));
  return {};
}

}  // namespace weft::mesh
