// SPDX-License-Identifier: Apache-2.0
// A step as operations for a device, instead of a step.

#include "mesh/device/graph_recorder.hpp"
#include "mesh/runtime/engine.hpp"

#include <algorithm>

namespace weft::mesh {

using kernels::ConstRows;
using kernels::Rows;

bool Engine::any_nonzero(NodeId node, std::span<const float> values) noexcept {
  if (recording_) return recording_->any_nonzero(node, values, hook_->may_skip(node));
  return std::any_of(values.begin(), values.end(), [](float v) { return v != 0.0f; });
}

void Engine::backward(std::size_t region, NodeId node, const BackwardArgs& args) {
  if (recording_ && is_opaque_[node])  // weights and gradients are its own: no device has them
    return recording_->touch({args.x, args.z, args.y, args.cache, args.state, args.dnext_state},
                             {args.dy, args.dx, args.dstate});
  graph_.nodes()[node].layer->backward(stream(region), args);
}

void Engine::begin_move(NodeId node) noexcept {
  if (recording_) recording_->guards().begin_move(node);
}

void Engine::end_move(NodeId node) noexcept {
  if (recording_) recording_->guards().end_move(node);
}

bool Engine::is_on(Side side, NodeId node) const noexcept {
  if (side == Side::both) return true;
  if (graph_.nodes()[node].is_port()) return side == Side::ports;
  return side == (is_host_[node] ? Side::host : Side::device);
}

void Engine::record_step(const Recording& recording, std::uint64_t step, Side side) {
  recording_ = recording.stream;
  recording_ops_ = recording.stream;
  base_tick_ = recording.tick;
  const std::uint64_t tick = base_tick_ + ticks_in(step);
  // No value depends on the order: parts read what earlier steps committed.
  std::size_t unit = 0;
  for (std::size_t r = 0; r < regions_.size(); ++r) {
    for (const auto* const parts : {&regions_[r].interior, &regions_[r].boundary})
      for (const Part& part : *parts) {
        recording.stream->mirror().select(unit++);
        if (is_on(side, part.first)) record_part(recording, part, r, step);
      }
    if (!hook_) continue;
    for (const NodeId id : late_[r]) {
      recording.stream->mirror().select(unit++);
      if (is_on(side, id)) hook_->learn(r, id, step, tick);
    }
  }
  recording_ = nullptr;
}

void Engine::record_part(const Recording& recording, const Part& part, std::size_t region, std::uint64_t step) {
  const bool fires = hook_ == nullptr || hook_->fires(step);
  const std::uint64_t fired = ticks_in(step), tick = base_tick_ + fired;
  if (part.layers == 0) {
    if (fires) record_port(recording, part.first, fired - recording.first_fired);
    return;
  }
  GraphRecorder& stream = *recording.stream;
  const bool is_silent = !cells_[part.cell]->fires(tick);
  for (NodeId id = part.first; id < part.first + part.layers && fires; ++id) {
    if (is_silent) {
      for (const auto ring : kRings)
        if (const Rows from = (state_.*ring)(id, tick); from.data) stream.copy({from, (state_.*ring)(id, tick + 1)});
    } else {
      fire_layer(id, region, tick, step);
      stream.is_finite({state_.output(id, tick + 1)});
      if (const Rows hidden = state_.hidden(id, tick + 1); hidden.data) stream.is_finite({hidden});
    }
    const Rows y = stream.there(state_.output(id, tick + 1));
    const auto [first, last] =
        std::equal_range(recording.sinks.begin(), recording.sinks.end(), OutputSink{id, nullptr},
                         [](const OutputSink& a, const OutputSink& b) { return a.node < b.node; });
    for (auto sink = first; sink != last; ++sink)
      stream.device().copy(
          {y, {sink->base + (fired - recording.first_fired) * y.rows * y.cols, y.rows, y.cols, y.cols}});
  }
  if (!hook_) return;
  for (NodeId id = part.first; id < part.first + part.layers; ++id)
    if (!units_[id].learns_late) hook_->learn(region, id, step, tick);
}

void Engine::record_port(const Recording& recording, NodeId port, std::uint64_t fired) {
  GraphRecorder& stream = *recording.stream;
  const std::uint64_t tick = base_tick_ + recording.first_fired + fired;
  const Rows next = state_.output(port, tick + 1);
  float* const values = recording.feeds[port];
  if (!values) return stream.copy({state_.output(port, tick), next});
  stream.device().copy(
      {ConstRows{values + fired * next.rows * next.cols, next.rows, next.cols, next.cols}, stream.there(next)});
}

}  // namespace weft::mesh
