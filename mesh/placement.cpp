// SPDX-License-Identifier: Apache-2.0

#include "mesh/placement.hpp"

#include <cstddef>
#include <set>

namespace weft::mesh {

std::vector<std::uint8_t> host_nodes(const Graph& graph) {
  const auto& nodes = graph.nodes();
  const auto first = static_cast<NodeId>(graph.port_count());
  std::set<std::size_t> cells;
  for (const LayerSpec& layer : graph.spec().layers)
    if (layer.device == Placement::cpu) cells.insert(nodes[*graph.find_layer(layer.at)].cell);
  // Weights that several layers compute with move when all of them have learned: in the middle of a step, when nothing
  // crosses. So all are on one side.
  for (std::size_t before = 0; before != cells.size();) {
    before = cells.size();
    for (NodeId id = first; id < nodes.size(); ++id)
      for (const NodeId owner : nodes[id].owners)
        if (cells.contains(nodes[id].cell) || cells.contains(nodes[owner].cell))
          cells.insert({nodes[id].cell, nodes[owner].cell});
  }
  std::vector<std::uint8_t> is_host(nodes.size(), 0);
  for (NodeId id = first; id < nodes.size(); ++id) is_host[id] = cells.contains(nodes[id].cell);
  for (const Edge& edge : graph.edges())
    if (nodes[edge.from].is_port() && is_host[edge.to]) is_host[edge.from] = 1;
  return is_host;
}

}  // namespace weft::mesh
