// SPDX-License-Identifier: Apache-2.0

#include "mesh/graph.hpp"

#include "mesh/combine.hpp"

#include "core/shape.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

namespace weft::mesh {
namespace {

/// Most axes of a shape.
constexpr std::size_t kMaxRank = 8;

/// Longest name of a network, port or output: what read_network takes, so that what was built can be saved and read.
constexpr std::size_t kMaxName = 256;

Status check_name(std::string_view object, const std::string& name) {
  if (name.size() <= kMaxName) return {};
  return fail(Errc::too_large, std::string(object) + ": a name of " + std::to_string(name.size()) +
                                   " characters, at most " + std::to_string(kMaxName) + " are read back");
}

/// The number of values of a shape that a network states.
Result<std::size_t> check_extents(const std::string& object, const Shape& shape) {
  if (shape.empty() || shape.size() > kMaxRank)
    return fail(Errc::out_of_range, object + ": a shape of " + std::to_string(shape.size()) + " axes, not 1 to " +
                                        std::to_string(kMaxRank));
  auto values = volume(shape);
  if (!values || *values > kMaxWidth)
    return fail(Errc::out_of_range, object + ": width " +
                                        (shape.size() == 1 ? std::to_string(shape[0]) : weft::to_string(shape)) +
                                        " is outside [1, 16777216]");
  return values;
}

/// Where a key of the network file stands, and which place that is: "layers[3].out ([0,1,0,0])".
std::string key_path(std::size_t position, Coord at, std::string_view key) {
  return "layers[" + std::to_string(position) + "]." + std::string(key) + " (" + to_string(at) + ")";
}

std::string number_text(float value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

/// An error whose text begins with a path of the network file, told of the place too.
Failure placed(const Error& error, Coord at) {
  std::string text = error.text();
  text.insert(std::min(text.find(": "), text.size()), " (" + to_string(at) + ")");
  return fail(error.code(), std::move(text), error.file(), error.line());
}

std::string layer_object(std::size_t position, Coord at) {
  return "layers[" + std::to_string(position) + "] " + to_string(at);
}

Result<Encoding> encoding_of(std::size_t position, const LayerSpec& layer) {
  if (layer.granularity && !has_scale(layer.dtype))
    return fail(Errc::unsupported, key_path(position, layer.at, "granularity") + ": '" +
                                       std::string(name(*layer.granularity)) + "' with dtype " +
                                       std::string(name(layer.dtype)) + ", which has no scales; leave it away");
  return Encoding(layer.dtype, layer.granularity);
}

/// Only matrices are stored in other types: a key about them on a layer without one is a mistake.
Status check_has_matrix(std::size_t position, const LayerSpec& spec, const Layer& layer) {
  for (const ParameterSpec& parameter : layer.parameters())
    if (parameter.is_matrix()) return {};
  const bool has_dtype = spec.dtype != Dtype::float32;
  if (!has_dtype && !spec.quantization_aware) return {};
  const std::string purpose = has_dtype ? "store as " + std::string(name(spec.dtype)) : "train through";
  return fail(Errc::unsupported, key_path(position, spec.at, has_dtype ? "dtype" : "qat") + ": a " + spec.type +
                                     " layer has no weight matrix to " + purpose + "; leave it away");
}

}  // namespace

Status check_values(const Node& port, std::span<const float> values) {
  const auto refused = [&](std::size_t i, Errc code, const std::string& text) {
    return fail(code, port.object + ": value " + std::to_string(i) + " is " + text);
  };
  const auto limit = static_cast<float>(port.index_limit);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return refused(i, Errc::not_finite, std::to_string(values[i]));
    if (port.index_limit == 0) continue;
    if (values[i] < 0 || values[i] >= limit || values[i] != std::floor(values[i]))
      return refused(i, Errc::out_of_range,
                     number_text(values[i]) + ", not an index below " + std::to_string(port.index_limit));
  }
  return {};
}

Result<Graph> Graph::build(const NetworkSpec& spec) {
  Graph graph;
  graph.spec_ = spec;
  // Ports have no place in the grid; by name they have one order, whatever order the description had.
  std::stable_sort(graph.spec_.inputs.begin(), graph.spec_.inputs.end(),
                   [](const PortSpec& a, const PortSpec& b) { return a.name < b.name; });
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
    node.quantization_aware = layer.quantization_aware;
    if (nodes_.size() > spec_.inputs.size() && nodes_.back().at == layer.at)
      return fail(Errc::duplicate_name, node.object + ": this place holds " + nodes_.back().object + " already");
    nodes_.push_back(std::move(node));
    layer_position_.push_back(i);
  }
  return check_policies();
}

