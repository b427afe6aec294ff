// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"
#include "learning/rules/rule.hpp"

#include "mesh/network/graph.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <vector>

namespace weft::learning {

/// Distances, in links, of each layer from the outputs. An error that leaves an output at tick t reaches a layer r
/// links before it at tick t + r, and belongs to what that layer published at tick t - r. One such (layer, r) is a hop.
///
/// backprop follows every path of up to `horizon` links, so a layer inside a loop has several hops; target rules use
/// the shortest distance only, and from hidden states on every path: recurrent layers and those before them have a hop
/// for each tick of the past.
class ErrorSchedule {
 public:
  /// Ends before there are more than `most` hops.
  ErrorSchedule(const mesh::Graph& graph, Rule rule, std::uint32_t horizon, std::uint64_t most = UINT64_MAX);

  /// Distances of one layer, ascending; empty when no output depends on it within the horizon.
  const std::vector<std::uint32_t>& of(mesh::NodeId node) const noexcept { return distances_[node]; }
  bool has(mesh::NodeId node, std::uint32_t distance) const noexcept;
  /// Distances run from 0 to depth() - 1.
  std::uint32_t depth() const noexcept { return depth_; }
  /// True when `most` ended them.
  bool is_cut() const noexcept { return is_cut_; }

 private:
  std::vector<std::vector<std::uint32_t>> distances_;
  std::uint32_t depth_ = 0;
  bool is_cut_ = false;
};

/// True where errors travel from tick to tick through the layer's hidden state: of gradients through every one that
/// passes errors, of displacements through those that take targets (mesh::Layer::state_errors).
bool carries_error(const mesh::Graph& graph, mesh::NodeId node, const RuleDefinition& rule);

/// Memory of the past that errors are paired with.
struct History {
  std::size_t depth = 2;                     // of the mesh's rings, a power of two
  std::vector<std::uint32_t> node_depths{};  // of each node's; empty: `depth` of all
  bool has_records = false;  // the rest is copied into records, one a hop (internal/activation_records.hpp)
  /// Records of the last ticks of each node, where its activations are kept in a narrow type; empty: of none.
  std::vector<std::uint32_t> ticks{};
  /// True for a node whose input is in the records of its one source, which are in the same type.
  std::vector<bool> shares_input{};
  std::size_t ticks_of(mesh::NodeId node) const noexcept { return ticks.empty() ? 0 : ticks[node]; }
  bool reads_records_of_source(mesh::NodeId node) const noexcept { return !shares_input.empty() && shares_input[node]; }
};
/// History that a rule needs. In rings a hop of distance r reads its layer 2 r ticks back (dfa and settled samples:
/// fewer), and the layer's sources a tick further; a neighbour may be two ticks ahead. A settled sample that is held
/// for as many ticks, `hold`, as errors travel has records once rings would be deep, or where a layer keeps its past in
/// a narrow type. Rings reach back further by the ticks in which targets may come late (Late::meet).
History history_of(const mesh::Graph& graph, const ErrorSchedule& schedule, const LearningOptions& options,
                   std::uint32_t hold);

/// Ticks from a sample's input to the outputs.
/// @error invalid_argument: an output that no input reaches
Result<std::uint32_t> latency_of(const mesh::Graph& graph);
/// Ticks that a sample is held (settle).
std::uint32_t hold_of(const mesh::Graph& graph, const LearningOptions& options, std::uint32_t latency) noexcept;

}  // namespace weft::learning
