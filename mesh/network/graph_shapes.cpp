// SPDX-License-Identifier: Apache-2.0

// Infers the shape of each value, and makes the layers for these shapes.

#include "mesh/network/graph.hpp"
#include "mesh/network/internal/network_errors.hpp"
#include "mesh/network/source_combine.hpp"

#include "kernels/finite.hpp"
#include "kernels/narrow_rows.hpp"
#include "kernels/views.hpp"

#include "core/byte_size.hpp"
#include "core/size_limit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <variant>
#include <vector>

namespace weft::mesh {

using internal::check_extents;
using internal::key_path;

namespace {

/// Most axes of a shape.
constexpr std::size_t kMaxRank = 8;

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

/// Only matrices are stored in other types: a key about them on a layer without one is a mistake.
Status check_has_matrix(std::size_t position, const LayerSpec& spec, const Layer& layer) {
  for (const ParameterSpec& parameter : layer.parameters())
    if (parameter.is_matrix()) return {};
  const bool has_dtype = spec.dtype != Dtype::float32;
  if (!has_dtype && !spec.quantization_aware) return {};
  const std::string purpose = has_dtype ? "store as " + std::string(name(spec.dtype)) : "train through";
  return fail(Errc::unsupported, key_path(position, spec.at, has_dtype ? "dtype" : "qat") + ": layer type '" +
                                     spec.type + "' has no weight matrix to " + purpose + "; leave it away");
}

/// Keys about learning, of layers that have something to learn.
Status check_learning_keys(std::size_t position, const LayerSpec& spec, const Layer& layer) {
  const std::string key = key_path(position, spec.at, spec.is_frozen ? "freeze" : "rate_scale");
  if (!std::isfinite(spec.rate_scale) || spec.rate_scale <= 0.0f)
    return fail(Errc::out_of_range, key_path(position, spec.at, "rate_scale") + ": " + number_text(spec.rate_scale) +
                                        " is not above 0; to keep a layer as it is, say freeze");
  if (!spec.is_frozen && spec.rate_scale == 1.0f) return {};
  if (layer.parameters().empty())
    return fail(Errc::unsupported,
                key + ": layer type '" + spec.type + "' has no weights that learning moves; leave it away");
  return {};
}

/// Types that values are rounded to.
Status check_value_dtypes(std::size_t position, const LayerSpec& spec) {
  std::string names;
  for (const std::string_view each : kernels::value_dtype_names()) names.append(names.empty() ? "" : ", ").append(each);
  for (const auto& [key, dtype] :
       {std::pair("activation_dtype", spec.activation_dtype), std::pair("gradient_dtype", spec.gradient_dtype)})
    if (dtype != Dtype::float32 && !kernels::is_narrow(dtype))
      return fail(Errc::unsupported, key_path(position, spec.at, key) + ": " + std::string(name(dtype)) +
                                         " is no type that values are rounded to; give " + names);
  return {};
}

/// The place whose weights a layer asks for by its type, or by an option `weight`.
std::optional<Coord> wanted_weights(const LayerSpec& layer, bool is_inside) {
  if (layer.type == "shared" && is_inside) return layer.at;
  const auto option = layer.options.find("weight");
  if (option == layer.options.end()) return std::nullopt;
  const auto* const place = std::get_if<std::vector<double>>(&option->second);
  if (!place || place->size() != 4) return std::nullopt;
  const auto axis = [&](std::size_t i) {
    return static_cast<std::uint32_t>(std::clamp((*place)[i], 0.0, 4294967295.0));
  };
  return Coord{axis(0), axis(1), axis(2), axis(3)};
}

}  // namespace

Result<std::size_t> internal::check_extents(const std::string& object, const Shape& shape) {
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

Status check_values(const Node& port, std::span<const float> values) {
  const auto refused = [&](std::size_t i, Errc code, const std::string& text) {
    return fail(code, port.object + ": value " + std::to_string(i) + " is " + text);
  };
  // As fast as they can be read; the loop below is for whom there is something to say.
  if (port.vocabulary_size == 0 && kernels::is_finite({values.data(), 1, values.size(), values.size()})) return {};
  const auto limit = static_cast<float>(port.vocabulary_size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) return refused(i, Errc::not_finite, std::to_string(values[i]));
    if (port.vocabulary_size == 0) continue;
    if (values[i] < 0 || values[i] >= limit || values[i] != std::floor(values[i]))
      return refused(i, Errc::out_of_range,
                     number_text(values[i]) + ", not an index below " + std::to_string(port.vocabulary_size));
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
    // In sizes of 32 bits (WebAssembly) elements can be counted that take more bytes than can.
    const std::uint64_t floats =
        product_or_most(kernels::panel_count(parameter.out) * kernels::kPanelWidth, parameter.in);
    if (floats > SIZE_MAX / sizeof(float))
      return fail(Errc::too_large, node.object + " '" + parameter.name + "': shape " +
                                       weft::to_string(Shape{parameter.out, parameter.in}) + " takes " +
                                       byte_size(product_or_most(floats, sizeof(float))) + ", " + byte_size(SIZE_MAX) +
                                       " can be addressed");
  }
  WEFT_CHECK(check_has_matrix(layer_position_[id], spec, *layer));
  WEFT_CHECK(check_learning_keys(layer_position_[id], spec, *layer));
  WEFT_CHECK(check_value_dtypes(layer_position_[id], spec));
  WEFT_CHECK(check_shape(id, *layer));
  for (const Coord at : layer->tied_to()) node.owners.push_back(*find_layer(at));
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

// Layers of the grid whose weights a layer, or those inside it, are to share, as far as they exist.
void Graph::find_owners(const LayerSpec& layer, bool is_inside, std::set<NodeId>& owners) const {
  for (const LayerSpec& each : layer.layers) find_owners(each, true, owners);
  const auto at = wanted_weights(layer, is_inside);
  if (!at || !spec_.grid.contains(*at)) return;
  if (const auto owner = find_layer(*at)) owners.insert(*owner);
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

// The shape known before its layer is made: the stated one, if any.
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
  std::map<NodeId, std::vector<NodeId>> tied_layers;
  for (NodeId id = static_cast<NodeId>(port_count()); id < nodes_.size(); ++id) {
    const LayerSpec& layer = spec_.layers[layer_position_[id]];
    if (layer.layers.empty() && layer.options.empty()) continue;
    std::set<NodeId> owners;
    find_owners(layer, false, owners);
    for (const NodeId owner : owners) tied_layers[owner].push_back(id);
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
      if (const auto found = tied_layers.find(id); found != tied_layers.end())
        for (const NodeId tied : found->second)
          if (--unknown[tied] == 0) ready.push_back(tied);
    }
    // The remaining layers wait for a loop. A layer that states `out` gives its readers a vector before it is made.
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
  limit_indices();
  return {};
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

// Only what enters through a port can be refused before it is in the mesh: of what layers make, and of sums, entries
// are chosen by kernels::column_of.
void Graph::limit_indices() {
  for (NodeId id = static_cast<NodeId>(port_count()); id < nodes_.size(); ++id) {
    const std::size_t limit = nodes_[id].layer->vocabulary_size();
    if (limit == 0 || (nodes_[id].combine != Combine::concat && nodes_[id].sources.size() > 1)) continue;
    for (const std::uint32_t e : nodes_[id].sources) {
      Node& source = nodes_[edges_[e].from];
      if (!source.is_port()) continue;
      source.vocabulary_size = source.vocabulary_size == 0 ? limit : std::min(source.vocabulary_size, limit);
    }
  }
}

}  // namespace weft::mesh
