// SPDX-License-Identifier: Apache-2.0

#include "learning/error_schedule.hpp"

#include <algorithm>
#include <bit>

namespace weft::learning {

ErrorSchedule::ErrorSchedule(const mesh::Graph& graph, Rule rule, std::uint32_t horizon, std::uint64_t most)
    : distances_(graph.nodes().size()) {
  const auto& nodes = graph.nodes();
  const bool is_backprop = rule == Rule::backprop;
  std::vector<bool> is_reached(nodes.size(), false);
  std::vector<mesh::NodeId> front(graph.outputs());
  std::sort(front.begin(), front.end());
  front.erase(std::unique(front.begin(), front.end()), front.end());
  std::uint64_t count = 0;
  for (std::uint32_t distance = 0; !front.empty() && (horizon == 0 || distance < horizon); ++distance) {
    count += front.size();
    is_cut_ = count > most;
    if (is_cut_) return;
    depth_ = distance + 1;
    std::vector<mesh::NodeId> next;
    for (mesh::NodeId id : front) {
      distances_[id].push_back(distance);
      is_reached[id] = true;
    }
    for (mesh::NodeId id : front) {
      // A hidden state is a link from the layer to itself.
      if (is_backprop && nodes[id].layer->state_size()) next.push_back(id);
      for (std::uint32_t e : nodes[id].sources) {
        const mesh::NodeId source = graph.edges()[e].from;
        if (!nodes[source].is_port()) next.push_back(source);
      }
    }
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    const auto is_known = [&](mesh::NodeId id) { return is_reached[id]; };
    if (!is_backprop) std::erase_if(next, is_known);
    // Backprop without a stated horizon stops once the error has reached every layer that it can.
    if (is_backprop && horizon == 0 && std::all_of(next.begin(), next.end(), is_known)) break;
    front = std::move(next);
  }
}

bool ErrorSchedule::has(mesh::NodeId node, std::uint32_t distance) const noexcept {
  return std::binary_search(distances_[node].begin(), distances_[node].end(), distance);
}

std::size_t history_depth(std::uint32_t depth) noexcept {
  return std::bit_ceil<std::size_t>(2 * std::size_t{depth} + 2);
}

}  // namespace weft::learning
