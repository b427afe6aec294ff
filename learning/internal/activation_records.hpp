// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/learning_plan.hpp"
#include "learning/options.hpp"

#include "mesh/runtime/state.hpp"
#include "mesh/runtime/step_rule.hpp"

#include "core/aligned_buffer.hpp"
#include "core/archive.hpp"
#include "core/dtype.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// Values that a layer published at one tick, and those that it made them from.
struct Activation {
  kernels::ConstMatrixView x, y, z, cache, state;  // state: hidden, one tick earlier
};

/// Memory of a region where narrow types are read. Steps that are recorded for a device, which never reads them, leave
/// it as it is.
struct Unpacking {
  float* to = nullptr;
  bool is_recorded = false;
};

/// Activations copied layer by layer, in the layer's `activation_dtype`, in one of two orders.
///
/// By hop, of a settled sample: at the one tick that each hop reads. The sample's error reaches a layer r links before
/// an output r steps after the sample's end and reads what it published r ticks before that end. Rings of all ticks in
/// between would take memory with the square of the network's depth.
///
/// By tick, of layers whose type is narrow: those of the last ticks, in the place of the mesh's rings, which are as
/// short as without learning then. The input of a layer that reads one of the same type is in that one's records.
/// @thread a layer's part: the thread of the region that owns it
class ActivationRecords {
 public:
  ActivationRecords() = default;
  ActivationRecords(const mesh::Graph& graph, const LearningPlan& plan, const LearningOptions& options);

  bool empty() const noexcept { return values_.empty(); }
  /// Floats that one record of a layer takes, or as many bytes of other types.
  static std::size_t floats_of(const mesh::Graph& graph, const History& history, mesh::NodeId node,
                               std::size_t learners) noexcept;
  /// Floats that a record of a narrow type takes where it is read.
  static std::size_t scratch_of(const mesh::Graph& graph, mesh::NodeId node, std::size_t learners) noexcept;

  /// True when some hop reads what the layer holds at `left` ticks before the sample's end.
  bool is_due(mesh::NodeId node, std::uint64_t left) const noexcept;
  /// Copies that, in the step that begins at that tick.
  void keep(mesh::StepContext& context, mesh::NodeId node, std::uint64_t left) noexcept;
  /// Records kept of the last ticks; 0: the layer's are not kept by tick.
  std::size_t ticks_of(mesh::NodeId node) const noexcept { return plan_->history.ticks_of(node); }
  /// Copies what the layer published at the present tick, of a layer that keeps them by tick.
  void keep_tick(mesh::StepContext& context, mesh::NodeId node) noexcept;

  /// True when what the hop reads is in a record.
  bool has(mesh::NodeId node, const Hop& hop) const noexcept { return hop.has_record() || ticks_of(node) != 0; }
  /// That, of what the layer published at `tick`. `scratch`: where narrow types are read; the next call may change it.
  Activation at(mesh::NodeId node, const Hop& hop, std::uint64_t tick, const Unpacking& scratch) noexcept;
  /// Values that source `i` had published one tick earlier; only where sources are combined by their values (max,
  /// gate).
  kernels::ConstMatrixView source(mesh::NodeId node, const Hop& hop, std::uint64_t tick, std::size_t i,
                                  const Unpacking& scratch) noexcept;
  /// All records of a layer.
  std::span<const float> of(mesh::NodeId node) const noexcept;

  /// Those kept by tick, which later steps read; the others are of one sample, and read before it ends.
  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    for (mesh::NodeId node = 0; node < self.layouts_.size(); ++node)
      if (self.ticks_of(node) != 0) archive(Field{"kept", Scope::messages, node}, self.words_of(node));
  }

 private:
  static constexpr mesh::NodeId kNoSource = UINT32_MAX;
  struct Part {
    std::size_t offset = 0, width = 0;  // offset: floats from the beginning of a record
    std::size_t unpacked = 0;           // the same where narrow types are read
  };
  struct Layout {
    Part x, y, z, cache, state;
    std::vector<Part> sources;
    std::size_t floats = 0, unpacked = 0;
    Dtype dtype = Dtype::float32;
    mesh::NodeId input = kNoSource;  // the layer whose records have the input; none: its own
  };
  static Layout layout_of(const mesh::Graph& graph, const History& history, mesh::NodeId node, std::size_t learners);
  void put(mesh::StepContext& context, mesh::NodeId node, std::size_t record, const Part& part,
           const kernels::MatrixView& from) noexcept;
  float* place(mesh::NodeId node, std::size_t record, const Part& part) noexcept {
    return values_.data() + offsets_[node] + record * layouts_[node].floats + part.offset;
  }
  std::size_t record_of(mesh::NodeId node, const Hop& hop, std::uint64_t tick) const noexcept {
    return hop.has_record() ? hop.record : tick % ticks_of(node);
  }
  kernels::MatrixView rows(mesh::NodeId node, std::size_t record, const Part& part, const Unpacking& scratch) noexcept;
  kernels::MatrixView rows(mesh::NodeId node, std::size_t record, const Part& part, const Unpacking& scratch,
                           std::size_t unpacked) noexcept;
  std::span<std::uint32_t> words_of(mesh::NodeId node) noexcept {
    return {reinterpret_cast<std::uint32_t*>(values_.data() + offsets_[node]), offsets_[node + 1] - offsets_[node]};
  }
  std::span<const std::uint32_t> words_of(mesh::NodeId node) const noexcept {
    return const_cast<ActivationRecords*>(this)->words_of(node);
  }

  const LearningPlan* plan_ = nullptr;
  std::size_t learners_ = 1;
  std::vector<Layout> layouts_;       // by node
  std::vector<std::size_t> offsets_;  // by node, and the end
  AlignedBuffer<float> values_;
};

}  // namespace weft::learning
