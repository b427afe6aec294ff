// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/gradient_sizes.hpp"

#include "mesh/weights/weight_store.hpp"

#include <algorithm>
#include <cmath>

namespace weft::learning {

GradientSizes::GradientSizes(const mesh::Graph& graph)
    : sizes_(graph.nodes().size()), squares_(graph.nodes().size()), is_measured_(graph.nodes().size()) {
  for (const mesh::Node& node : graph.nodes())
    if (!node.is_port() && node.layer->observes_gradients())
      for (const std::uint32_t e : node.sources) is_measured_[graph.edges()[e].from] = true;
}

// Lanes that pad a panel hold 0 and add nothing to the sum; `stored` counts the values themselves.
void GradientSizes::measure(mesh::StepContext& context, mesh::NodeId node, std::uint64_t parity,
                            const Optimizer& optimizer) noexcept {
  if (!is_measured_[node]) return;
  double squares = 0, stored = 0;
  for (const mesh::WeightStore::Parameter& parameter : context.weights.of(node)) {
    const mesh::ParameterSpec& spec = *parameter.spec;
    const kernels::ConstMatrixView all{optimizer.gradient(context.weights.first(node) + parameter.index), 1,
                                       spec.stored_size(), spec.stored_size()};
    context.stream.row_dots({all, all, &squares_[node]});
    squares += static_cast<double>(squares_[node]);
    stored += static_cast<double>(spec.out) * static_cast<double>(std::max<std::size_t>(spec.in, 1));
  }
  const auto size = static_cast<float>(std::sqrt(squares / stored));
  // A value that is not finite is a fault of its own, and no size.
  if (std::isfinite(size)) sizes_[node][parity] = size;
}

}  // namespace weft::learning
