// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/gradient_sizes.hpp"
#include "learning/internal/layer_statistics.hpp"
#include "learning/internal/learning_plan.hpp"
#include "learning/optimizer.hpp"

#include "mesh/runtime/step_rule.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace weft::learning {

/// The end of a layer's learning: gradients are cleared before its first error, and the weights move after its last.
/// Tied weights move once, after the last of their users.
/// @thread a layer's part: the thread of the region that owns it; users of one weight are in one region
class WeightUpdates {
 public:
  /// A tied group in the sample (settle) or step (pipelined) under way.
  struct Progress {
    std::uint32_t pending = 0;  // users that are still to come
    bool is_used = false, has_failed = false;
  };

  WeightUpdates() = default;
  WeightUpdates(const LearningPlan& plan, Optimizer optimizer)
      : plan_(&plan),
        optimizer_(std::move(optimizer)),
        progress_(plan.tied.size()),
        has_failed_(plan.layers.size()),
        is_dropped_(plan.layers.size()) {}

  /// Measures how weights move, on the CPU; null: nobody looks. Between runs.
  void measure(LayerStatistics* statistics) noexcept { statistics_ = statistics; }
  /// Clears the gradients of the weights that `node` computes with. `keeps_products`: see Optimizer::gradients.
  void begin(mesh::StepContext& context, mesh::NodeId node, bool keeps_products) noexcept;
  /// The same for an update by one outer product, which needs no gradients in memory.
  void begin_product(mesh::NodeId node) noexcept { has_failed_[node] = 0; }
  /// Moves the weights of `node` by such an update.
  void end_product(mesh::StepContext& context, mesh::NodeId node, const kernels::OuterProduct& product) noexcept;
  /// Moves the weights of `node`, and tied ones after their last user; `is_used`: it added gradients. `signals`: of its
  /// traces (EligibilityTraces).
  void end(mesh::StepContext& context, mesh::NodeId node, bool is_used, std::uint64_t parity, GradientSizes& sizes,
           const float* signals) noexcept;
  /// For layers that move together: adds the norms of their gradients, and moves one of them.
  void add_norms(mesh::StepContext& context) noexcept { optimizer_.add_norms(context.stream); }
  void move_together(mesh::StepContext& context, mesh::NodeId node, const float* signals) noexcept;
  /// Drops the update under way: half of its gradients may be missing.
  void fail(mesh::NodeId node) noexcept { has_failed_[node] = 1; }
  /// Forgets users that a halt kept from coming.
  void begin_run() noexcept {
    for (Progress& group : progress_) group.pending = 0;
  }

  /// Between runs: true where somebody else has written weights, by WeightStore::changes(), to which adapters are to be
  /// added.
  bool must_follow(std::uint64_t changes) const noexcept {
    return optimizer_.adapters().is_on() && changes_seen_ != changes;
  }
  /// Adds them. @pre the host has the weights
  void follow(const mesh::WeightStore& weights);

  Optimizer& optimizer() noexcept { return optimizer_; }
  const Optimizer& optimizer() const noexcept { return optimizer_; }
  std::vector<Progress>& progress() noexcept { return progress_; }
  const std::vector<Progress>& progress() const noexcept { return progress_; }

 private:
  void clear(mesh::StepContext& context, mesh::NodeId node, bool keeps_products = false) noexcept;
  bool is_held_back(const mesh::StepContext& context, mesh::NodeId node) const noexcept;
  void move(mesh::StepContext& context, mesh::NodeId node, std::uint64_t parity, GradientSizes& sizes,
            const float* signals) noexcept;
  /// Gradients of the layer's adapters from those of its weights.
  void take_adapters(mesh::StepContext& context, mesh::NodeId node) noexcept;
  void move_checked(mesh::StepContext& context, mesh::NodeId node, const float* signals) noexcept;

  void step(mesh::StepContext& context, mesh::NodeId node, const float* signals) noexcept;
  template <class Move>
  bool measured(const mesh::StepContext& context, mesh::NodeId node, Move&& move) noexcept;

  const LearningPlan* plan_ = nullptr;
  LayerStatistics* statistics_ = nullptr;
  Optimizer optimizer_;
  std::vector<Progress> progress_;           // by tied group
  std::vector<std::uint8_t> has_failed_;     // by node: a fault in the update under way
  std::uint64_t changes_seen_ = UINT64_MAX;  // WeightStore::changes() when adapters last followed them
  std::vector<std::uint8_t> is_dropped_;     // by node: its gradients of this sample move nothing (moves_together)
};

}  // namespace weft::learning
