// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/learned_maps.hpp"
#include "learning/internal/row_limits.hpp"
#include "learning/options.hpp"

#include "mesh/network/graph.hpp"
#include "mesh/network/layer.hpp"

#include "kernels/op_stream.hpp"
#include "kernels/views.hpp"

#include "core/aligned_buffer.hpp"
#include "core/archive.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// Feedback functions g(y) = V y, or tanh(V y + c), of layers with a weight matrix, which learn to undo the layer. Of a
/// sample x' = x + noise and y' = f(x') under the present weights:
///   V += s (x' - g(y')) g' y'^T,  c += s (x' - g(y')) g',   s = inverse_lr min(1, 1 / (inverse_lr |y'|^2)) / learners
/// Of other layers the linear maps inside them (LearnedMaps).
/// @thread a layer's part: the thread of the region that owns it
class LearnedInverses {
 public:
  LearnedInverses() = default;
  LearnedInverses(const mesh::Graph& graph, const LearningOptions& options);

  bool has(mesh::NodeId node) const noexcept { return node < sizes_.size() && sizes_[node] != 0; }
  bool has_maps(mesh::NodeId node) const noexcept { return has(node) && !maps_[node].empty(); }
  /// A layer with a weight matrix has a function g.
  bool has_matrix(mesh::NodeId node) const noexcept { return has(node) && maps_[node].empty(); }
  /// Weights for the backward of a layer whose maps learn.
  mesh::ConstWeights weights(mesh::NodeId node) const noexcept { return maps_[node].weights(); }
  kernels::ConstPanels matrix(mesh::NodeId node) const noexcept { return {at(node), in_[node], width_[node]}; }
  const float* bias(mesh::NodeId node) const noexcept { return at(node) + matrix_size(node); }
  /// Everything of a layer that learning changes.
  std::span<float> values(mesh::NodeId node) noexcept { return {at(node), sizes_[node]}; }
  std::span<const float> values(mesh::NodeId node) const noexcept { return {at(node), sizes_[node]}; }
  static std::size_t floats_of(const mesh::Graph& graph, const LearningOptions& options);

  /// Rows to compute in, as wide as the layer's input and output, and a number a row.
  struct Scratch {
    kernels::MatrixView input, other_input, output, other_output;
    RowNumbers rows;
  };
  /// Learns from the inputs `x` of a layer with the weights that it computes with.
  void learn(kernels::OpStream& stream, mesh::NodeId node, const mesh::Layer& layer, const mesh::ConstWeights& weights,
             const kernels::ConstMatrixView& x, const Scratch& scratch) noexcept;

  /// The same of a layer whose maps learn. `scratch`: LearnedMaps::scratch_of floats, `rows` those of one row.
  void learn_maps(kernels::OpStream& stream, mesh::NodeId node, const mesh::ConstWeights& weights, float* scratch,
                  float* workspace, const RowNumbers& rows) const noexcept;

  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive, mesh::NodeId first, std::size_t count) {
    for (mesh::NodeId node = first; node < first + count; ++node)
      if (self.has(node)) archive(Field{"inverse", Scope::optimizer, node, Field::kOnly, true}, self.values(node));
  }

 private:
  std::size_t matrix_size(mesh::NodeId node) const noexcept { return kernels::panels_size(in_[node], width_[node]); }
  std::array<std::uint32_t, 2> noise_key(mesh::NodeId node) const noexcept;
  float* at(mesh::NodeId node) noexcept { return values_.data() + offsets_[node]; }
  const float* at(mesh::NodeId node) const noexcept { return values_.data() + offsets_[node]; }

  AlignedBuffer<float> values_;  // of each layer: its matrix, its bias, the place of its noise for each learner
  std::vector<std::size_t> offsets_, sizes_, in_, width_;  // by node
  std::vector<LearnedMaps> maps_;                          // by node
  std::size_t learners_ = 1;
  std::uint64_t seed_ = 0;
  float lr_ = 0, noise_ = 0;
  bool is_tanh_ = false;
};

}  // namespace weft::learning
