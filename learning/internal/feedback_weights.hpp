// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include "mesh/network/graph.hpp"

#include "kernels/views.hpp"

#include "core/aligned_buffer.hpp"

#include <cstddef>
#include <vector>

namespace weft::learning {

/// Fixed random matrices that errors travel back through, as the rule has them. per_layer: from the displacement of a
/// layer's output to its input's. per_output: from the error of an output to the layer.
class FeedbackWeights {
 public:
  FeedbackWeights() = default;
  FeedbackWeights(const mesh::Graph& graph, const LearningOptions& options);

  /// The first matrix of a layer; those of further outputs follow it.
  kernels::ConstPanels of(mesh::NodeId node, std::size_t rows, std::size_t columns, std::size_t before = 0) const {
    return {values_.data() + offsets_[node] + before, rows, columns};
  }
  const AlignedBuffer<float>& values() const noexcept { return values_; }

 private:
  AlignedBuffer<float> values_;
  std::vector<std::size_t> offsets_;  // by node
};

}  // namespace weft::learning
