// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/graph.hpp"

#include "mesh/network/internal/network_errors.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

namespace weft::mesh {

using internal::check_extents;
using internal::key_path;

namespace {

/// Longest name of a network, port or output: what read_network takes, so that what was built can be saved and read.
constexpr std::size_t kMaxName = 256;

Status check_name(std::string_view object, const std::string& name) {
  if (name.size() <= kMaxName) return {};
  return fail(Errc::too_large, std::string(object) + ": a name of " + std::to_string(name.size()) +
                                   " characters, at most " + std::to_string(kMaxName) + " are read back");
}

std::string layer_object(std::size_t position, Coord at) {
  return "layers[" + std::to_string(position) + "] " + to_string(at);
}

Result<Encoding> encoding_of(std::size_t position, const LayerSpec& layer) {
  if (layer.granularity && !has_scale(layer.dtype))
    return fail(Errc::unsupported, key_path(position, layer.at, "granularity") + ": '" +
                                       std::string(name(*layer.granularity)) + "' with dtype " +
                                       std::string(name(layer.dtype)) + ", which has no scales; leave it away");
  if (layer.granularity)
    if (auto fits = check_granularity(layer.dtype, *layer.granularity); !fits)
      return fail(std::move(fits).error().within(key_path(position, layer.at, "granularity")));
  return Encoding(layer.dtype, layer.granularity);
}

}  // namespace

Result<Graph> Graph::build(const NetworkSpec& spec) {
  Graph graph;
  graph.spec_ = spec;
  // Ports and outputs have one order, by name, whatever order the description had: a network's file keeps none, and
  // learning adds up errors, and draws feedback weights, in the order of outputs.
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::stable_sort(graph.spec_.inputs.begin(), graph.spec_.inputs.end(), by_name);
  std::stable_sort(graph.spec_.outputs.begin(), graph.spec_.outputs.end(), by_name);
  WEFT_CHECK(check_name("name", spec.name));
  WEFT_CHECK(spec.grid.check());
  WEFT_CHECK(graph.add_layers());
  WEFT_CHECK(graph.add_links());
  graph.find_components();
  graph.find_order();
  WEFT_CHECK(graph.infer_shapes());
  WEFT_CHECK(graph.add_outputs());
  return graph;
}

Status Graph::add_layers() {
  std::set<std::string_view> names;
  for (const PortSpec& port : spec_.inputs) {
    const std::string object = "inputs." + port.name;
    if (port.name.empty()) return fail(Errc::parse_failed, "inputs: a port needs a name");
    WEFT_CHECK(check_name("inputs", port.name));
    if (!names.insert(port.name).second) return fail(Errc::duplicate_name, object + ": this port stands twice");
    WEFT_TRY(const std::size_t width, check_extents(object, port.shape));
    Node node;
    node.object = "input '" + port.name + "'";
    node.port = port.name;
    node.width = width;
    node.shape = port.shape;
    nodes_.push_back(std::move(node));
    layer_position_.push_back(0);
  }
  if (spec_.layers.empty()) return fail(Errc::parse_failed, "layers: a network needs at least one layer");

  std::vector<std::size_t> positions(spec_.layers.size());
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  for (std::size_t i : positions) {
    const Coord at = spec_.layers[i].at;
    if (!spec_.grid.contains(at))
      return fail(Errc::out_of_range, "layers[" + std::to_string(i) + "].at: " + to_string(at) +
                                          " is outside the grid " + to_string(spec_.grid) + " (z,y,x,layers)");
  }
  std::stable_sort(positions.begin(), positions.end(), [&](std::size_t a, std::size_t b) {
    return spec_.grid.index(spec_.layers[a].at) < spec_.grid.index(spec_.layers[b].at);
  });
  for (std::size_t i : positions) {
    const LayerSpec& layer = spec_.layers[i];
    Node node;
    node.object = layer_object(i, layer.at);
    node.at = layer.at;
    node.cell = spec_.grid.index(layer.at) / spec_.grid.layers;
    // A residual is a sum by definition.
    node.combine = layer.type == "residual" ? Combine::add : layer.combine;
    WEFT_TRY(node.encoding, encoding_of(i, layer));
    node.activations = layer.activations;
    node.value_dtypes = {layer.activation_dtype, layer.gradient_dtype};
    node.quantization_aware = layer.quantization_aware;
    node.rate_scale = layer.rate_scale;
    node.is_frozen = layer.is_frozen;
    if (nodes_.size() > spec_.inputs.size() && nodes_.back().at == layer.at)
      return fail(Errc::duplicate_name, node.object + ": this place holds " + nodes_.back().object + " already");
    nodes_.push_back(std::move(node));
    layer_position_.push_back(i);
  }
  return check_cells();
}

std::string Graph::key_of(NodeId id, std::string_view key) const {
  return key_path(layer_position_[id], nodes_[id].at, key);
}

template <class Name>
Status Graph::check_one_a_cell(std::string_view key, Name&& name_of) const {
  NodeId speaker = 0;  // the layer that stated its cell's
  bool has_spoken = false;
  for (NodeId id = static_cast<NodeId>(port_count()); id < nodes_.size(); ++id) {
    if (id > port_count() && nodes_[id].cell != nodes_[id - 1].cell) has_spoken = false;
    const std::string_view said = name_of(spec_.layers[layer_position_[id]]);
    if (said.empty()) continue;
    const std::string_view other = name_of(spec_.layers[layer_position_[speaker]]);
    if (has_spoken && said != other)
      return fail(Errc::duplicate_name, key_of(id, key) + ": '" + std::string(said) + "', where " +
                                            nodes_[speaker].object + " says '" + std::string(other) +
                                            "'; a cell has one " + std::string(key));
    speaker = id;
    has_spoken = true;
  }
  return {};
}

Status Graph::check_cells() const {
  WEFT_CHECK(check_one_a_cell("policy", [](const LayerSpec& layer) {
    return layer.policy ? actors::name(*layer.policy) : std::string_view();
  }));
  return check_one_a_cell(
      "device", [](const LayerSpec& layer) { return layer.device ? name(*layer.device) : std::string_view(); });
}

Result<std::vector<NodeId>> Graph::resolve_sources(std::size_t position, NodeId self) const {
  const LayerSpec& layer = spec_.layers[position];
  std::vector<NodeId> sources;
  if (layer.from.empty() && layer.neighbours == Neighbourhood::none) {
    if (self > port_count()) return std::vector<NodeId>{self - 1};
    if (port_count() == 1) return std::vector<NodeId>{0};
    return fail(Errc::parse_failed, key_of(self, "from") + ": the first layer must name its sources, since there are " +
                                        std::to_string(port_count()) + " inputs");
  }
  for (std::size_t i = 0; i < layer.from.size(); ++i) {
    const Source& source = layer.from[i];
    const std::string object = key_of(self, "from[" + std::to_string(i) + "]") + ": ";
    if (source.is_port()) {
      const auto port = find_port(source.port);
      if (!port) return fail(Errc::unknown_name, object + "no input is named '" + source.port + "'");
      sources.push_back(*port);
      continue;
    }
    if (!spec_.grid.contains(source.at))
      return fail(Errc::out_of_range,
                  object + to_string(source.at) + " is outside the grid " + to_string(spec_.grid) + " (z,y,x,layers)");
    const auto found = find_layer(source.at);
    if (!found) return fail(Errc::unknown_name, object + "no layer stands at " + to_string(source.at));
    sources.push_back(*found);
  }
  add_neighbours(layer, sources);
  if (sources.empty())
    return fail(Errc::shape_mismatch, key_of(self, "neighbours") +
                                          ": no layer stands in any neighbouring cell at level " +
                                          std::to_string(layer.at.l));
  return sources;
}

void Graph::add_neighbours(const LayerSpec& layer, std::vector<NodeId>& sources) const {
  if (layer.neighbours == Neighbourhood::none) return;
  for (int dz = -1; dz <= 1; ++dz)
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx) {
        const int distance = std::abs(dz) + std::abs(dy) + std::abs(dx);
        if (distance == 0 || (layer.neighbours == Neighbourhood::von_neumann && distance != 1)) continue;
        // Unsigned wrap-around below zero lands outside the grid, which `contains` refuses.
        const Coord at{layer.at.z + static_cast<std::uint32_t>(dz), layer.at.y + static_cast<std::uint32_t>(dy),
                       layer.at.x + static_cast<std::uint32_t>(dx), layer.at.l};
        if (!spec_.grid.contains(at)) continue;
        if (const auto found = find_layer(at)) sources.push_back(*found);
      }
}

