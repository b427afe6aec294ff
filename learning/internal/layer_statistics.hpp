// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/layer_monitor.hpp"

#include "mesh/network/graph.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/views.hpp"

#include <cstdint>
#include <vector>

namespace weft::learning {

/// Measures layers while they learn, beside their arithmetic: nothing of it goes back.
/// @thread a layer's part: the thread of the region that owns the layer
class LayerStatistics {
 public:
  LayerStatistics(const mesh::Graph& graph, const mesh::WeightStore& weights);

  /// An error that has reached the layer, a row a learner.
  void note_error(mesh::NodeId node, const kernels::ConstMatrixView& error, std::uint64_t age) noexcept;
  /// The layer's output then, and its target.
  void note_target(mesh::NodeId node, const kernels::ConstMatrixView& y,
                   const kernels::ConstMatrixView& target) noexcept;
  /// Around a move of the layer's own weights.
  void begin_move(const mesh::WeightStore& weights, mesh::NodeId node) noexcept;
  void end_move(const mesh::WeightStore& weights, mesh::NodeId node) noexcept;

  /// Of the layers that an error has reached, in the order of the network.
  std::vector<LayerDiagnostics> read() const;

 private:
  struct Layer {
    LayerDiagnostics found;
    bool is_reached = false;
    std::vector<float> before;  // its parameters, one after another
  };
  std::vector<Layer> layers_;  // by node
};

}  // namespace weft::learning
