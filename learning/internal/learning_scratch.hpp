// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/learning_plan.hpp"
#include "learning/options.hpp"

#include "mesh/runtime/step_rule.hpp"

#include "kernels/op_stream.hpp"
#include "kernels/views.hpp"

#include "core/aligned_buffer.hpp"
#include "core/cache_line.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::learning {

/// Memory of one region for the learning of one layer after the other.
struct LearningScratch {
  AlignedBuffer<float> delta, work, target, dx, split;
  AlignedBuffer<float> own;  // Layer::scratch_size()
  AlignedBuffer<float> factors, limits, ones;
  AlignedBuffer<float> maps;  // LearnedMaps::scratch_of()
  AlignedBuffer<float> kept;  // ActivationRecords::scratch_of()

  static std::vector<LearningScratch> make(const mesh::Graph& graph, const LearningPlan& plan,
                                           const LearningOptions& options, std::size_t regions);
};

/// A layer in a step that learns, and the half of the messages that the step writes.
struct LayerAt {
  mesh::StepContext& context;
  mesh::NodeId node = 0;
  std::uint64_t parity = 0;
  LearningScratch& scratch;
  std::size_t learners = 1;
  bool is_first = false;                     // of the errors of one update
  kernels::OuterProduct* product = nullptr;  // takes the gradients of a layer that is one product, instead of memory
  bool keeps_products = false;               // of LayerPlan, on the CPU

  /// Rows of the learners in a scratch.
  kernels::MatrixView rows(AlignedBuffer<float>& buffer, std::size_t width) const noexcept {
    return {buffer.data(), learners, width, padded(width)};
  }
  /// Those of the learners among the rows of all sessions.
  kernels::MatrixView learner_rows(const kernels::MatrixView& all) const noexcept {
    return {all.data, learners, all.cols, all.stride};
  }
};

}  // namespace weft::learning
