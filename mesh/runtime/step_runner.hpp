// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/cell_outputs.hpp"
#include "mesh/runtime/fused_cells.hpp"
#include "mesh/runtime/layer_runner.hpp"
#include "mesh/runtime/region_plan.hpp"
#include "mesh/runtime/region_streams.hpp"
#include "mesh/runtime/run_buffers.hpp"
#include "mesh/runtime/step_rule.hpp"

#include "actors/activity_table.hpp"

#include "scheduler/order.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace weft::mesh {

class Arrivals;

/// Everything that steps of a mesh run on. All of it outlives them.
struct RunSetup {
  const Graph& graph;
  WeightStore& weights;
  State& state;
  const topology::Plan& plan;
  const std::vector<std::uint32_t>& node_region;
  std::span<const std::unique_ptr<Cell>> cells{};  // empty: only layers (a scratch state that is not supervised)
  actors::Supervisor* supervisor = nullptr;
  actors::Registry* registry = nullptr;
  StepRule* rule = nullptr;
  Width width{};
  actors::ActivityTable* activity = nullptr;  // each region tells there at which cell it is
  std::span<const std::pair<NodeId, NodeId>> mail_links{};
  Arrivals* arrivals = nullptr;  // from outside; null: nothing comes from there
};

/// Faults and commands of a step, for its caller.
/// @thread the one that runs the region
class StepEvents {
 public:
  virtual ~StepEvents() = default;
  /// A firing failed: its values must not be committed. If it threw, the exception is being handled.
  virtual void fail_firing(const RegionPart& part, std::uint64_t tick, actors::FaultKind kind,
                           const char* reason) noexcept = 0;
  /// Learning failed, as StepContext::report_fault says.
  virtual void fail_learning(NodeId node, std::uint32_t parameter, std::uint64_t tick, actors::FaultKind kind,
                             const char* reason) noexcept = 0;
  /// An observer of the region commands a cell.
  virtual void command(std::size_t region, std::uint32_t cell, CommandMessage command) = 0;
};

/// One step of one region.
struct RegionStep {
  std::size_t region = 0;
  std::uint64_t step = 0;    // of the run
  std::uint64_t fired = 0;   // ticks of the run before it
  std::uint64_t tick = 0;    // committed before it
  std::uint64_t serial = 0;  // tells visits of cells apart
  bool fires = true;
};

/// Steps of a mesh's regions on the CPU: ports and cells fire, then the rule lets their layers learn.
/// @thread run, learn_late: the one that runs the region; everything else: between runs
class StepRunner {
 public:
  StepRunner(const RunSetup& setup, const RegionPlan& plan);

  /// Step `step` of a run that began at tick `start`, for a region.
  RegionStep at(std::size_t region, std::uint64_t start, std::uint64_t step, std::uint64_t serial) const noexcept {
    const std::uint64_t fired = ticks_in(step);
    return {region, step, fired, start + fired, serial, rule_ == nullptr || rule_->fires(step)};
  }
  /// Ticks among the first `steps` steps.
  std::uint64_t ticks_in(std::uint64_t steps) const noexcept { return rule_ ? rule_->fired_before(steps) : steps; }
  /// Parts fire, then learn. `fused`: of these parts; null: cells are computed one by one.
  void run(const std::vector<RegionPart>& parts, FusedCells* fused, const RegionStep& at, StepEvents& events) noexcept;
  /// Layers with tied weights learn when all have fired; those in `only`, by node, unless it is empty.
  void learn_late(const RegionStep& at, std::span<const std::uint8_t> only, StepEvents& events) noexcept;
  /// True where batches of cells may be computed by one call. Operations of several rows, with threads or a learner at
  /// hand, are better called one by one.
  bool may_fuse() const noexcept {
    return !rule_ && streams_.threads() == 1 && state_.sessions() == 1 && state_.depth() == 2;
  }

  /// Lets cells keep their values where the rule says so (StepRule::keeps_value). Between runs.
  void allow_kept_values(bool are_allowed) noexcept { may_keep_ = are_allowed; }
  bool may_keep() const noexcept { return may_keep_; }
  /// True when all layers of the cell keep their values in this tick.
  bool keeps_values(const RegionPart& part, std::uint64_t step) const noexcept {
    if (!may_keep_) return false;
    for (NodeId id = part.first; id < part.first + part.layers; ++id)
      if (!rule_->keeps_value(id, step)) return false;
    return true;
  }

  const Graph& graph() const noexcept { return graph_; }
  State& state() noexcept { return state_; }
  WeightStore& weights() noexcept { return weights_; }
  const RegionPlan& plan() const noexcept { return plan_; }
  std::span<const std::unique_ptr<Cell>> cells() const noexcept { return cells_; }
  const actors::Registry* registry() const noexcept { return registry_; }
  StepRule* rule() const noexcept { return rule_; }
  /// Sets who says which part of a half-step comes first; null: the runner's own order. @thread as run
  void use_order(scheduler::Order* order) noexcept { order_ = order; }
  void forget_rule() noexcept {
    rule_ = nullptr;
    may_keep_ = false;
  }
  const LayerRunner& layers() const noexcept { return layers_; }
  CellOutputs& outputs() noexcept { return outputs_; }
  RegionStreams& streams() noexcept { return streams_; }
  RunBuffers& buffers() noexcept { return buffers_; }
  const RunBuffers& buffers() const noexcept { return buffers_; }
  /// Number of the next step among all steps ever run.
  std::uint64_t& serial() noexcept { return serial_; }

 private:
  void run_in(scheduler::Order& order, const std::vector<RegionPart>& parts, FusedCells* fused, const RegionStep& at,
              StepContext* context, StepEvents& events) noexcept;
  void run_part(const RegionPart& part, const RegionPart& next, const RegionStep& at, StepContext* context,
                StepEvents& events) noexcept;
  void run_batch(const std::vector<RegionPart>& parts, const FusedCells& fused, const FusedCells::Batch& batch,
                 const RegionStep& at, StepEvents& events) noexcept;
  void fire_cell(const RegionPart& part, const RegionPart& next, const RegionStep& at, StepEvents& events) noexcept;
  void fire_layer(NodeId node, const RegionStep& at);
  void fire_layers(const RegionPart& part, const RegionPart& next, Cell* cell, const RegionStep& at,
                   StepEvents& events);
  void prefetch(const RegionPart& part) const noexcept;
  kernels::ConstPanels panels_of(const RegionPart& part) const noexcept;

  const Graph& graph_;
  WeightStore& weights_;
  State& state_;
  const RegionPlan& plan_;
  std::span<const std::unique_ptr<Cell>> cells_;
  actors::Registry* registry_;
  StepRule* rule_;
  bool may_keep_ = false;
  actors::ActivityTable* activity_;
  LayerRunner layers_;
  CellOutputs outputs_;
  RegionStreams streams_;
  RunBuffers buffers_;
  scheduler::Order* order_ = nullptr;
  std::uint64_t serial_ = 0;
};

}  // namespace weft::mesh
