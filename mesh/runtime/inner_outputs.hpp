// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/weights/weight_store.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace weft::mesh {

/// Outputs of one layer inside a container.
struct InnerOutput {
  std::string name;  // where it stands in the container: "layers[2]"; its parameters' names begin so
  std::size_t width = 0;
  std::vector<float> values;  // [rows][width]
};

/// Values of a row that `inner_outputs` finds for a node: 0 where it finds none.
std::size_t inner_width(const Node& node);

/// Outputs of the layers inside a container, in their order, where the nodes of the network have `outputs`: by node
/// [rows][width], settled ones. Empty where the node is no container, has a hidden state, or does not make its own
/// outputs again of those of its sources: then they were no settled ones. Changes nothing.
/// @exact  the bits of the mesh's own ticks
std::vector<InnerOutput> inner_outputs(const Graph& graph, const WeightStore& weights, NodeId node, std::size_t rows,
                                       const std::vector<const float*>& outputs);

}  // namespace weft::mesh
