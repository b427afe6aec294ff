// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

namespace weft::mesh {

/// Factors of the layers' learning rates: the network's, until commands change them. At 0 learning leaves a layer's
/// weights, and what a rule keeps beside them, as they are.
/// @thread a layer's: the region that owns it, or between ticks the owner of the mesh
class LayerRates {
 public:
  LayerRates() = default;
  explicit LayerRates(const Graph& graph) {
    for (const Node& node : graph.nodes()) scales_.push_back(node.rate_scale);
  }
  LayerRates(LayerRates&& other) noexcept : scales_(std::move(other.scales_)), are_set_(other.are_set_.load()) {}
  LayerRates& operator=(LayerRates&& other) noexcept {
    scales_ = std::move(other.scales_);
    are_set_.store(other.are_set_.load());
    return *this;
  }

  /// True for a factor that may be set: finite, 0 to a million.
  static bool is_valid(float scale) noexcept { return scale >= 0.0f && scale <= 1e6f; }
  float of(NodeId node) const noexcept { return scales_[node]; }
  void set(NodeId node, float scale) noexcept {
    if (scales_[node] == scale) return;
    scales_[node] = scale;
    are_set_.store(true, std::memory_order_relaxed);
  }
  /// True once one was set: who prepared steps with the network's own looks again.
  bool are_set() const noexcept { return are_set_.load(std::memory_order_relaxed); }

 private:
  std::vector<float> scales_;         // by node
  std::atomic<bool> are_set_{false};  // by regions at once, and never taken back
};

}  // namespace weft::mesh
