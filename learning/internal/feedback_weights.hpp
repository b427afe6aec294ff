// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include "mesh/network/graph.hpp"

#include "kernels/views.hpp"
#include "kernels/weight.hpp"

#include "core/aligned_buffer.hpp"

#include <cstddef>
#include <vector>

namespace weft::learning {

/// Draws parameter `i` of a layer into memory as its own weights are drawn, with numbers of RandomPurpose::feedback.
/// `drawn`: a scratch.
void draw_parameter(const mesh::Graph& graph, mesh::NodeId node, std::size_t i, std::vector<float>& drawn, float* to);

/// Fixed random weights that errors travel back through, as the rule has them. per_layer: a matrix from the
/// displacement of a layer's output to its input's; of a layer that is not one matrix another draw of its weights,
/// unless these learn (internal/learned_maps.hpp).
/// per_output: from the error of an output to the layer. heads: from the layer to an output.
class FeedbackWeights {
 public:
  FeedbackWeights() = default;
  FeedbackWeights(const mesh::Graph& graph, const LearningOptions& options);

  /// The first matrix of a layer; those of further outputs follow it.
  kernels::ConstPanels of(mesh::NodeId node, std::size_t rows, std::size_t columns, std::size_t before = 0) const {
    return {values_.data() + offsets_[node] + before, rows, columns};
  }
  /// Weights for the backward of a layer that is not one matrix; null: it has none here.
  mesh::ConstWeights weights(mesh::NodeId node) const noexcept {
    return {views_.empty() || views_[node].empty() ? nullptr : views_[node].data()};
  }
  const AlignedBuffer<float>& values() const noexcept { return values_; }
  /// Floats that they take.
  static std::size_t floats_of(const mesh::Graph& graph, const LearningOptions& options);

 private:
  /// Returns where they end.
  std::size_t draw_matrices(const mesh::Graph& graph, const LearningOptions& options);
  void draw_layers(const mesh::Graph& graph, const LearningOptions& options, std::size_t at);

  AlignedBuffer<float> values_;
  std::vector<std::size_t> offsets_;                      // by node
  std::vector<std::vector<kernels::ConstWeight>> views_;  // by node
};

}  // namespace weft::learning