Status Graph::add_links() {
  for (NodeId id = static_cast<NodeId>(port_count()); id < nodes_.size(); ++id) {
    WEFT_TRY(const auto sources, resolve_sources(layer_position_[id], id));
    const LayerSpec& layer = spec_.layers[layer_position_[id]];
    if (layer.type == "residual" && sources.size() < 2)
      return fail(Errc::shape_mismatch,
                  key_of(id, "from") + ": a residual sums at least two sources, not " + std::to_string(sources.size()));
    for (std::size_t i = 0; i < sources.size(); ++i) {
      Edge edge;
      edge.from = sources[i];
      edge.to = id;
      edge.position = static_cast<std::uint32_t>(i);
      nodes_[id].sources.push_back(static_cast<std::uint32_t>(edges_.size()));
      nodes_[edge.from].readers.push_back(static_cast<std::uint32_t>(edges_.size()));
      edges_.push_back(edge);
    }
  }
  return {};
}

Status Graph::add_outputs() {
  std::set<std::string_view> names;
  for (const OutputSpec& output : spec_.outputs) {
    const std::string object = "outputs." + output.name;
    if (output.name.empty()) return fail(Errc::parse_failed, "outputs: an output needs a name");
    WEFT_CHECK(check_name("outputs", output.name));
    if (!names.insert(output.name).second) return fail(Errc::duplicate_name, object + ": this output stands twice");
    if (!spec_.grid.contains(output.at))
      return fail(Errc::out_of_range, object + ": " + to_string(output.at) + " is outside the grid " +
                                          to_string(spec_.grid) + " (z,y,x,layers)");
    const auto found = find_layer(output.at);
    if (!found) return fail(Errc::unknown_name, object + ": no layer stands at " + to_string(output.at));
    outputs_.push_back(*found);
  }
  return {};
}

