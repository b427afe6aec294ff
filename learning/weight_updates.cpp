// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/weight_updates.hpp"

#include "mesh/weights/weight_store.hpp"

namespace weft::learning {

using mesh::NodeId;

void WeightUpdates::begin(mesh::StepContext& context, NodeId node) noexcept {
  has_failed_[node] = 0;
  bool is_owner = false;
  for (const std::uint32_t g : plan_->layers[node].groups) {
    const TiedGroup& group = plan_->tied[g];
    is_owner |= group.owner == node;
    if (progress_[g].pending == 0) {
      optimizer_.clear_gradients(context.stream, context.weights, group.owner);
      progress_[g] = {static_cast<std::uint32_t>(group.users.size()), false, false};
    }
  }
  if (!is_owner) optimizer_.clear_gradients(context.stream, context.weights, node);
}

void WeightUpdates::end(mesh::StepContext& context, NodeId node, bool is_used, std::uint64_t parity,
                        GradientSizes& sizes) noexcept {
  // A fault in one hop drops the whole update.
  is_used = is_used && !has_failed_[node];
  bool is_owner = false;
  for (const std::uint32_t g : plan_->layers[node].groups) {
    const TiedGroup& group = plan_->tied[g];
    Progress& now = progress_[g];
    is_owner |= group.owner == node;
    now.is_used |= is_used;
    now.has_failed |= has_failed_[node] != 0;
    if (--now.pending == 0 && now.is_used && !now.has_failed) move(context, group.owner, parity, sizes);
  }
  if (!is_owner && is_used) move(context, node, parity, sizes);
}

void WeightUpdates::move(mesh::StepContext& context, NodeId node, std::uint64_t parity, GradientSizes& sizes) noexcept {
  // A cell is isolated as a whole: its values and its weights.
  if (!context.weights.learns(node) || context.is_isolated(node)) return;
  sizes.measure(context, node, parity, optimizer_);
  context.begin_update(node);
  const bool is_moved = optimizer_.step(context.stream, context.weights, node);
  context.end_update(node);
  if (!is_moved) context.report_fault(node, actors::FaultKind::update_not_finite);
}

}  // namespace weft::learning
