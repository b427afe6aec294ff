// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/feedback_weights.hpp"

#include "learning/rules/rule.hpp"

#include "core/philox.hpp"

#include <cmath>

namespace weft::learning {

using mesh::NodeId;

FeedbackWeights::FeedbackWeights(const mesh::Graph& graph, const LearningOptions& options)
    : offsets_(graph.nodes().size()) {
  const FeedbackMatrices matrices = rule_of(options).feedback;
  if (matrices == FeedbackMatrices::none) return;
  const auto each = [&](auto&& visit) {
    for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
      const mesh::Node& node = graph.nodes()[id];
      if (matrices == FeedbackMatrices::per_layer) {
        if (node.layer->mixing_matrix() >= 0) visit(id, 0, node.in, node.width);
      } else {
        for (std::size_t o = 0; o < graph.outputs().size(); ++o)
          visit(id, o, node.width, graph.nodes()[graph.outputs()[o]].width);
      }
    }
  };
  std::size_t total = 0;
  each([&](NodeId id, std::size_t o, std::size_t rows, std::size_t columns) {
    if (o == 0) offsets_[id] = total;
    total += kernels::panels_size(rows, columns);
  });
  values_ = AlignedBuffer<float>(total);
  std::size_t place = 0;
  each([&](NodeId id, std::size_t o, std::size_t rows, std::size_t columns) {
    RandomStream random(graph.spec().seed, graph.spec().grid.index(graph.nodes()[id].at) * 16 + o,
                        RandomPurpose::feedback);
    const float deviation = options.feedback_scale / std::sqrt(static_cast<float>(columns));
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c)
        values_[place + kernels::panel_index(columns, r, c)] = random.next_normal() * deviation;
    place += kernels::panels_size(rows, columns);
  });
}

}  // namespace weft::learning
