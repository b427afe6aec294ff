// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/step_runner.hpp"

#include "mesh/runtime/observer.hpp"

#include <algorithm>
#include <exception>
#include <optional>

namespace weft::mesh {

namespace {

constexpr std::size_t kPrefetchLines = 128;

/// A step as the rule sees it where it is run on the CPU.
class CpuStepContext final : public StepContext {
 public:
  CpuStepContext(StepRunner& runner, const RegionStep& at, StepEvents& events)
      : StepContext(runner.graph(), runner.state(), runner.weights(), runner.streams().stream(at.region)),
        runner_(runner),
        events_(events) {
    cpu = &runner.streams().stream(at.region);
    workspace = runner.streams().workspace(at.region);
    region = at.region;
    step = at.step;
    tick = at.tick;
  }

  bool any_nonzero(NodeId, std::span<const float> values) override {
    return std::any_of(values.begin(), values.end(), [](float v) { return v != 0.0f; });
  }
  void backward(NodeId node, const BackwardArgs& args) override {
    const Layer& layer = *runner_.layers().unit(node).layer;
    if (layer.is_observer() && !runner_.cells().empty())
      for (const CellObserver& each : runner_.cells()[runner_.plan().cell_of(node)]->observers())
        if (each.node == node && each.observer->backward(args)) return;
    layer.backward(stream, args);
  }
  void report_fault(NodeId node, actors::FaultKind kind, const char* reason,
                    std::uint32_t parameter) noexcept override {
    if (!runner_.cells().empty() && !is_isolated(node)) events_.fail_learning(node, parameter, tick, kind, reason);
  }
  bool is_isolated(NodeId node) const noexcept override {
    return runner_.registry() &&
           runner_.registry()->status(runner_.plan().cell_of(node)) == actors::ActorStatus::isolated;
  }

 private:
  StepRunner& runner_;
  StepEvents& events_;
};

/// Commands of one region's observers.
class RegionCommands final : public CommandSink {
 public:
  RegionCommands(StepEvents& events, std::size_t region) : events_(events), region_(region) {}
  void send(std::uint32_t cell, CommandMessage command) override { events_.command(region_, cell, std::move(command)); }

