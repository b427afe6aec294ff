// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/source_combine.hpp"
#include "mesh/runtime/internal/time_series.hpp"

#include "kernels/narrow_rows.hpp"

namespace weft::mesh::internal {

template <class SourceOf>
void TimeSeries::fire(kernels::OpStream& stream, const WeightStore& weights, NodeId id, std::size_t first,
                      std::size_t rows, std::size_t state_first, SourceOf&& source_of) {
  const Node& node = graph_.nodes()[id];
  ForwardArgs args;
  args.weights = weights.view(id);
  if (node.reads_directly()) {
    args.x = source_of(graph_.edges()[node.sources[0]]);
  } else {
    const kernels::MatrixView x = view(input_, node.in, 0, rows);
    combine_sources(stream, graph_, node, source_of, x);
    args.x = x;
  }
  args.y = output(id, first, rows);
  args.cache = view(cache_, node.layer->cache_size(), 0, rows);
  args.state = hidden(id, state_first, rows);
  args.next_state = hidden(id, first, rows);
  args.workspace = workspace_.data();
  node.layer->forward(stream, args);
  kernels::round_rows(node.value_dtypes.activation, args.y);
}

}  // namespace weft::mesh::internal
