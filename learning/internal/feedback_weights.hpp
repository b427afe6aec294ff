// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include "mesh/network/graph.hpp"

#include "kernels/views.hpp"

#include "core/aligned_buffer.hpp"

#include <cstddef>
#include <vector>

namespace weft::learning {

/// Fixed random matrices that errors travel back through. fw_dtp: one [in, width] a layer with a weight matrix, from
/// its target residual to its input's. dfa: one [width, output] a layer and output. Other rules: none.
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
