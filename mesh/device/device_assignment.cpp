// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/device_assignment.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string_view>

namespace weft::mesh {
namespace {

constexpr std::size_t kNamed = 4;  // cells of a list that are named

const LayerSpec* find_registered(std::span<const LayerSpec> layers) {
  static constexpr std::string_view kOwn[] = {
#define WEFT_LAYER(type, meaning) #type,
#include "mesh/layers/layers.def"
#undef WEFT_LAYER
      "shared"};
  for (const LayerSpec& layer : layers) {
    if (std::find(std::begin(kOwn), std::end(kOwn), layer.type) == std::end(kOwn)) return &layer;
    if (const LayerSpec* const inside = find_registered(layer.layers)) return inside;
  }
  return nullptr;
}

std::string named(const Graph& graph, const std::set<std::size_t>& cells) {
  std::string text;
  std::size_t count = 0;
  for (const std::size_t cell : cells) {
    if (count++ == kNamed) return text + " and " + std::to_string(cells.size() - kNamed) + " more";
    const auto& nodes = graph.nodes();
    const auto first = std::find_if(nodes.begin() + static_cast<std::ptrdiff_t>(graph.port_count()), nodes.end(),
                                    [&](const Node& node) { return node.cell == cell; });
    text += (text.empty() ? "(" : ", (") + std::to_string(first->at.z) + "," + std::to_string(first->at.y) + "," +
            std::to_string(first->at.x) + ")";
  }
  return text;
}

// Weights that several layers compute with move when all of them have learned: in the middle of a step, when nothing
// crosses. So all are on one side.
std::set<std::size_t> tied_to(const std::set<std::size_t>& cells, const Graph& graph) {
  const auto& nodes = graph.nodes();
  std::set<std::size_t> tied;
  for (std::size_t before = 0; before != cells.size() + tied.size();) {
    before = cells.size() + tied.size();
    const auto stays = [&](std::size_t cell) { return cells.contains(cell) || tied.contains(cell); };
    for (auto id = static_cast<NodeId>(graph.port_count()); id < nodes.size(); ++id)
      for (const NodeId owner : nodes[id].owners)
        for (const auto& [cell, other] :
             {std::pair{nodes[id].cell, nodes[owner].cell}, {nodes[owner].cell, nodes[id].cell}})
          if (stays(cell) && !stays(other)) tied.insert(other);
  }
  return tied;
}

/// A layer that the network keeps on the host, or that holds one.
bool keeps_cell(const LayerSpec& layer) {
  return layer.device == Placement::cpu || std::any_of(layer.layers.begin(), layer.layers.end(), keeps_cell);
}

}  // namespace

HostPlaces host_places(const Graph& graph) {
  const auto& nodes = graph.nodes();
  const auto first = static_cast<NodeId>(graph.port_count());
  HostPlaces places;
  places.is_host.assign(nodes.size(), 0);
  places.is_custom.assign(nodes.size(), 0);
  std::set<std::size_t> kept, cells;
  std::map<std::string, std::set<std::size_t>> registered;  // by type
  for (const LayerSpec& layer : graph.spec().layers) {
    const NodeId node = *graph.find_layer(layer.at);
    if (const LayerSpec* const found = find_registered({&layer, 1})) {
      places.is_custom[node] = 1;
      registered[found->type].insert(nodes[node].cell);
    } else if (keeps_cell(layer)) {
      kept.insert(nodes[node].cell);
    }
  }
  std::set<std::size_t> rounded;
  for (NodeId id = first; id < nodes.size(); ++id)
    if (nodes[id].value_dtypes.activation != Dtype::float32 || nodes[id].value_dtypes.gradient != Dtype::float32)
      rounded.insert(nodes[id].cell);
  for (NodeId id = first; id < nodes.size(); ++id)
    for (const NodeId owner : nodes[id].owners) places.is_custom[id] |= places.is_custom[owner];
  // Weights that targets move are no part of what a step on both sides can take back.
  std::set<std::size_t> trained;
  if (std::any_of(nodes.begin() + first, nodes.end(), [](const Node& node) { return !node.layer->trains().empty(); }))
    for (NodeId id = first; id < nodes.size(); ++id) trained.insert(nodes[id].cell);
  // Their observations are computed on the host as soon as the values are there.
  std::map<std::string, std::set<std::size_t>> observing, measured;  // by type
  for (const LayerSpec& layer : graph.spec().layers) {
    const Node& node = nodes[*graph.find_layer(layer.at)];
    if (!node.layer->is_observer()) continue;
    observing[layer.type].insert(node.cell);
    for (const std::uint32_t e : node.sources)
      if (node.layer->observes_gradients() && !nodes[graph.edges()[e].from].is_port())
        measured[layer.type].insert(nodes[graph.edges()[e].from].cell);
  }
  const auto add = [&](const std::set<std::size_t>& some, const std::string& reason) {
    if (some.empty()) return;
    places.why += (places.why.empty() ? "" : "; ") + named(graph, some) + ": " + reason;
    cells.insert(some.begin(), some.end());
  };
  add(kept, "kept there by the network");
  for (const auto& [type, those] : registered) add(those, "the layer type '" + type + "' is not one of Weft's own");
  for (const auto& [type, those] : observing) add(those, type + " decides there");
  for (const auto& [type, those] : measured) add(those, type + " measures their gradients");
  add(rounded, "activation_dtype and gradient_dtype round there");
  add(trained, "actors send targets (\"trains\"), which move weights on the host");
  places.is_asked = cells == kept;
  add(tied_to(cells, graph), "weights shared with those");
  for (NodeId id = first; id < nodes.size(); ++id) places.is_host[id] = cells.contains(nodes[id].cell);
  for (const Edge& edge : graph.edges())
    if (nodes[edge.from].is_port() && places.is_host[edge.to]) places.is_host[edge.from] = 1;
  return places;
}

}  // namespace weft::mesh
