// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/internal/combinational.hpp"

#include "mesh/runtime/internal/time_series.hpp"

#include <algorithm>
#include <exception>

namespace weft::mesh::internal {

Status run_combinational(const Graph& graph, const WeightStore& weights, std::size_t rows,
                         const std::vector<std::pair<NodeId, const float*>>& inputs,
                         const std::vector<OutputSink>& sinks, Visits& visits) {
  kernels::CpuStream stream;
  // Twice the rows: the second half stays zero, for feedback links and for the hidden state that layers start from.
  TimeSeries series(graph, 2 * rows);
  for (const auto& [node, values] : inputs) {
    const kernels::MatrixView y = series.output(node, 0, rows);
    for (std::size_t b = 0; b < rows; ++b) std::copy_n(values + b * y.cols, y.cols, y.row(b));
  }
  for (NodeId id : graph.order()) {
    if (graph.nodes()[id].is_port()) continue;
    visits.enter(id);
    try {
      series.fire(stream, weights, id, 0, rows, rows, [&](const Edge& edge) {
        return kernels::ConstMatrixView(series.output(edge.from, edge.is_feedback ? rows : 0, rows));
      });
    } catch (const std::exception& error) {
      return fail(Errc::internal, graph.nodes()[id].object + " threw: " + error.what());
    }
    if (!stream.is_finite({series.output(id, 0, rows)}))
      return fail(Errc::not_finite, graph.nodes()[id].object + ": its output is not finite");
  }
  for (const OutputSink& sink : sinks) {
    const kernels::MatrixView y = series.output(sink.node, 0, rows);
    for (std::size_t b = 0; b < rows; ++b) std::copy_n(y.row(b), y.cols, sink.base + b * y.cols);
  }
  return {};
}

}  // namespace weft::mesh::internal
