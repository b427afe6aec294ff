// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/weight_updates.hpp"

#include "mesh/weights/weight_store.hpp"

namespace weft::learning {

using mesh::NodeId;

/// Moves weights, and measures by how much where somebody looks.
template <class Move>
bool WeightUpdates::measured(const mesh::StepContext& context, NodeId node, Move&& move) noexcept {
  LayerStatistics* const statistics = context.cpu ? statistics_ : nullptr;
  if (statistics) [[unlikely]]
    statistics->begin_move(context.weights, node);
  const bool has_moved = move();
  if (statistics) [[unlikely]]
    statistics->end_move(context.weights, node);
  return has_moved;
}

void WeightUpdates::begin(mesh::StepContext& context, NodeId node, bool keeps_products) noexcept {
  has_failed_[node] = 0;
  bool is_owner = false;
  for (const std::uint32_t g : plan_->layers[node].groups) {
    const TiedGroup& group = plan_->tied[g];
    is_owner |= group.owner == node;
    if (progress_[g].pending == 0) {
      clear(context, group.owner);
      progress_[g] = {static_cast<std::uint32_t>(group.users.size()), false, false};
    }
  }
  if (!is_owner) clear(context, node, keeps_products);
}

void WeightUpdates::clear(mesh::StepContext& context, NodeId node, bool keeps_products) noexcept {
  optimizer_.clear_gradients(context.stream, context.weights, node, keeps_products);
  if (!plan_->moves_together || !plan_->layers[node].moves) return;
  if (optimizer_.traces().is_on())
    optimizer_.traces().forget(context.stream, node);
  else
    optimizer_.forget_norm(context.stream, node);
  is_dropped_[node] = 0;
}

void WeightUpdates::end(mesh::StepContext& context, NodeId node, bool is_used, std::uint64_t parity,
                        GradientSizes& sizes, const float* signals) noexcept {
  // A fault in one hop drops the whole update.
  is_used = is_used && !has_failed_[node];
  bool is_owner = false;
  for (const std::uint32_t g : plan_->layers[node].groups) {
    const TiedGroup& group = plan_->tied[g];
    Progress& now = progress_[g];
    is_owner |= group.owner == node;
    now.is_used |= is_used;
    now.has_failed |= has_failed_[node] != 0;
    if (--now.pending != 0) continue;
    if (now.is_used && !now.has_failed)
      move(context, group.owner, parity, sizes, signals);
    else
      is_dropped_[group.owner] = 1;
  }
  if (is_owner) return;
  if (is_used)
    move(context, node, parity, sizes, signals);
  else
    is_dropped_[node] = 1;
}

void WeightUpdates::move(mesh::StepContext& context, NodeId node, std::uint64_t parity, GradientSizes& sizes,
                         const float* signals) noexcept {
  if (is_held_back(context, node)) return;
  sizes.measure(context, node, parity, optimizer_);
  move_checked(context, node, signals);
}

void WeightUpdates::take_adapters(mesh::StepContext& context, NodeId node) noexcept {
  const Adapters& adapters = optimizer_.adapters();
  const std::size_t first = context.weights.first(node), end = first + context.weights.of(node).size();
  for (std::size_t i = first; i < end && adapters.is_on(); ++i)
    if (adapters.has(i))
      adapters.take_gradient(context.stream, i, optimizer_.slot(adapters.values_slot(), i), optimizer_.gradient(i));
}

void WeightUpdates::follow(const mesh::WeightStore& weights) {
  const Adapters& adapters = optimizer_.adapters();
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    if (const float* const w = weights.parameters()[i].data; w && adapters.has(i))
      adapters.follow(i, optimizer_.slot(adapters.values_slot(), i), optimizer_.slot(adapters.base_slot(), i), w);
  changes_seen_ = weights.changes();
}

void WeightUpdates::move_checked(mesh::StepContext& context, NodeId node, const float* signals) noexcept {
  context.begin_update(node);
  take_adapters(context, node);
  const bool is_recorded = !context.cpu;
  const auto not_finite = optimizer_.not_finite(context.stream, context.weights, node, is_recorded);
  const bool is_finite = !not_finite;
  is_dropped_[node] = !is_finite;
  if (is_finite && optimizer_.traces().is_on())
    optimizer_.traces().take(context.stream, node, signals, is_recorded);
  else if (is_finite && optimizer_.is_perturbed())
    optimizer_.update_utilities(context.stream, context.weights, node);
  else if (is_finite && plan_->moves_together)
    optimizer_.measure_norm(context.stream, context.weights, node);
  else if (is_finite)
    step(context, node, nullptr);
  context.end_update(node);
  if (!is_finite) context.report_fault(node, actors::FaultKind::update_not_finite, "", *not_finite);
}

void WeightUpdates::end_product(mesh::StepContext& context, NodeId node,
                                const kernels::OuterProduct& product) noexcept {
  if (has_failed_[node] || is_held_back(context, node)) return;
  const auto by_product = [&] { return optimizer_.step_product(*context.cpu, context.weights, node, product); };
  if (measured(context, node, by_product)) return;
  // Some gradient may not be finite: all are looked at before the first weight moves.
  optimizer_.take_product(context.stream, context.weights, node, product);
  move_checked(context, node, nullptr);
}

// A cell is isolated as a whole: its values and its weights. At a rate of 0 the arrays beside the weights stay too.
bool WeightUpdates::is_held_back(const mesh::StepContext& context, NodeId node) const noexcept {
  return !plan_->layers[node].moves || !context.weights.learns(node) || context.is_isolated(node) ||
         context.weights.rates.of(node) == 0.0f;
}

void WeightUpdates::move_together(mesh::StepContext& context, NodeId node, const float* signals) noexcept {
  if (is_held_back(context, node) || is_dropped_[node]) return;
  step(context, node, signals);
}

void WeightUpdates::step(mesh::StepContext& context, NodeId node, const float* signals) noexcept {
  measured(context, node, [&] {
    if (optimizer_.traces().is_on())
      optimizer_.step_by_traces(context.stream, context.weights, node, signals, !context.cpu);
    else
      optimizer_.step(context.stream, context.weights, node);
    return true;
  });
}

}  // namespace weft::learning