 private:
  StepEvents& events_;
  std::size_t region_;
};

}  // namespace

float Observation::gradient_size(NodeId node) const noexcept { return rule ? rule->gradient_size(node, step) : 0.0f; }

StepRunner::StepRunner(const RunSetup& setup, const RegionPlan& plan)
    : graph_(setup.graph),
      weights_(setup.weights),
      state_(setup.state),
      plan_(plan),
      cells_(setup.cells),
      registry_(setup.registry),
      rule_(setup.rule),
      activity_(setup.activity),
      layers_(graph_, weights_, state_, plan.regions().size() == 1 ? setup.width.threads : 1),
      outputs_(state_),
      streams_(plan.regions().size(), graph_.workspace_size(), setup.width),
      buffers_(state_, graph_.nodes().size(), graph_.port_count()) {}

void StepRunner::run(const std::vector<RegionPart>& parts, FusedCells* fused, const RegionStep& at,
                     StepEvents& events) noexcept {
  if (parts.empty()) return;
  if (activity_) activity_->begin(at.region, at.tick);
  std::optional<CpuStepContext> context;
  if (rule_) context.emplace(*this, at, events);
  // Every other tick runs backwards: what the last tick touched last is still in cache and is used first, where a
  // region's weights are a little larger than the cache. No value depends on the order of parts.
  const auto in_order = [&](std::size_t size, std::size_t n) { return (at.tick & 1) ? size - 1 - n : n; };
  const auto run_one = [&](std::size_t n) {
    run_part(parts[in_order(parts.size(), n)], parts[in_order(parts.size(), std::min(n + 1, parts.size() - 1))], at,
             context ? &*context : nullptr, events);
  };
  if (order_) [[unlikely]] {
    run_in(*order_, parts, fused, at, context ? &*context : nullptr, events);
  } else if (!fused) {
    for (std::size_t n = 0; n < parts.size(); ++n) run_one(n);
  } else {
    fused->refresh({layers_, weights_, state_, cells_, registry_}, parts);
    std::size_t n = 0;
    for (std::size_t s = 0; s < fused->batches().size(); ++s) {
      const FusedCells::Batch& batch = fused->batches()[in_order(fused->batches().size(), s)];
      const std::size_t end = n + batch.count;
      if (batch.is_fused) {
        run_batch(parts, *fused, batch, at, events);
        n = end;
      }
      for (; n < end; ++n) run_one(n);
    }
  }
  if (activity_) activity_->leave(at.region);
}

// Batches of cells computed by one call come in any order too, or one by one. Prefetches of the next part are left out:
// they cost no bit.
void StepRunner::run_in(scheduler::Order& order, const std::vector<RegionPart>& parts, FusedCells* fused,
                        const RegionStep& at, StepContext* context, StepEvents& events) noexcept {
  const auto run_each = [&](std::vector<RegionPart> drawn) {
    scheduler::arrange(drawn.begin(), drawn.end(), order);
    for (const RegionPart& part : drawn) run_part(part, part, at, context, events);
  };
  std::vector<FusedCells::Batch> batches;
  if (fused) {
    fused->refresh({layers_, weights_, state_, cells_, registry_}, parts);
    batches.assign(fused->batches().begin(), fused->batches().end());
  }
  const bool are_fused = std::any_of(batches.begin(), batches.end(), [](const auto& batch) { return batch.is_fused; });
  if (!are_fused || order.pick(2) == 0) return run_each(parts);
  scheduler::arrange(batches.begin(), batches.end(), order);
  for (const FusedCells::Batch& batch : batches) {
    const auto first = parts.begin() + batch.first;
    batch.is_fused ? run_batch(parts, *fused, batch, at, events) : run_each({first, first + batch.count});
  }
}

void StepRunner::run_part(const RegionPart& part, const RegionPart& next, const RegionStep& at, StepContext* context,
                          StepEvents& events) noexcept {
  if (part.layers == 0) {
    if (at.fires) buffers_.fire_port(part.first, at.tick, at.fired);
    return;
  }
  if (activity_) activity_->enter(at.region, part.cell, at.serial);
  if (at.fires) fire_cell(part, next, at, events);
  if (!context) return;
  for (NodeId id = part.first; id < part.first + part.layers; ++id)
    if (!plan_.learns_late(id)) rule_->learn(*context, id);
}

void StepRunner::run_batch(const std::vector<RegionPart>& parts, const FusedCells& fused,
                           const FusedCells::Batch& batch, const RegionStep& at, StepEvents& events) noexcept {
  const bool is_backwards = at.tick & 1;
  if (activity_) activity_->enter(at.region, parts[batch.first + (is_backwards ? batch.count - 1 : 0)].cell, at.serial);
  const bool are_finite = fused.run(batch, at.tick);
  if (are_finite && buffers_.sinks().empty()) return;
  for (std::size_t n = 0; n < batch.count; ++n) {
    const RegionPart& part = parts[batch.first + (is_backwards ? batch.count - 1 - n : n)];
    if (!are_finite && !outputs_.is_finite(part, streams_.stream(at.region), at.tick))
      events.fail_firing(part, at.tick, actors::FaultKind::output_not_finite, "");
    buffers_.copy_out(part, at.tick, at.fired);
  }
}

// The layer that fires first depends on the placement; with tied weights none may learn before all have fired.
void StepRunner::learn_late(const RegionStep& at, std::span<const std::uint8_t> only, StepEvents& events) noexcept {
  const std::vector<NodeId>& late = plan_.region(at.region).late;
  if (!rule_ || late.empty()) return;
  CpuStepContext context(*this, at, events);
  for (const NodeId id : late) {
    if (!only.empty() && !only[id]) continue;
    if (activity_) activity_->enter(at.region, plan_.cell_of(id), at.serial);
    rule_->learn(context, id);
  }
  if (activity_) activity_->leave(at.region);
}

void StepRunner::fire_cell(const RegionPart& part, const RegionPart& next, const RegionStep& at,
                           StepEvents& events) noexcept {
  Cell* cell = cells_.empty() ? nullptr : cells_[part.cell].get();
  if (cell && cell->take_reset()) {
    cell->collect_mail(at.tick, false);
    outputs_.zero(part, at.tick);
  } else if (cell && !cell->fires(at.tick)) {
    cell->collect_mail(at.tick, false);
    outputs_.keep(part, at.tick, false);
  } else if (keeps_values(part, at.step)) {
    outputs_.keep(part, at.tick, false);
  } else {
    try {
      fire_layers(part, next, cell, at, events);
    } catch (const std::exception& error) {
      if (cell) cell->collect_mail(at.tick);
      events.fail_firing(part, at.tick, actors::FaultKind::threw, error.what());
    } catch (...) {
      if (cell) cell->collect_mail(at.tick);
      events.fail_firing(part, at.tick, actors::FaultKind::threw, "");
    }
  }
  buffers_.copy_out(part, at.tick, at.fired);
}

inline void StepRunner::fire_layer(NodeId node, const RegionStep& at) {
  kernels::CpuStream& stream = streams_.stream(at.region);
  ForwardArgs args = layers_.args(stream, node, at.tick, streams_.workspace(at.region));
  if (rule_ && layers_.unit(node).looks_at_rows) {
    const FiringRows rows = rule_->firing_rows(node, at.step, at.tick);
    args.training_rows = rows.training, args.sample_rows = rows.samples;
  }
  layers_.fire(stream, node, args);
}

inline void StepRunner::fire_layers(const RegionPart& part, const RegionPart& next, Cell* cell, const RegionStep& at,
                                    StepEvents& events) {
  kernels::CpuStream& stream = streams_.stream(at.region);
  const NodeId last = part.first + part.layers - 1;
  for (NodeId id = part.first; id < last; ++id) fire_layer(id, at);
  stream.expect(panels_of(next));
  fire_layer(last, at);
  // The memory is idle while this cell's output is checked; the next cell's weights may come meanwhile.
  prefetch(next);
  if (!outputs_.is_finite(part, stream, at.tick)) [[unlikely]] {
    if (cell) cell->collect_mail(at.tick);
    return events.fail_firing(part, at.tick, actors::FaultKind::output_not_finite, "");
  }
  if (!cell) return;
  if (cell->is_marked()) {
    cell->set_marked(false);
    registry_->set_status(cell->id(), actors::ActorStatus::running);
  }
  if (cell->observers().empty()) return;
  RegionCommands commands(events, at.region);
  for (const CellObserver& each : cell->observers())
    each.observer->observe({at.tick, state_.output(each.node, at.tick + 1), rule_, at.step, cell, &state_, &weights_,
                            &stream, streams_.workspace(at.region)},
                           commands);
}

inline void StepRunner::prefetch(const RegionPart& part) const noexcept {
  const LayerRunner::Unit& unit = layers_.unit(part.first);
  __builtin_prefetch(unit.layer);
  if (!cells_.empty()) __builtin_prefetch(cells_[std::min<std::size_t>(part.cell, cells_.size() - 1)].get());
  if (!unit.has_weights) return;
  const auto* const codes = static_cast<const std::byte*>(unit.weights.data->codes);
  for (std::size_t line = 0; line < kPrefetchLines; ++line) __builtin_prefetch(codes + 64 * line);
}

// Weights that `linear` may prefetch; of other types its panels are no guess at where the codes lie.
inline kernels::ConstPanels StepRunner::panels_of(const RegionPart& part) const noexcept {
  const LayerRunner::Unit& unit = layers_.unit(part.first);
  if (!unit.has_weights || unit.weights.data->dtype != Dtype::float32) return {};
  return unit.weights.data->panels();
}

}  // namespace weft::mesh