std::optional<NodeId> Graph::find_port(std::string_view name) const noexcept {
  const auto first = nodes_.begin(), last = first + static_cast<std::ptrdiff_t>(port_count());  // sorted by name
  const auto found =
      std::lower_bound(first, last, name, [](const Node& node, std::string_view n) { return node.port < n; });
  if (found == last || found->port != name) return std::nullopt;
  return static_cast<NodeId>(found - first);
}

std::size_t Graph::workspace_size() const noexcept {
  std::size_t most = 0;
  for (const Node& node : nodes_)
    if (node.layer) most = std::max(most, node.layer->workspace_size());
  return most;
}

std::optional<NodeId> Graph::find_layer(Coord at) const noexcept {
  const auto first = nodes_.begin() + static_cast<std::ptrdiff_t>(port_count());
  const auto found = std::lower_bound(first, nodes_.end(), spec_.grid.index(at),
                                      [&](const Node& node, std::size_t i) { return spec_.grid.index(node.at) < i; });
  if (found == nodes_.end() || found->at != at) return std::nullopt;
  return static_cast<NodeId>(found - nodes_.begin());
}

std::optional<NodeId> Graph::find_output(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < spec_.outputs.size(); ++i)
    if (spec_.outputs[i].name == name) return outputs_[i];
  return std::nullopt;
}

}  // namespace weft::mesh
