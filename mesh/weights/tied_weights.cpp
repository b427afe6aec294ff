// SPDX-License-Identifier: Apache-2.0

#include "mesh/weights/tied_weights.hpp"

#include <numeric>

namespace weft::mesh {

TiedWeights::TiedWeights(const Graph& graph, std::span<const std::uint32_t> first)
    : layers_(graph.nodes().size()), first_use_(first.back() + 1, 0) {
  for (NodeId id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (node.owners.empty()) continue;
    layers_[id] = std::make_unique<Layer>();
    Layer& layer = *layers_[id];
    for (const WeightSlot& slot : node.layer->weight_slots()) {
      const NodeId owner = slot.owner == WeightSlot::kOwn ? id : node.owners[static_cast<std::size_t>(slot.owner)];
      layer.parameters.push_back(first[owner] + slot.parameter);
      ++first_use_[layer.parameters.back() + 1];
    }
    layer.forward.resize(layer.parameters.size());
    layer.backward.resize(layer.parameters.size());
  }
  std::partial_sum(first_use_.begin(), first_use_.end(), first_use_.begin());
  uses_.resize(first_use_.back());
  std::vector<std::size_t> next(first_use_.begin(), first_use_.end() - 1);
  for (const auto& layer : layers_)
    for (std::size_t slot = 0; layer && slot < layer->parameters.size(); ++slot)
      uses_[next[layer->parameters[slot]]++] = {layer.get(), slot};
}

void TiedWeights::set(std::size_t i, const kernels::ConstWeight& forward,
                      const kernels::ConstWeight& backward) noexcept {
  for (std::size_t use = first_use_[i]; use < first_use_[i + 1]; ++use) {
    uses_[use].layer->forward[uses_[use].slot] = forward;
    uses_[use].layer->backward[uses_[use].slot] = backward;
  }
}

}  // namespace weft::mesh
