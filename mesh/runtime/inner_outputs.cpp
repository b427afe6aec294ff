// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/inner_outputs.hpp"

#include "mesh/layers/container.hpp"
#include "mesh/runtime/internal/time_series.hpp"

#include "kernels/float_environment.hpp"

#include <algorithm>
#include <cstring>

namespace weft::mesh {
namespace {

constexpr std::size_t kMostRows = 64;  // at once

/// Null where the layer is none whose inner outputs follow from its input alone.
const Container* container_of(const Node& node) {
  if (node.is_port() || node.layer->state_size() != 0) return nullptr;
  return dynamic_cast<const Container*>(node.layer.get());
}

}  // namespace

std::size_t inner_width(const Node& node) {
  const Container* const container = container_of(node);
  std::size_t width = 0;
  if (container)
    for (const Container::Inner& inner : container->inner()) width += inner.width;
  return width;
}

std::vector<InnerOutput> inner_outputs(const Graph& graph, const WeightStore& weights, NodeId node, std::size_t rows,
                                       const std::vector<const float*>& outputs) {
  const Container* const container = container_of(graph.nodes()[node]);
  if (!container || rows == 0) return {};
  const std::vector<Container::Inner> inner = container->inner();
  std::vector<InnerOutput> found;
  for (const Container::Inner& each : inner) found.push_back({each.name, each.width, {}});
  for (InnerOutput& each : found) each.values.resize(rows * each.width);
  const kernels::FlushSubnormals exact;
  kernels::CpuStream stream;
  const std::size_t most = std::min(rows, kMostRows);
  internal::TimeSeries series(graph, most, most);
  for (std::size_t first = 0; first < rows; first += most) {
    const std::size_t count = std::min(most, rows - first);
    for (NodeId id = 0; id < graph.nodes().size(); ++id) {
      const kernels::MatrixView y = series.output(id, 0, count);
      for (std::size_t b = 0; b < count; ++b) std::copy_n(outputs[id] + (first + b) * y.cols, y.cols, y.row(b));
    }
    series.fire(stream, weights, node, 0, count, 0,
                [&](const Edge& edge) { return kernels::ConstMatrixView(series.output(edge.from, 0, count)); });
    const kernels::MatrixView y = series.output(node, 0, count), cache = series.cache(node, count);
    for (std::size_t b = 0; b < count; ++b) {
      if (std::memcmp(y.row(b), outputs[node] + (first + b) * y.cols, y.cols * sizeof(float)) != 0) return {};
      for (std::size_t i = 0; i < inner.size(); ++i)
        std::copy_n(inner[i].is_last ? y.row(b) : cache.row(b) + inner[i].place, inner[i].width,
                    found[i].values.data() + (first + b) * inner[i].width);
    }
  }
  return found;
}

}  // namespace weft::mesh
