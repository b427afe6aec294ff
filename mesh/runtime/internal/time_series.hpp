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
  /// `rows` rows for every node.
  TimeSeries(const Graph& graph, std::size_t rows);

  kernels::MatrixView output(NodeId node, std::size_t first_row, std::size_t rows) const noexcept {
    return view(series_[node].output, graph_.nodes()[node].width, first_row, rows);
  }
  kernels::MatrixView hidden(NodeId node, std::size_t first_row, std::size_t rows) const noexcept;

  /// Computes rows [first, first + rows) of `node`: `source_of(edge)` gives the rows that stand opposite.
  template <class SourceOf>
  void fire(kernels::OpStream& stream, const WeightStore& weights, NodeId node, std::size_t first, std::size_t rows,
            std::size_t state_first, SourceOf&& source_of);

 private:
  struct Series {
    AlignedBuffer<float> output, hidden;
  };
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
