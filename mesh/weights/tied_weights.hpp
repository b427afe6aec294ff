// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"

#include "kernels/weight.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::mesh {

/// Views of the weights of layers that compute with other layers' weights too, side by side in the order in which the
/// layer takes them.
/// @thread set: while no tick runs, or by the thread of the one region that all tied layers are in
class TiedWeights {
 public:
  TiedWeights() = default;
  /// `first`: the first parameter of each node in the store; one past the end at the back.
  TiedWeights(const Graph& graph, std::span<const std::uint32_t> first);

  /// Null where a layer's weights are its own.
  const kernels::ConstWeight* forward(NodeId node) const noexcept {
    return layers_[node] ? layers_[node]->forward.data() : nullptr;
  }
  const kernels::ConstWeight* backward(NodeId node) const noexcept {
    return layers_[node] ? layers_[node]->backward.data() : nullptr;
  }
  /// Parameters that a layer computes with; empty where they are just its own.
  std::span<const std::uint32_t> parameters(NodeId node) const noexcept {
    return layers_[node] ? std::span<const std::uint32_t>(layers_[node]->parameters) : std::span<const std::uint32_t>();
  }
  /// Sets parameter `i` in all layers that compute with it: time is theirs alone.
  void set(std::size_t i, const kernels::ConstWeight& forward, const kernels::ConstWeight& backward) noexcept;

 private:
  struct Layer {
    std::vector<std::uint32_t> parameters;
    std::vector<kernels::ConstWeight> forward, backward;
  };
  /// A place where a layer takes a parameter.
  struct Use {
    Layer* layer = nullptr;
    std::size_t slot = 0;
  };

  std::vector<std::unique_ptr<Layer>> layers_;  // by node
  std::vector<Use> uses_;                       // parameter after parameter
  std::vector<std::size_t> first_use_;          // by parameter; one past the end at the back
};

}  // namespace weft::mesh
