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
  ErrorSchedule(const mesh::Graph& graph, Rule rule, std::uint32_t horizon);

  /// Distances of one layer, ascending; empty when no output depends on it within the horizon.
  const std::vector<std::uint32_t>& of(mesh::NodeId node) const noexcept { return distances_[node]; }
  bool has(mesh::NodeId node, std::uint32_t distance) const noexcept;
  /// Distances run from 0 to depth() - 1.
  std::uint32_t depth() const noexcept { return depth_; }

 private:
  std::vector<std::vector<std::uint32_t>> distances_;
  std::uint32_t depth_ = 0;
};

}  // namespace weft::learning