std::string Graph::key_of(NodeId id, std::string_view key) const {
  return key_path(layer_position_[id], nodes_[id].at, key);
}

Status Graph::check_policies() const {
  NodeId speaker = 0;  // the layer that stated its cell's policy
  bool has_spoken = false;
  for (NodeId id = static_cast<NodeId>(port_count()); id < nodes_.size(); ++id) {
    if (id > port_count() && nodes_[id].cell != nodes_[id - 1].cell) has_spoken = false;
    const auto& policy = spec_.layers[layer_position_[id]].policy;
    if (!policy) continue;
    const auto& other = spec_.layers[layer_position_[speaker]].policy;
    if (has_spoken && *policy != *other)
      return fail(Errc::duplicate_name, key_of(id, "policy") + ": '" + std::string(actors::name(*policy)) +
                                            "', where " + nodes_[speaker].object + " says '" +
                                            std::string(actors::name(*other)) + "'; a cell has one policy");
    speaker = id;
    has_spoken = true;
  }
  return {};
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

Result<Shape> Graph::combined_shape(NodeId id) const {
  const Node& node = nodes_[id];
  const auto source = [&](std::size_t i) -> const Node& { return nodes_[edges_[node.sources[i]].from]; };
  return mesh::combined_shape(
      node.combine, node.sources.size(), [&](std::size_t i) { return source(i).object; },
      [&](std::size_t i) -> const Shape& { return source(i).shape; },
      [&](std::string_view key) { return key_of(id, key); });
}

Status Graph::make_node_layer(NodeId id) {
  Node& node = nodes_[id];
  WEFT_TRY(Shape in, combined_shape(id));
  const LayerSpec& spec = spec_.layers[layer_position_[id]];
  WEFT_TRY(node.in, volume(in));
  node.tokens = node.in / in.back();
  if (!spec.view.empty()) {
    WEFT_TRY(const std::size_t seen, check_extents(key_of(id, "view"), spec.view));
    if (seen != node.in)
      return fail(Errc::shape_mismatch, key_of(id, "view") + ": " + weft::to_string(spec.view) + " has " +
                                            std::to_string(seen) + " values, the input " + weft::to_string(in) +
                                            " has " + std::to_string(node.in));
    in = spec.view;
  }
  RandomStream own(spec_.seed, spec_.grid.index(node.at), RandomPurpose::noise);
  const std::array<std::uint32_t, 2> noise_key{own.next_u32(), own.next_u32()};
  const LayerContext context{noise_key, 0, [this](Coord at) { return lend(at); }};
  auto made = make_layer(spec, in, "layers[" + std::to_string(layer_position_[id]) + "]", context);
  if (!made) return placed(made.error(), node.at);
  std::unique_ptr<Layer> layer = *std::move(made);
  if (layer->out() == 0 || layer->out() > kMaxWidth)
    return fail(Errc::shape_mismatch, node.object + ": " + spec.type + " made a layer of width " +
                                          std::to_string(layer->out()) + ", outside [1, 16777216]");
  for (const ParameterSpec& parameter : layer->parameters()) {
    if (!parameter.is_matrix()) continue;
    if (auto size = volume({parameter.out, parameter.in}); !size)
      return fail(std::move(size).error().within(node.object + " '" + parameter.name + "'"));
  }
  WEFT_CHECK(check_has_matrix(layer_position_[id], spec, *layer));
  WEFT_CHECK(check_shape(id, *layer));
  for (const Coord at : layer->borrowed()) node.owners.push_back(*find_layer(at));
  node.width = layer->out();
  node.shape = layer->out_shape();
  node.layer = std::move(layer);
  return {};
}

Result<std::shared_ptr<const Layer>> Graph::lend(Coord at) const {
  if (!spec_.grid.contains(at))
    return fail(Errc::out_of_range,
                to_string(at) + " is outside the grid " + to_string(spec_.grid) + " (z,y,x,layers)");
  const auto owner = find_layer(at);
  if (!owner) return fail(Errc::unknown_name, "no layer stands at " + to_string(at));
  if (nodes_[*owner].layer->parameters().empty())
    return fail(Errc::unsupported, "the layer at " + to_string(at) + " has no weights to share");
  return nodes_[*owner].layer;
}

// Layers of the grid whose weights the layers inside a container are to share, as far as they exist.
void Graph::find_owners(const std::vector<LayerSpec>& inside, std::set<NodeId>& owners) const {
  for (const LayerSpec& layer : inside) {
    find_owners(layer.layers, owners);
    if (layer.type != "shared" || !spec_.grid.contains(layer.at)) continue;
    if (const auto owner = find_layer(layer.at)) owners.insert(*owner);
  }
}

Status Graph::check_shape(NodeId id, const Layer& layer) const {
  const Shape& shape = nodes_[id].shape;  // what readers were told
  if (shape.empty() || shape == layer.out_shape()) return {};
  const LayerSpec& spec = spec_.layers[layer_position_[id]];
  if (spec.shape.empty())
    return fail(Errc::shape_mismatch, key_of(id, "out") +
                                          ": a feedback loop needs the output's shape before the layer " +
                                          "is made, and took " + weft::to_string(shape) + "; it is " +
                                          weft::to_string(layer.out_shape()) + ": state that as 'shape'");
  return fail(Errc::shape_mismatch, key_of(id, "shape") + ": " + weft::to_string(spec.shape) + " is promised, but " +
                                        spec.type + " makes " + weft::to_string(layer.out_shape()));
}

// What is known of a shape before its layer is made: what the description states, if anything.
Status Graph::promise_shape(NodeId id) {
  const LayerSpec& layer = spec_.layers[layer_position_[id]];
  if (layer.out > kMaxWidth)
    return fail(Errc::too_large, key_of(id, "out") + ": " + std::to_string(layer.out) + " is above 16777216");
  if (layer.shape.empty()) return {};
  WEFT_TRY(nodes_[id].width, check_extents(key_of(id, "shape"), layer.shape));
  nodes_[id].shape = layer.shape;
  return {};
}

Status Graph::infer_shapes() {
  for (NodeId id = static_cast<NodeId>(port_count()); id < nodes_.size(); ++id) WEFT_CHECK(promise_shape(id));
  std::vector<std::uint32_t> unknown(nodes_.size(), 0);  // sources whose shape is not known yet
  for (const Edge& edge : edges_) unknown[edge.to] += nodes_[edge.from].width == 0;
  // A container that shares weights waits until their owner is made too.
  std::map<NodeId, std::vector<NodeId>> borrowers;
  for (NodeId id = static_cast<NodeId>(port_count()); id < nodes_.size(); ++id) {
    const std::vector<LayerSpec>& inside = spec_.layers[layer_position_[id]].layers;
    if (inside.empty()) continue;
    std::set<NodeId> owners;
    find_owners(inside, owners);
    for (const NodeId owner : owners) borrowers[owner].push_back(id);
    unknown[id] += static_cast<std::uint32_t>(owners.size());
  }
  std::deque<NodeId> ready;
  for (NodeId id : order_)
    if (!nodes_[id].is_port() && unknown[id] == 0) ready.push_back(id);
  const auto tell_readers = [&](NodeId id) {
    for (std::uint32_t e : nodes_[id].readers)
      if (--unknown[edges_[e].to] == 0) ready.push_back(edges_[e].to);
  };
  for (std::size_t next = 0;;) {
    for (; !ready.empty(); ready.pop_front()) {
      const NodeId id = ready.front();
      const bool is_news = nodes_[id].width == 0;
      WEFT_CHECK(make_node_layer(id));
      if (is_news) tell_readers(id);
      if (const auto found = borrowers.find(id); found != borrowers.end())
        for (const NodeId borrower : found->second)
          if (--unknown[borrower] == 0) ready.push_back(borrower);
    }
    // What is left waits for a loop. A layer that states `out` tells its readers, as a vector, before it is made.
    while (next < order_.size() && (nodes_[order_[next]].width != 0 || stated_out(order_[next]) == 0)) ++next;
    if (next == order_.size()) break;
    Node& node = nodes_[order_[next]];
    node.shape = {stated_out(order_[next])};
    node.width = node.shape[0];
    tell_readers(order_[next]);
  }
  for (NodeId id = static_cast<NodeId>(port_count()); id < nodes_.size(); ++id)
    if (!nodes_[id].layer)
      return fail(Errc::shape_mismatch,
                  key_of(id, "out") +
                      ": its width depends on itself round a feedback loop, or on layers that share its " +
                      "weights; state 'out' or 'shape'");
  place_concat_sources();
  return limit_indices();
}

void Graph::place_concat_sources() {
  for (Edge& edge : edges_) edge.width = nodes_[edge.from].width;
  for (const Node& node : nodes_) {
    if (node.combine != Combine::concat) continue;
    std::size_t offset = 0;
    for (std::uint32_t e : node.sources) {
      edges_[e].offset = offset;
      offset += edges_[e].width / node.tokens;
    }
  }
}

// Only what enters through a port can be refused before it is in the mesh.
Status Graph::limit_indices() {
  for (NodeId id = static_cast<NodeId>(port_count()); id < nodes_.size(); ++id) {
    const std::size_t limit = nodes_[id].layer->index_limit();
    if (limit == 0) continue;
    for (const std::uint32_t e : nodes_[id].sources) {
      Node& source = nodes_[edges_[e].from];
      if (!source.is_port() || (nodes_[id].combine != Combine::concat && nodes_[id].sources.size() > 1))
        return fail(Errc::unsupported, key_of(id, "from") + ": " + spec_.layers[layer_position_[id]].type +
                                           " takes indices, and so reads input ports as they are, not " +
                                           source.object);
      source.index_limit = source.index_limit == 0 ? limit : std::min(source.index_limit, limit);
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

// Tarjan 1972, "Depth-first search and linear graph algorithms", section 4; with an explicit stack, since a mesh may be
// a chain of millions of layers.
void Graph::find_components() {
  const std::size_t n = nodes_.size();
  constexpr std::uint32_t kUnseen = UINT32_MAX;
  std::vector<std::uint32_t> index(n, kUnseen), low(n, 0), next_edge(n, 0);
  std::vector<bool> on_stack(n, false);
  std::vector<NodeId> stack, path;
  component_.assign(n, 0);
  in_loop_.assign(n, false);
  std::uint32_t counter = 0, components = 0;
  for (NodeId root = 0; root < n; ++root) {
    if (index[root] != kUnseen) continue;
    path.push_back(root);
    while (!path.empty()) {
      const NodeId v = path.back();
      if (index[v] == kUnseen) {
        index[v] = low[v] = counter++;
        stack.push_back(v);
        on_stack[v] = true;
      }
      if (next_edge[v] < nodes_[v].readers.size()) {
        const NodeId w = edges_[nodes_[v].readers[next_edge[v]++]].to;
        if (index[w] == kUnseen)
          path.push_back(w);
        else if (on_stack[w])
          low[v] = std::min(low[v], index[w]);
        if (w == v) in_loop_[v] = true;
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[v]);
      if (low[v] != index[v]) continue;
      const bool is_loop = stack.back() != v;
      for (NodeId w = kUnseen; w != v;) {
        w = stack.back();
        stack.pop_back();
        on_stack[w] = false;
        component_[w] = components;
        if (is_loop) in_loop_[w] = true;
      }
      ++components;
    }
  }
  for (Edge& edge : edges_) edge.is_feedback = component_[edge.from] == component_[edge.to] && edge.from >= edge.to;
}

void Graph::find_order() {
  // Kahn's algorithm without the feedback links; ties by node index, so that the order is a function of the network.
  std::vector<std::uint32_t> waiting(nodes_.size(), 0), depth(nodes_.size(), 0);
  for (const Edge& edge : edges_)
    if (!edge.is_feedback) ++waiting[edge.to];
  std::set<NodeId> ready;
  for (NodeId id = 0; id < nodes_.size(); ++id)
    if (waiting[id] == 0) ready.insert(id);
  while (!ready.empty()) {
    const NodeId id = *ready.begin();
    ready.erase(ready.begin());
    order_.push_back(id);
    settle_ticks_ = std::max(settle_ticks_, depth[id]);
    for (std::uint32_t e : nodes_[id].readers) {
      if (edges_[e].is_feedback) continue;
      depth[edges_[e].to] = std::max(depth[edges_[e].to], depth[id] + 1);
      if (--waiting[edges_[e].to] == 0) ready.insert(edges_[e].to);
    }
  }
  WEFT_ASSERT(order_.size() == nodes_.size(), "a loop is left once feedback links are taken out");
}

std::optional<NodeId> Graph::find_port(std::string_view name) const noexcept {
  for (NodeId id = 0; id < port_count(); ++id)
    if (nodes_[id].port == name) return id;
  return std::nullopt;
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

std::vector<std::vector<NodeId>> Graph::loops() const {
  std::vector<std::vector<NodeId>> by_component(nodes_.size());
  for (NodeId id = 0; id < nodes_.size(); ++id)
    if (in_loop_[id]) by_component[component_[id]].push_back(id);
  std::erase_if(by_component, [](const auto& loop) { return loop.empty(); });
  std::sort(by_component.begin(), by_component.end());
  return by_component;
}

std::optional<std::uint32_t> Graph::latency(NodeId port, NodeId output) const {
  std::vector<std::uint32_t> distance(nodes_.size(), UINT32_MAX);
  std::deque<NodeId> queue{port};
  distance[port] = 0;
  while (!queue.empty()) {
    const NodeId id = queue.front();
    queue.pop_front();
    if (id == output) return distance[id];
    for (std::uint32_t e : nodes_[id].readers) {
      const NodeId reader = edges_[e].to;
      if (distance[reader] != UINT32_MAX) continue;
      distance[reader] = distance[id] + 1;
      queue.push_back(reader);
    }
  }
  return std::nullopt;
}

}  // namespace weft::mesh
