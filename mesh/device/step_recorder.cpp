// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/step_recorder.hpp"

#include "mesh/device/recordable_rule.hpp"

#include <algorithm>
#include <optional>

namespace weft::mesh {

using kernels::ConstMatrixView;
using kernels::MatrixView;

namespace {

/// A step as the rule sees it where it is recorded. All is expected to go well: faults of values are found when it
/// runs.
class RecordingContext final : public StepContext {
 public:
  RecordingContext(GraphRecorder& to, StepRunner& runner, std::span<const std::uint8_t> is_custom, const RegionStep& at,
                   bool& has_failed)
      : StepContext(runner.graph(), runner.state(), runner.weights(), to),
        to_(to),
        runner_(runner),
        is_custom_(is_custom),
        has_failed_(has_failed) {
    workspace = runner.streams().workspace(at.region);
    region = at.region;
    step = at.step;
    tick = at.tick;
  }

  bool any_nonzero(NodeId node, std::span<const float> values) override {
    return to_.any_nonzero(node, values, runner_.rule()->recordable()->may_skip(node));
  }
  void backward(NodeId node, const BackwardArgs& args) override {
    if (is_custom_[node])  // weights and gradients are its own: no device has them
      return to_.touch({args.x, args.z, args.y, args.cache, args.state, args.dnext_state},
                       {args.dy, args.dx, args.dstate});
    runner_.layers().unit(node).layer->backward(stream, args);
  }
  void begin_update(NodeId node) override { to_.guards().begin_move(node); }
  void end_update(NodeId node) override { to_.guards().end_move(node); }
  void report_fault(NodeId, actors::FaultKind, const char*, std::uint32_t) noexcept override { has_failed_ = true; }
  bool is_isolated(NodeId node) const noexcept override {
    return runner_.registry()->status(runner_.plan().cell_of(node)) == actors::ActorStatus::isolated;
  }

 private:
  GraphRecorder& to_;
  StepRunner& runner_;
  std::span<const std::uint8_t> is_custom_;
  bool& has_failed_;
};

}  // namespace

Status StepRecorder::status() const {
  if (!has_failed_) return {};
  return fail(Errc::internal, "vulkan: a layer's learning failed while its step was recorded");
}

bool StepRecorder::is_on(Side side, NodeId node) const noexcept {
  if (side == Side::both) return true;
  if (runner_.graph().nodes()[node].is_port()) return side == Side::ports;
  return side == (is_host_[node] ? Side::host : Side::device);
}

void StepRecorder::record(const Recording& recording, std::uint64_t step, Side side) {
  // No value depends on the order: parts read what earlier steps committed.
  std::size_t unit = 0;
  for (std::size_t r = 0; r < runner_.plan().regions().size(); ++r) {
    const RegionPlan::Region& region = runner_.plan().region(r);
    const RegionStep at = runner_.at(r, recording.tick, step, 0);
    std::optional<RecordingContext> context;
    if (runner_.rule()) context.emplace(to_, runner_, is_custom_, at, has_failed_);
    for (const auto* const parts : {&region.interior, &region.boundary})
      for (const RegionPart& part : *parts) {
        to_.buffers().select(unit++);
        if (is_on(side, part.first)) record_part(recording, part, at, context ? &*context : nullptr);
      }
    if (!context) continue;
    for (const NodeId id : region.late) {
      to_.buffers().select(unit++);
      if (is_on(side, id)) runner_.rule()->learn(*context, id);
    }
  }
}

void StepRecorder::record_part(const Recording& recording, const RegionPart& part, const RegionStep& at,
                               StepContext* context) {
  if (part.layers == 0) {
    if (at.fires) record_port(recording, part.first, at);
    return;
  }
  State& state = runner_.state();
  const bool is_due = runner_.cells().empty() || (runner_.cells()[part.cell]->fires(at.tick) &&
                                                  !(at.fires && runner_.keeps_values(part, at.step)));
  for (NodeId id = part.first; id < part.first + part.layers && at.fires; ++id) {
    if (is_due) {
      record_layer(id, at);
    } else {
      for (const auto ring : kFiringRings)
        if (const MatrixView from = (state.*ring)(id, at.tick); from.data)
          to_.copy({from, (state.*ring)(id, at.tick + 1)});
    }
    record_outputs(recording, id, at);
  }
  if (!context) return;
  for (NodeId id = part.first; id < part.first + part.layers; ++id)
    if (!runner_.plan().learns_late(id)) runner_.rule()->learn(*context, id);
}

void StepRecorder::record_layer(NodeId node, const RegionStep& at) {
  State& state = runner_.state();
  const LayerRunner::Unit& unit = runner_.layers().unit(node);
  ForwardArgs args = runner_.layers().args(to_, node, at.tick, runner_.streams().workspace(at.region));
  if (runner_.rule() && unit.looks_at_rows) {
    const FiringRows rows = runner_.rule()->firing_rows(node, at.step, at.tick);
    args.training_rows = rows.training, args.sample_rows = rows.samples;
  }
  if (is_custom_[node])
    to_.touch({args.x, args.state}, {args.z, args.y, args.cache, args.next_state});  // weights are its own
  else
    unit.layer->forward(to_, args);
  to_.is_finite({state.output(node, at.tick + 1)});
  if (const MatrixView hidden = state.hidden(node, at.tick + 1); hidden.data) to_.is_finite({hidden});
}

void StepRecorder::record_outputs(const Recording& recording, NodeId node, const RegionStep& at) {
  const MatrixView y = to_.to_device(runner_.state().output(node, at.tick + 1));
  const auto [first, last] = std::equal_range(recording.sinks.begin(), recording.sinks.end(), OutputSink{node, nullptr},
                                              [](const OutputSink& a, const OutputSink& b) { return a.node < b.node; });
  for (auto sink = first; sink != last; ++sink)
    to_.device().copy({y, {sink->base + (at.fired - recording.first_fired) * y.rows * y.cols, y.rows, y.cols, y.cols}});
}

void StepRecorder::record_port(const Recording& recording, NodeId port, const RegionStep& at) {
  const MatrixView next = runner_.state().output(port, at.tick + 1);
  float* const values = recording.feeds[port];
  if (!values) return to_.copy({runner_.state().output(port, at.tick), next});
  const std::uint64_t row = at.fired - recording.first_fired;
  to_.device().copy(
      {ConstMatrixView{values + row * next.rows * next.cols, next.rows, next.cols, next.cols}, to_.to_device(next)});
}

}  // namespace weft::mesh
