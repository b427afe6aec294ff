// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/cpu_stream.hpp"

#include "core/aligned_buffer.hpp"

#include <vector>

namespace weft::mesh::internal {

/// Outputs of a network's layers over several ticks: rows [t][b]. Scratch of a pass that computes a layer for many rows
/// in one call.
class TimeSeries {
 public:
  /// `rows` rows for every node, of which one call computes `at_once` at most, on `threads` threads.
  TimeSeries(const Graph& graph, std::size_t rows, std::size_t at_once, std::size_t threads = 1);
  /// Bytes of the same on one thread, but for the workspace.
  static std::uint64_t bytes_for(const Graph& graph, std::size_t rows, std::size_t at_once) noexcept;
  /// Floats from one thread's workspace to the next one's.
  std::size_t workspace_stride() const noexcept { return padded(graph_.workspace_size()); }

  kernels::MatrixView output(NodeId node, std::size_t first_row, std::size_t rows) const noexcept {
    return view(series_[node].output, graph_.nodes()[node].width, first_row, rows);
  }
  kernels::MatrixView hidden(NodeId node, std::size_t first_row, std::size_t rows) const noexcept;
  /// Cache of the rows of the last `fire`, which was of `node`.
  kernels::MatrixView cache(NodeId node, std::size_t rows) const noexcept {
    return view(cache_, graph_.nodes()[node].layer->cache_size(), 0, rows);
  }

  /// Computes rows [first, first + rows) of `node`: `source_of(edge)` gives the rows that stand opposite.
  template <class SourceOf>
  void fire(kernels::OpStream& stream, const WeightStore& weights, NodeId node, std::size_t first, std::size_t rows,
            std::size_t state_first, SourceOf&& source_of);

 private:
  struct Series {
    AlignedBuffer<float> output, hidden;
  };
  /// Floats of a row of all nodes, and of what is used again from node to node.
  struct RowFloats {
    std::size_t kept = 0, input = 0, cache = 0;
  };
  static RowFloats row_floats(const Graph& graph) noexcept;
  static std::size_t padded(std::size_t width) noexcept { return (width + 15) / 16 * 16; }
  static kernels::MatrixView view(const AlignedBuffer<float>& buffer, std::size_t width, std::size_t first,
                                  std::size_t rows) noexcept {
    if (buffer.empty()) return {};
    return {const_cast<float*>(buffer.data()) + first * padded(width), rows, width, padded(width)};
  }

  const Graph& graph_;
  mutable std::vector<Series> series_;
  AlignedBuffer<float> input_, cache_, workspace_;
};

}  // namespace weft::mesh::internal

#include "mesh/runtime/internal/time_series-inl.hpp"
