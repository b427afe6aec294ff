// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/activation_records.hpp"

#include "kernels/narrow_rows.hpp"

#include "core/cache_line.hpp"

#include <algorithm>

namespace weft::learning {

using kernels::MatrixView;
using mesh::NodeId;

ActivationRecords::Layout ActivationRecords::layout_of(const mesh::Graph& graph, const History& history, NodeId id,
                                                       std::size_t learners) {
  const mesh::Node& node = graph.nodes()[id];
  Layout layout;
  layout.dtype = node.value_dtypes.activation;
  const auto add = [&](std::size_t width, bool is_kept = true) {
    const Part part{layout.floats, width, layout.unpacked};
    const bool is_narrow = layout.dtype != Dtype::float32;
    const std::size_t each = is_narrow ? kernels::narrow_row_bytes(layout.dtype, width) / sizeof(float) : padded(width);
    if (width > 0 && is_kept) layout.floats += each * learners;
    layout.unpacked += padded(width) * learners;
    return part;
  };
  if (history.reads_records_of_source(id)) layout.input = graph.edges()[node.sources[0]].from;
  layout.x = add(node.in, layout.input == kNoSource);
  layout.y = add(node.width);
  layout.z = add(node.layer->needs_preactivation() ? node.width : 0);
  layout.cache = add(node.layer->cache_size());
  layout.state = add(node.layer->state_size());
  if (node.combine == mesh::Combine::max || node.combine == mesh::Combine::gate)
    for (const std::uint32_t e : node.sources) layout.sources.push_back(add(graph.edges()[e].width));
  // Records begin at cache lines.
  layout.floats = padded(layout.floats);
  return layout;
}

std::size_t ActivationRecords::floats_of(const mesh::Graph& graph, const History& history, NodeId node,
                                         std::size_t learners) noexcept {
  return layout_of(graph, history, node, learners).floats;
}

std::size_t ActivationRecords::scratch_of(const mesh::Graph& graph, NodeId node, std::size_t learners) noexcept {
  const Layout layout = layout_of(graph, {}, node, learners);
  return layout.dtype == Dtype::float32 ? 0 : layout.unpacked;
}

ActivationRecords::ActivationRecords(const mesh::Graph& graph, const LearningPlan& plan, const LearningOptions& options)
    : plan_(&plan), learners_(options.learners) {
  if (!plan.history.has_records && plan.history.ticks.empty()) return;
  std::size_t floats = 0;
  for (NodeId node = 0; node < plan.layers.size(); ++node) {
    const std::vector<Hop>& hops = plan.layers[node].hops;
    layouts_.push_back(hops.empty() ? Layout() : layout_of(graph, plan.history, node, learners_));
    offsets_.push_back(floats);
    const auto by_hop = std::count_if(hops.begin(), hops.end(), [](const Hop& hop) { return hop.has_record(); });
    floats += layouts_.back().floats * (static_cast<std::size_t>(by_hop) + ticks_of(node));
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

void ActivationRecords::put(mesh::StepContext& context, NodeId node, std::size_t record, const Part& part,
                            const MatrixView& from) noexcept {
  if (!from.data) return;
  const MatrixView learners{from.data, learners_, from.cols, from.stride};
  float* const to = place(node, record, part);
  const Dtype dtype = layouts_[node].dtype;
  if (dtype == Dtype::float32)
    context.stream.copy({learners, {to, learners_, part.width, padded(part.width)}});
  else if (context.cpu)
    kernels::encode_rows(dtype, learners, reinterpret_cast<std::byte*>(to));
}

void ActivationRecords::keep(mesh::StepContext& context, NodeId node, std::uint64_t left) noexcept {
  const mesh::State& state = context.state;
  const mesh::Node& here = context.graph.nodes()[node];
  const Layout& layout = layouts_[node];
  const auto output_of_source = [&](std::size_t i) {
    return state.output(context.graph.edges()[here.sources[i]].from, context.tick);
  };
  for (const Hop& hop : plan_->layers[node].hops) {
    if (!hop.has_record()) continue;
    // The step fires: what it writes stands in the next tick's slots, and what it read is still there.
    if (hop.distance + 1 == left) {
      put(context, node, hop.record, layout.state, state.hidden(node, context.tick));
      if (here.reads_directly()) put(context, node, hop.record, layout.x, output_of_source(0));
      for (std::size_t i = 0; i < layout.sources.size(); ++i)
        put(context, node, hop.record, layout.sources[i], output_of_source(i));
    } else if (hop.distance == left) {
      put(context, node, hop.record, layout.y, state.output(node, context.tick));
      put(context, node, hop.record, layout.z, state.preactivation(node, context.tick));
      put(context, node, hop.record, layout.cache, state.cache(node, context.tick));
      if (!here.reads_directly()) put(context, node, hop.record, layout.x, state.input(node, context.tick));
    }
  }
}

void ActivationRecords::keep_tick(mesh::StepContext& context, NodeId node) noexcept {
  const std::uint64_t tick = context.tick;
  if (tick == 0) return;  // nothing has been published
  const mesh::State& state = context.state;
  const mesh::Node& here = context.graph.nodes()[node];
  const Layout& layout = layouts_[node];
  const std::size_t record = tick % ticks_of(node);
  const auto output_of_source = [&](std::size_t i) {
    return state.output(context.graph.edges()[here.sources[i]].from, tick - 1);
  };
  if (layout.input == kNoSource)
    put(context, node, record, layout.x, here.reads_directly() ? output_of_source(0) : state.input(node, tick));
  put(context, node, record, layout.y, state.output(node, tick));
  put(context, node, record, layout.z, state.preactivation(node, tick));
  put(context, node, record, layout.cache, state.cache(node, tick));
  put(context, node, record, layout.state, state.hidden(node, tick - 1));
  for (std::size_t i = 0; i < layout.sources.size(); ++i)
    put(context, node, record, layout.sources[i], output_of_source(i));
}

MatrixView ActivationRecords::rows(NodeId node, std::size_t record, const Part& part,
                                   const Unpacking& scratch) noexcept {
  return rows(node, record, part, scratch, part.unpacked);
}

MatrixView ActivationRecords::rows(NodeId node, std::size_t record, const Part& part, const Unpacking& scratch,
                                   std::size_t unpacked) noexcept {
  if (part.width == 0) return {nullptr, learners_, 0, 0};
  float* const from = place(node, record, part);
  const Dtype dtype = layouts_[node].dtype;
  if (dtype == Dtype::float32) return {from, learners_, part.width, padded(part.width)};
  const MatrixView to{scratch.to + unpacked, learners_, part.width, padded(part.width)};
  if (!scratch.is_recorded) kernels::decode_rows(dtype, reinterpret_cast<const std::byte*>(from), to);
  return to;
}

Activation ActivationRecords::at(NodeId node, const Hop& hop, std::uint64_t tick, const Unpacking& scratch) noexcept {
  const Layout& layout = layouts_[node];
  const std::size_t record = record_of(node, hop, tick);
  const NodeId input = layout.input;
  // The source published it a tick earlier. Its records are as wide as this layer's input.
  const MatrixView x = input == kNoSource
                           ? rows(node, record, layout.x, scratch)
                           : rows(input, (tick - 1) % ticks_of(input), layouts_[input].y, scratch, layout.x.unpacked);
  return {x, rows(node, record, layout.y, scratch), rows(node, record, layout.z, scratch),
          rows(node, record, layout.cache, scratch), rows(node, record, layout.state, scratch)};
}

kernels::ConstMatrixView ActivationRecords::source(NodeId node, const Hop& hop, std::uint64_t tick, std::size_t i,
                                                   const Unpacking& scratch) noexcept {
  return rows(node, record_of(node, hop, tick), layouts_[node].sources[i], scratch);
}

std::span<const float> ActivationRecords::of(NodeId node) const noexcept {
  return {values_.data() + offsets_[node], offsets_[node + 1] - offsets_[node]};
}

}  // namespace weft::learning
