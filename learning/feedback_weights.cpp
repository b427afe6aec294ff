// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/feedback_weights.hpp"

#include "learning/internal/learned_maps.hpp"
#include "learning/rules/rule.hpp"

#include "core/cache_line.hpp"
#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace weft::learning {

using mesh::NodeId;

namespace {

/// Calls visit(node, output, rows, columns) for each matrix.
template <class Visit>
void each_matrix(const mesh::Graph& graph, FeedbackMatrices matrices, const Visit& visit) {
  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    if (matrices == FeedbackMatrices::per_layer && node.layer->weight_matrix() >= 0) visit(id, 0, node.in, node.width);
    if (matrices != FeedbackMatrices::per_output && matrices != FeedbackMatrices::heads) continue;
    for (std::size_t o = 0; o < graph.outputs().size(); ++o) {
      const std::size_t width = graph.nodes()[graph.outputs()[o]].width;
      matrices == FeedbackMatrices::heads ? visit(id, o, width, node.width) : visit(id, o, node.width, width);
    }
  }
}

/// Calls visit(node, parameter's number, parameter) for the fixed weights of layers that are not one matrix.
template <class Visit>
void each_parameter(const mesh::Graph& graph, const LearningOptions& options, const Visit& visit) {
  if (!is_per_layer(rule_of(options).feedback)) return;
  for (NodeId id = static_cast<NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    if (learns_maps(graph, id, options)) continue;
    const auto& parameters = node.layer->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (node.layer->weight_matrix() < 0 || !node.owners.empty()) visit(id, i, parameters[i]);
  }
}

}  // namespace

void draw_parameter(const mesh::Graph& graph, NodeId node, std::size_t i, std::vector<float>& drawn, float* to) {
  const mesh::ParameterSpec& spec = graph.nodes()[node].layer->parameters()[i];
  // As the weights themselves are drawn (mesh/weights/weight_store.cpp), with numbers of their own.
  RandomStream random(graph.spec().seed,
                      graph.spec().grid.index(graph.nodes()[node].at) * 16 + i % 16 + (std::uint64_t{i / 16} << 44),
                      RandomPurpose::feedback);
  drawn.assign(spec.out * std::max<std::size_t>(spec.in, 1), 0.0f);
  spec.init(random, drawn);
  for (std::size_t k = 0; k < drawn.size(); ++k)
    to[spec.is_matrix() ? kernels::panel_index(spec.in, k / spec.in, k % spec.in) : k] = drawn[k];
}

std::size_t FeedbackWeights::floats_of(const mesh::Graph& graph, const LearningOptions& options) {
  std::size_t floats = 0;
  const FeedbackMatrices matrices = rule_of(options).feedback;
  each_matrix(graph, matrices, [&](NodeId, std::size_t, std::size_t rows, std::size_t columns) {
    floats += kernels::panels_size(rows, columns);
  });
  each_parameter(graph, options, [&](NodeId, std::size_t, const mesh::ParameterSpec& parameter) {
    floats += padded(parameter.stored_size());
  });
  return floats;
}

FeedbackWeights::FeedbackWeights(const mesh::Graph& graph, const LearningOptions& options)
    : values_(floats_of(graph, options)), offsets_(graph.nodes().size()) {
  const std::size_t end = draw_matrices(graph, options);
  if (is_per_layer(rule_of(options).feedback)) draw_layers(graph, options, end);
}

std::size_t FeedbackWeights::draw_matrices(const mesh::Graph& graph, const LearningOptions& options) {
  std::size_t at = 0;
  each_matrix(graph, rule_of(options).feedback, [&](NodeId id, std::size_t o, std::size_t rows, std::size_t columns) {
    if (o == 0) offsets_[id] = at;
    RandomStream random(graph.spec().seed, graph.spec().grid.index(graph.nodes()[id].at) * 16 + o,
                        RandomPurpose::feedback);
    const float deviation = options.feedback_scale / std::sqrt(static_cast<float>(columns));
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c)
        values_[at + kernels::panel_index(columns, r, c)] = random.next_normal() * deviation;
    at += kernels::panels_size(rows, columns);
  });
  return at;
}

void FeedbackWeights::draw_layers(const mesh::Graph& graph, const LearningOptions& options, std::size_t at) {
  std::vector<std::vector<kernels::ConstWeight>> own(graph.nodes().size());
  std::vector<float> drawn;
  each_parameter(graph, options, [&](NodeId id, std::size_t i, const mesh::ParameterSpec& spec) {
    float* const to = values_.data() + at;
    draw_parameter(graph, id, i, drawn, to);
    own[id].push_back(kernels::ConstPanels{to, spec.out, spec.in});
    at += padded(spec.stored_size());
  });
  views_ = own;
  // A layer that computes with the weights of others takes theirs here too.
  for (NodeId id = 0; id < own.size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    if (node.owners.empty()) continue;
    views_[id].clear();
    for (const mesh::WeightSlot& slot : node.layer->weight_slots()) {
      const NodeId owner =
          slot.owner == mesh::WeightSlot::kOwn ? id : node.owners[static_cast<std::size_t>(slot.owner)];
      const auto& from = own[owner];
      if (slot.parameter >= from.size()) {
        // Its owner is one matrix, which has another form here.
        views_[id].clear();
        break;
      }
      views_[id].push_back(from[slot.parameter]);
    }
  }
}

}  // namespace weft::learning
