// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/options.hpp"

#include "mesh/network/graph.hpp"

#include <cstdint>
#include <vector>

namespace weft::learning {

/// How far, in links, each layer stands from the outputs: an error that leaves an output at tick t reaches a layer r
/// links before it at tick t + r, and speaks of what that layer published at tick t - r. A wave is one such (layer, r).
///
/// backprop follows every path of up to `horizon` links, so a layer inside a loop has several waves; target rules use
/// the shortest distance only.
class Waves {
 public:
  Waves(const mesh::Graph& graph, Rule rule, std::uint32_t horizon);

  /// Distances of one layer, ascending; empty when no output depends on it within the horizon.
  const std::vector<std::uint32_t>& of(mesh::NodeId node) const noexcept { return waves_[node]; }
  bool has(mesh::NodeId node, std::uint32_t distance) const noexcept;
  /// Distances run from 0 to depth() - 1.
  std::uint32_t depth() const noexcept { return depth_; }

 private:
  std::vector<std::vector<std::uint32_t>> waves_;
  std::uint32_t depth_ = 0;
};

}  // namespace weft::learning
