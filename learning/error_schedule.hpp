// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include "mesh/network/graph.hpp"

#include <cstdint>
#include <vector>

namespace weft::learning {

/// Distances, in links, of each layer from the outputs. An error that leaves an output at tick t reaches a layer r
/// links before it at tick t + r, and belongs to what that layer published at tick t - r. One such (layer, r) is a hop.
///
/// backprop follows every path of up to `horizon` links, so a layer inside a loop has several hops; target rules use
/// the shortest distance only.
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

/// Ticks of the past that a rule reads whose hops are `depth` deep, a power of two. The oldest value is the source of
/// the deepest hop, 2 (depth - 1) + 1 ticks back; a neighbour may be two ticks ahead.
std::size_t history_depth(std::uint32_t depth) noexcept;

}  // namespace weft::learning
