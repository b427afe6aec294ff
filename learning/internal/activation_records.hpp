// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/learning_plan.hpp"
#include "learning/options.hpp"

#include "mesh/runtime/state.hpp"
#include "mesh/runtime/step_rule.hpp"

#include "core/aligned_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// Values that a layer published at one tick, and those that it made them from.
struct Activation {
  kernels::ConstMatrixView x, y, z, cache, state;  // state: hidden, one tick earlier
};

/// Activations of a settled sample, copied layer by layer at the one tick that each hop reads. The sample's error
/// reaches a layer r links before an output r steps after the sample's end and reads what it published r ticks before
/// that end. Rings of all ticks in between would take memory with the square of the network's depth.
/// @thread a layer's part: the thread of the region that owns it
class ActivationRecords {
 public:
  ActivationRecords() = default;
  ActivationRecords(const mesh::Graph& graph, const LearningPlan& plan, const LearningOptions& options);

  bool empty() const noexcept { return values_.empty(); }
  /// Floats that one hop of a layer takes.
  static std::size_t floats_of(const mesh::Graph& graph, mesh::NodeId node, std::size_t learners) noexcept;
  /// True when some hop reads what the layer holds at `left` ticks before the sample's end.
  bool is_due(mesh::NodeId node, std::uint64_t left) const noexcept;
  /// Copies that, in the step that begins at that tick.
  void keep(mesh::StepContext& context, mesh::NodeId node, std::uint64_t left);

  /// The record of a hop that has one.
  Activation at(mesh::NodeId node, std::uint32_t record) noexcept;
  /// Values that source `i` had published one tick earlier; only where sources are combined by their values (max,
  /// gate).
  kernels::ConstMatrixView source(mesh::NodeId node, std::uint32_t record, std::size_t i) noexcept;
  /// All records of a layer.
  std::span<const float> of(mesh::NodeId node) const noexcept;

 private:
  struct Field {
    std::size_t offset = 0, width = 0;  // offset: floats from the beginning of a record
  };
  struct Layout {
    Field x, y, z, cache, state;
    std::vector<Field> sources;
    std::size_t floats = 0;
  };
  static Layout layout_of(const mesh::Graph& graph, mesh::NodeId node, std::size_t learners);
  kernels::MatrixView rows(mesh::NodeId node, std::uint32_t record, const Field& field) noexcept;

  const LearningPlan* plan_ = nullptr;
  std::size_t learners_ = 1;
  std::vector<Layout> layouts_;       // by node
  std::vector<std::size_t> offsets_;  // by node, and the end
  AlignedBuffer<float> values_;
};

}  // namespace weft::learning
