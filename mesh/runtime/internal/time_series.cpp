// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/internal/time_series.hpp"

#include <algorithm>

namespace weft::mesh::internal {

TimeSeries::RowFloats TimeSeries::row_floats(const Graph& graph) noexcept {
  RowFloats floats;
  for (const Node& node : graph.nodes()) {
    floats.kept += padded(node.width);
    if (node.is_port()) continue;
    floats.kept += padded(node.layer->state_size());
    floats.input = std::max(floats.input, padded(node.in));
    floats.cache = std::max(floats.cache, padded(node.layer->cache_size()));
  }
  return floats;
}

TimeSeries::TimeSeries(const Graph& graph, std::size_t rows, std::size_t at_once, std::size_t threads)
    : graph_(graph), series_(graph.nodes().size()) {
  for (NodeId id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    series_[id].output = AlignedBuffer<float>(rows * padded(node.width));
    if (!node.is_port()) series_[id].hidden = AlignedBuffer<float>(rows * padded(node.layer->state_size()));
  }
  const RowFloats floats = row_floats(graph);
  input_ = AlignedBuffer<float>(at_once * floats.input);
  cache_ = AlignedBuffer<float>(at_once * floats.cache);
  workspace_ = AlignedBuffer<float>(workspace_stride() * threads);
}

std::uint64_t TimeSeries::bytes_for(const Graph& graph, std::size_t rows, std::size_t at_once) noexcept {
  const RowFloats floats = row_floats(graph);
  return sizeof(float) * (std::uint64_t{rows} * floats.kept + std::uint64_t{at_once} * (floats.input + floats.cache));
}

kernels::MatrixView TimeSeries::hidden(NodeId node, std::size_t first, std::size_t rows) const noexcept {
  return view(series_[node].hidden, graph_.nodes()[node].layer->state_size(), first, rows);
}

}  // namespace weft::mesh::internal
