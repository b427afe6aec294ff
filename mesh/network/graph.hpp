// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"
#include "mesh/network/layer.hpp"
#include "mesh/network/network.hpp"

#include "core/encoding.hpp"
#include "core/shape.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::mesh {

/// One link. With concat, `to` reads `from` at values [offset, offset + width / tokens) of each of the `tokens` rows of
/// its combined input (Node::tokens).
struct Edge {
  NodeId from = 0, to = 0;
  std::uint32_t position = 0;  // among the sources of `to`
  std::size_t offset = 0;      // 0 unless combined by concat
  std::size_t width = 0;       // values of the source
  bool is_feedback = false;    // closes a loop: its source stands at or after `to`, inside one strongly connected part
};

/// Types that a layer's values are rounded to, float32 being no rounding.
struct ValueDtypes {
  Dtype activation = Dtype::float32;  // of what it publishes, and of what is kept of its past
  Dtype gradient = Dtype::float32;    // of errors that reach it
};

struct Node {
  std::string object;  // what messages call it: "layers[3] [0,1,0,0]" or "input 'pixels'"
  std::string port;    // name of the input port; empty for a layer
  Coord at;
  std::size_t cell = 0;             // grid cell index; ports have none
  std::size_t in = 0, width = 0;    // values of the combined input and of the output
  Shape shape;                      // of the output
  std::size_t tokens = 1;           // rows that sources are joined in: the axes before the last one, multiplied
  std::size_t vocabulary_size = 0;  // a port: its values must be whole numbers below this; 0: any numbers
  Combine combine = Combine::concat;
  Encoding encoding;  // of its matrices when the mesh is built; messages may change it (WeightStore)
  Activations activations = Activations::int8;
  ValueDtypes value_dtypes;
  bool quantization_aware = false;     // "qat"
  float rate_scale = 1.0f;             // of the learning rate
  bool is_frozen = false;              // "freeze"
  std::shared_ptr<const Layer> layer;  // null for a port
  std::vector<std::uint32_t> sources;  // edges in, in source order
  std::vector<std::uint32_t> readers;  // edges out, by (reader, position)
  std::vector<NodeId> owners;          // whose weights it computes with too, as Layer::tied_to()
  bool is_port() const noexcept { return !port.empty(); }
  /// True when the input is one source as it stands, so that no copy is needed.
  bool reads_directly() const noexcept { return sources.size() == 1; }
  /// Storage and learning of one parameter: as a layer inside a container says itself, or else as the layer does.
  Encoding encoding_of(const ParameterSpec& spec) const noexcept {
    return spec.is_matrix() ? spec.own.encoding.value_or(encoding) : Encoding(Dtype::float32);
  }
  bool trains_stored(const ParameterSpec& spec) const noexcept {
    return spec.own.quantization_aware.value_or(quantization_aware);
  }
  bool freezes(const ParameterSpec& spec) const noexcept { return is_frozen || spec.own.is_frozen; }
};

/// Succeeds when values fit an input port: finite, and whole numbers below its vocabulary size where it has one.
/// @error not_finite, out_of_range: naming the port and the first such value
Status check_values(const Node& port, std::span<const float> values);

/// A network whose places, links and shapes have been checked. Immutable.
class Graph {
 public:
  /// @error out_of_range, unknown_name, duplicate_name, shape_mismatch, too_large, unsupported: naming the place in the
  ///        network file, both values and what to do
  static Result<Graph> build(const NetworkSpec& spec);

  const NetworkSpec& spec() const noexcept { return spec_; }
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  const std::vector<Edge>& edges() const noexcept { return edges_; }
  std::size_t port_count() const noexcept { return spec_.inputs.size(); }
  /// The description of a layer (not of a port).
  const LayerSpec& layer_spec(NodeId layer) const noexcept { return spec_.layers[layer_position_[layer]]; }

  std::optional<NodeId> find_port(std::string_view name) const noexcept;
  std::optional<NodeId> find_layer(Coord at) const noexcept;
  /// The layer behind a named output.
  std::optional<NodeId> find_output(std::string_view name) const noexcept;
  /// The largest workspace that a layer wants, in floats.
  std::size_t workspace_size() const noexcept;
  /// The layers behind `spec().outputs`, in that order.
  const std::vector<NodeId>& outputs() const noexcept { return outputs_; }

  /// Nodes so that every link except feedback goes forward.
  const std::vector<NodeId>& order() const noexcept { return order_; }
  /// The strongly connected part of each node; parts of one node without a link to itself are no loop.
  const std::vector<std::uint32_t>& component() const noexcept { return component_; }
  bool is_in_loop(NodeId node) const noexcept { return in_loop_[node]; }
  /// Nodes of each feedback loop (strongly connected part that is a loop).
  std::vector<std::vector<NodeId>> loops() const;

  /// Ticks from a value at `port` to its first effect on `output`: links on the shortest path; nothing when
  /// unreachable.
  std::optional<std::uint32_t> latency(NodeId port, NodeId output) const;
  /// The same from every port, by its index, at the cost of one walk over the links.
  std::vector<std::optional<std::uint32_t>> latencies_to(NodeId output) const;
  /// Ticks after which an output no longer changes while the inputs are held, feedback left aside: the longest path.
  std::uint32_t settle_ticks() const noexcept { return settle_ticks_; }

 private:
  Status add_layers();
  Status add_links();
  Status add_outputs();
  Result<std::vector<NodeId>> resolve_sources(std::size_t layer_position, NodeId self) const;
  void add_neighbours(const LayerSpec& layer, std::vector<NodeId>& sources) const;
  std::string key_of(NodeId node, std::string_view key) const;
  /// Checks the options that layers state for their whole cell: all that state one must agree.
  Status check_cells() const;
  template <class Name>
  Status check_one_a_cell(std::string_view key, Name&& name_of) const;
  Status make_node_layer(NodeId node);
  Status infer_shapes();
  Result<Shape> combined_shape(NodeId node) const;
  Status promise_shape(NodeId node);
  std::size_t stated_out(NodeId node) const noexcept {
    return nodes_[node].is_port() ? 0 : spec_.layers[layer_position_[node]].out;
  }
  Status check_shape(NodeId node, const Layer& layer) const;
  Result<std::shared_ptr<const Layer>> lend(Coord at) const;
  void find_owners(const LayerSpec& layer, bool is_inside, std::set<NodeId>& owners) const;
  void place_concat_sources();
  void limit_indices();
  void find_components();
  void find_order();

  NetworkSpec spec_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<std::size_t> layer_position_;  // node -> index into spec_.layers
  std::vector<NodeId> outputs_;
  std::vector<NodeId> order_;
  std::vector<std::uint32_t> component_;
  std::vector<bool> in_loop_;
  std::uint32_t settle_ticks_ = 0;
};

}  // namespace weft::mesh
