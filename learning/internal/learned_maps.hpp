// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/row_limits.hpp"
#include "learning/options.hpp"

#include "mesh/network/graph.hpp"
#include "mesh/network/layer.hpp"

#include "kernels/op_stream.hpp"
#include "kernels/views.hpp"
#include "kernels/weight.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::learning {

/// True where the linear maps inside a layer learn to be undone: the rule has learned inverses, the layer is not one
/// matrix, errors go on from it, and it alone computes with its weights.
bool learns_maps(const mesh::Graph& graph, mesh::NodeId node, const LearningOptions& options);

/// y = x + deviation n, n with the logistic distribution of variance 1. `other`: a scratch of x's size, like y. The
/// counters of `position` [rows, kNoiseState] go up by two.
void add_logistic_noise(kernels::OpStream& stream, const kernels::ConstMatrixView* x, float deviation,
                        std::array<std::uint32_t, 2> key, const kernels::MatrixView& position,
                        const kernels::MatrixView& y, const kernels::MatrixView& other);

/// Matrices B in the places of the linear maps W inside one layer, through whose transposes errors come back. The maps
/// i of a layer that read the same values learn together to undo what they make of noise u:
///   v_i = W_i u,  e = u - sum over i of B_i^T v_i,  B_i += s v_i e^T
///   s = inverse_lr min(1, 1 / (inverse_lr taps sum over i of |v_i|^2))
/// B^T v of a convolution is the transposed convolution, and the product v e^T its gradient by the weights; taps: those
/// of its window, else 1.
/// @thread the one of the region that owns the layer
class LearnedMaps {
 public:
  LearnedMaps() = default;
  /// @param values  floats_of(layer) of them: the layer's parameters, each padded, then the place of the noise
  LearnedMaps(const mesh::Layer& layer, float* values);

  bool empty() const noexcept { return groups_.empty(); }
  /// B, and what else the layer's backward wants.
  mesh::ConstWeights weights() const noexcept { return {views_.data()}; }
  static std::size_t floats_of(const mesh::Layer& layer);
  /// Floats of the memory that learn computes in.
  static std::size_t scratch_of(const mesh::Layer& layer);

  struct Place {
    float* scratch = nullptr;    // scratch_of(layer)
    float* workspace = nullptr;  // Layer::workspace_size()
    RowNumbers rows;             // of one row
    std::array<std::uint32_t, 2> key{};
    float lr = 0;
  };
  /// One step, against the weights that the layer computes with.
  void learn(kernels::OpStream& stream, const mesh::ConstWeights& weights, const Place& place) const noexcept;

 private:
  struct Map {
    std::size_t parameter = 0, in = 0, out = 0;  // of the values that it takes and gives
    const mesh::LinearMap* kind = nullptr;
    kernels::Panels feedback{};
  };
  struct Group {
    std::uint32_t reads = 0;
    std::size_t in = 0, out = 0, taps = 1;  // out: of all maps
    std::vector<Map> maps;
  };
  static std::vector<Group> groups_of(const mesh::Layer& layer);
  void learn_group(kernels::OpStream& stream, const Group& group, const mesh::ConstWeights& weights,
                   const Place& place) const noexcept;

  std::vector<Group> groups_;
  std::vector<kernels::ConstWeight> views_;  // by parameter
  float* position_ = nullptr;
};

}  // namespace weft::learning
