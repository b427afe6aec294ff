// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"

#include "actors/registry.hpp"

#include "kernels/fwd.hpp"

#include "core/archive.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace weft::mesh {

class RecordableRule;
class State;
class WeightStore;

/// One step of a run for the layers of one region: memory to compute in, values to read, and what a rule reports. It is
/// made by the code that runs or records the step, and passed into the rule. The rule needs no way back.
/// @thread the one that runs the region
class StepContext {
 public:
  static constexpr std::uint32_t kNoParameter = UINT32_MAX;
  StepContext(const StepContext&) = delete;
  StepContext& operator=(const StepContext&) = delete;

  const Graph& graph;
  const State& state;
  WeightStore& weights;
  kernels::OpStream& stream;          // operations of this step go here
  kernels::CpuStream* cpu = nullptr;  // the same, where they run at once; null: they are recorded
  float* workspace = nullptr;         // Layer::workspace_size() floats of any layer
  std::size_t region = 0;
  std::uint64_t step = 0;  // of the run
  std::uint64_t tick = 0;  // committed when the step began

  /// True where a value, which an operation just made for `node` to learn by, is not 0. A recorder does not know yet
  /// and answers true. If all are 0 on the device, the updates of the node in this step do not happen there.
  virtual bool any_nonzero(NodeId node, std::span<const float> values) = 0;
  /// The layer's own backward. A recorder skips layers that compute without operations.
  virtual void backward(NodeId node, const BackwardArgs& args) = 0;
  /// Around the optimiser's step for a node's weights.
  virtual void begin_update([[maybe_unused]] NodeId node) {}
  virtual void end_update([[maybe_unused]] NodeId node) {}
  /// A fault of the node's cell in this step: of one that threw, while the exception is handled; of gradients, with the
  /// parameter of the node whose gradient is not finite. So the layer inside a container is found that answers for it.
  /// Ignored for a cell that is isolated.
  virtual void report_fault(NodeId node, actors::FaultKind kind, const char* reason = "",
                            std::uint32_t parameter = kNoParameter) noexcept = 0;
  /// True when supervision has disabled the node's cell.
  virtual bool is_isolated(NodeId node) const noexcept = 0;

 protected:
  StepContext(const Graph& of_graph, const State& of_state, WeightStore& of_weights, kernels::OpStream& to)
      : graph(of_graph), state(of_state), weights(of_weights), stream(to) {}
  ~StepContext() = default;
};

/// Part of a rule that is saved: with the mesh, in files, with a cell that restarts, and on the host's side of a
/// device. A rule names each field once, in one function that both directions share (core/archive.hpp); the archive
/// decides which fields it takes.
class RuleState {
 public:
  virtual ~RuleState() = default;
  /// Everything that steps change besides mesh and weights. What a state must agree in comes first.
  virtual void visit(OutArchive& archive) const = 0;
  virtual void visit(InArchive& archive) = 0;
  /// The part of one layer that goes with its weights. @thread as StepRule::learn
  virtual void visit_layer(NodeId node, OutArchive& archive) const = 0;
  virtual void visit_layer(NodeId node, InArchive& archive) = 0;
};

/// Numbers of a layer's rows, the first ones, in one firing (ForwardArgs).
struct FiringRows {
  std::size_t training = 0;  // that will be learned from
  std::size_t samples = 0;   // that read a sample which is new to them
};

/// A learning rule in a run: which steps are ticks, and what each layer does in a step once its cell has fired. A step
/// obeys the scheduler's neighbour rule, so `learn` may read what neighbours wrote in earlier steps.
/// @thread learn: the thread of the region that owns `node`, regions at once
class StepRule {
 public:
  virtual ~StepRule() = default;
  /// True when step `step` of the run is a tick (the layers fire).
  virtual bool fires(std::uint64_t step) const noexcept = 0;
  /// Number of ticks among the steps [0, step).
  virtual std::uint64_t fired_before(std::uint64_t step) const noexcept = 0;
  /// True when firing in this step, a tick, could not change what the layer publishes about the inputs that are held:
  /// it keeps its value. Asked where every cell fires in every tick of the run and no command waits.
  virtual bool keeps_value([[maybe_unused]] NodeId node, [[maybe_unused]] std::uint64_t step) const noexcept {
    return false;
  }
  /// The layer's learning in this step.
  virtual void learn(StepContext& context, NodeId node) noexcept = 0;
  /// Rows of a layer as it fires in this step. Asked of layers that look at them.
  virtual FiringRows firing_rows([[maybe_unused]] NodeId node, [[maybe_unused]] std::uint64_t step,
                                 [[maybe_unused]] std::uint64_t tick) const noexcept {
    return {};
  }
  /// The rms of the layer's last gradient before this step; 0 before the first. For layers that a reader observes.
  virtual float gradient_size([[maybe_unused]] NodeId node, [[maybe_unused]] std::uint64_t step) const noexcept {
    return 0.0f;
  }
  /// Links besides the network's own that `learn` reads across; pairs of nodes.
  virtual std::vector<std::pair<NodeId, NodeId>> extra_links() const { return {}; }

  /// Its saved part; null: it has none.
  virtual RuleState* saved() noexcept { return nullptr; }
  /// Its part for a device (mesh/device/recordable_rule.hpp); null: its steps cannot be recorded, since they do more
  /// than call operations.
  virtual RecordableRule* recordable() noexcept { return nullptr; }
};

}  // namespace weft::mesh
