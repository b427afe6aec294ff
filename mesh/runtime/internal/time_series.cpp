// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/internal/time_series.hpp"

#include <algorithm>

namespace weft::mesh::internal {

TimeSeries::TimeSeries(const Graph& graph, std::size_t rows) : graph_(graph), series_(graph.nodes().size()) {
  std::size_t widest_input = 0, widest_cache = 0;
  for (NodeId id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    series_[id].output = AlignedBuffer<float>(rows * padded(node.width));
    if (node.is_port()) continue;
    series_[id].hidden = AlignedBuffer<float>(rows * padded(node.layer->state_size()));
    widest_input = std::max(widest_input, padded(node.in));
    widest_cache = std::max(widest_cache, padded(node.layer->cache_size()));
  }
  input_ = AlignedBuffer<float>(rows * widest_input);
  cache_ = AlignedBuffer<float>(rows * widest_cache);
  workspace_ = AlignedBuffer<float>(graph.workspace_size());
}

kernels::MatrixView TimeSeries::hidden(NodeId node, std::size_t first, std::size_t rows) const noexcept {
  return view(series_[node].hidden, graph_.nodes()[node].layer->state_size(), first, rows);
}

}  // namespace weft::mesh::internal
