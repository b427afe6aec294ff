// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/activation_records.hpp"

#include "core/cache_line.hpp"

#include <algorithm>

namespace weft::learning {

using kernels::MatrixView;
using mesh::NodeId;

ActivationRecords::Layout ActivationRecords::layout_of(const mesh::Graph& graph, NodeId id, std::size_t learners) {
  const mesh::Node& node = graph.nodes()[id];
  Layout layout;
  const auto add = [&](std::size_t width) {
    const Field field{layout.floats, width};
    layout.floats += padded(width) * learners;
    return field;
  };
  layout.x = add(node.in);
  layout.y = add(node.width);
  layout.z = add(node.layer->needs_preactivation() ? node.width : 0);
  layout.cache = add(node.layer->cache_size());
  layout.state = add(node.layer->state_size());
  if (node.combine == mesh::Combine::max || node.combine == mesh::Combine::gate)
    for (const std::uint32_t e : node.sources) layout.sources.push_back(add(graph.edges()[e].width));
  return layout;
}

std::size_t ActivationRecords::floats_of(const mesh::Graph& graph, NodeId node, std::size_t learners) noexcept {
  return layout_of(graph, node, learners).floats;
}

ActivationRecords::ActivationRecords(const mesh::Graph& graph, const LearningPlan& plan, const LearningOptions& options)
    : plan_(&plan), learners_(options.learners) {
  if (!plan.history.has_records) return;
  std::size_t floats = 0;
  for (NodeId node = 0; node < plan.layers.size(); ++node) {
    const std::vector<Hop>& hops = plan.layers[node].hops;
    layouts_.push_back(hops.empty() ? Layout() : layout_of(graph, node, learners_));
    offsets_.push_back(floats);
    floats += layouts_.back().floats * static_cast<std::size_t>(std::count_if(
                                           hops.begin(), hops.end(), [](const Hop& hop) { return hop.has_record(); }));
  }
  offsets_.push_back(floats);
  values_ = AlignedBuffer<float>(floats);
}

bool ActivationRecords::is_due(NodeId node, std::uint64_t left) const noexcept {
  const std::vector<Hop>& hops = plan_->layers[node].hops;
  return std::any_of(hops.begin(), hops.end(), [&](const Hop& hop) {
    return hop.has_record() && (hop.distance == left || hop.distance + 1 == left);
  });
}

void ActivationRecords::keep(mesh::StepContext& context, NodeId node, std::uint64_t left) {
  const mesh::State& state = context.state;
  const auto copy = [&](const MatrixView& from, std::uint32_t record, const Field& field) {
    if (from.data) context.stream.copy({{from.data, learners_, from.cols, from.stride}, rows(node, record, field)});
  };
  const mesh::Node& here = context.graph.nodes()[node];
  const Layout& layout = layouts_[node];
  const auto output_of_source = [&](std::size_t i) {
    return state.output(context.graph.edges()[here.sources[i]].from, context.tick);
  };
  for (const Hop& hop : plan_->layers[node].hops) {
    if (!hop.has_record()) continue;
    // The step fires: what it writes stands in the next tick's slots, and what it read is still there.
    if (hop.distance + 1 == left) {
      copy(state.hidden(node, context.tick), hop.record, layout.state);
      if (here.reads_directly()) copy(output_of_source(0), hop.record, layout.x);
      for (std::size_t i = 0; i < layout.sources.size(); ++i) copy(output_of_source(i), hop.record, layout.sources[i]);
    } else if (hop.distance == left) {
      copy(state.output(node, context.tick), hop.record, layout.y);
      copy(state.preactivation(node, context.tick), hop.record, layout.z);
      copy(state.cache(node, context.tick), hop.record, layout.cache);
      if (!here.reads_directly()) copy(state.input(node, context.tick), hop.record, layout.x);
    }
  }
}

MatrixView ActivationRecords::rows(NodeId node, std::uint32_t record, const Field& field) noexcept {
  if (field.width == 0) return {nullptr, learners_, 0, 0};
  return {values_.data() + offsets_[node] + record * layouts_[node].floats + field.offset, learners_, field.width,
          padded(field.width)};
}

Activation ActivationRecords::at(NodeId node, std::uint32_t record) noexcept {
  const Layout& layout = layouts_[node];
  return {rows(node, record, layout.x), rows(node, record, layout.y), rows(node, record, layout.z),
          rows(node, record, layout.cache), rows(node, record, layout.state)};
}

kernels::ConstMatrixView ActivationRecords::source(NodeId node, std::uint32_t record, std::size_t i) noexcept {
  return rows(node, record, layouts_[node].sources[i]);
}

std::span<const float> ActivationRecords::of(NodeId node) const noexcept {
  return {values_.data() + offsets_[node], offsets_[node + 1] - offsets_[node]};
}

}  // namespace weft::learning
