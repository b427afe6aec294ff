// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/adapters.hpp"
#include "learning/eligibility_traces.hpp"
#include "learning/options.hpp"

#include "mesh/weights/weight_store.hpp"

#include "kernels/fwd.hpp"
#include "kernels/op_stream.hpp"

#include "core/archive.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace weft::learning {

struct LearningPlan;

/// Shares of a step by gradients that are `delay` updates late. With momentum m, s = 1 - dampening and D = delay:
///   spike       velocity m^D, gradient s (1 - m^D) / (1 - m)
///   prediction  velocity 1 + D - D / m, gradient s D / m
///   both        velocity m^D + D - D / m, gradient s ((1 - m^D) / (1 - m) + D / m)
/// In float64, rounded once; with a delay of 0 none, the velocity alone is the step.
/// @source Kosson et al. 2021, "Pipelined Backpropagation at Scale", arXiv:2003.11666
kernels::StepShares delayed_shares(const OptimizerOptions& options, DelayCompensation compensation,
                                   std::uint32_t delay) noexcept;

/// State arrays beside each parameter: the optimiser's, and one of traces or utilities.
std::size_t arrays_before_past(const LearningOptions& options) noexcept;

/// Gradients, velocities and moments beside the weights, and the step that uses them up. A frozen layer has none.
/// @thread each layer's part: the thread of the region that owns the layer
/// @exact  elementwise: same bits everywhere
class Optimizer {
 public:
  static Result<Optimizer> build(const mesh::Graph& graph, const LearningPlan& plan, const mesh::WeightStore& weights,
                                 const LearningOptions& options);

  /// Destinations of the gradients of the weights that the layer computes with: its own and tied ones.
  /// `keeps_products`: as in LayerPlan, of a layer whose weights are its own.
  mesh::Gradients gradients(mesh::NodeId node, bool keeps_products = false) noexcept {
    float* const* const own = gradient_pointers_.data() + first_[node];
    return {joined_[node].empty() ? own : joined_[node].data(),
            keeps_products ? traces_.products(first_[node]) : nullptr, traces_.rows(first_[node])};
  }
  /// The gradients of parameter `i` of the store.
  float* gradient(std::size_t i) const noexcept { return gradient_pointers_[i]; }
  void clear_gradients(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node,
                       bool keeps_products = false);
  /// Adapters of matrices (LearningOptions::lora), whose values are among the slots.
  const Adapters& adapters() const noexcept { return adapters_; }
  /// The last of the layer's own parameters whose gradient is not finite, which is the first on the way back.
  /// `is_recorded`: the operations run later, and say so then.
  std::optional<std::uint32_t> not_finite(kernels::OpStream& stream, const mesh::WeightStore& weights,
                                          mesh::NodeId node, bool is_recorded) const;
  /// Sums the squares of the layer's gradients; `forget_norm` makes the sum 0.
  void measure_norm(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node);
  void forget_norm(kernels::OpStream& stream, mesh::NodeId node);
  /// Sums those sums, by node, for the next `step` of every layer (Clip::global_norm); of utilities the largest.
  void add_norms(kernels::OpStream& stream);
  /// Gradients go into traces, by which the weights then move (LearningOptions::traces).
  EligibilityTraces& traces() noexcept { return traces_; }
  const EligibilityTraces& traces() const noexcept { return traces_; }
  /// Steps are with noise, by utilities (LearningOptions::perturb).
  bool is_perturbed() const noexcept { return perturbed_.by.is_on(); }
  /// Takes the layer's gradients into the utilities of its weights, the largest of which `add_norms` looks for.
  void update_utilities(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node);
  /// Moves the layer's weights by gradients that are finite; counts one update.
  void step(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node);
  /// The same by traces, in a step of `signals`.
  void step_by_traces(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node, const float* signals,
                      bool is_recorded);
  /// The same of a layer of one product, whose gradients are an outer product and stay out of memory. False where they
  /// might not be finite: nothing has moved then.
  bool step_product(kernels::CpuStream& stream, mesh::WeightStore& weights, mesh::NodeId node,
                    const kernels::OuterProduct& product);
  /// Writes those gradients to memory, for `step`.
  void take_product(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node,
                    const kernels::OuterProduct& product);

  /// Updates of each layer so far, by node.
  std::span<std::uint64_t> updates() noexcept { return updates_; }
  std::span<const std::uint64_t> updates() const noexcept { return updates_; }
  /// kOptimizerFactors for each node and each parameter with a rate of its own, of the update under way: no state.
  /// Empty where neither a step nor its noise depends on the number of updates before it, and no parameter has one.
  std::span<const float> factors() const noexcept { return factors_; }
  /// Sums of squares of gradients, where their norms are limited: by rows of panels, by node, of all.
  std::span<const float> squares() const noexcept { return sums_.squares; }
  std::span<const float> norms() const noexcept { return sums_.norms; }
  std::span<const float> total() const noexcept { return sums_.total; }
  /// The layer has `freeze`: it never moves.
  bool is_frozen(mesh::NodeId node) const noexcept { return is_frozen_[node]; }
  /// False for a parameter that never moves: of such a layer, also inside a container, or without an adapter.
  bool moves(std::size_t parameter) const noexcept { return sizes_[parameter] != 0; }
  /// Number of state arrays for each parameter.
  std::size_t slots() const noexcept { return slots_.size(); }
  /// State array `slot` beside parameter `i` of the store, laid out as the parameter is, or as its adapters are; null:
  /// it never moves.
  float* slot(std::size_t slot, std::size_t i) const noexcept { return slots_[slot].data(i); }
  /// Its floats.
  std::size_t slot_size(std::size_t slot, std::size_t i) const noexcept {
    return adapters_.is_on() && slot == adapters_.base_slot() ? adapters_.base_floats(i) : sizes_[i];
  }
  /// Array `a` of those that the consolidation keeps beside parameter `i`.
  float* past(std::size_t a, std::size_t i) const noexcept { return slots_[first_past_ + a].data(i); }
  /// State of `count` nodes from `first` on: counts of updates, and the arrays beside their parameters.
  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive, mesh::NodeId first, std::size_t count) {
    archive(Field{"updates", Scope::optimizer}, std::span(self.updates_).subspan(first, count));
    for (std::uint32_t s = 0; s < self.slots(); ++s)
      for (std::size_t i = self.first_[first]; i < self.first_[first + count]; ++i)
        archive(Field{"optimizer", Scope::optimizer, s, static_cast<std::uint32_t>(i), true},
                std::span<float>(self.slot(s, i), self.slot_size(s, i)));
  }
  std::size_t nodes() const noexcept { return updates_.size(); }
  const OptimizerOptions& options() const noexcept { return options_; }

 private:
  /// Of squares of gradients.
  struct Sums {
    std::vector<std::size_t> first;  // by parameter, of its rows
    std::vector<float> squares, norms, total;
  };
  struct Perturbed {
    PerturbationOptions by;
    std::vector<std::array<std::uint32_t, 2>> keys;  // by parameter, of its noise
  };
  /// The utilities of parameter `i`.
  float* utilities(std::size_t i) const noexcept { return slots_[first_past_ - 1].data(i); }
  /// The step of each learner, in their order.
  void step_learners(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node, const float* factors,
                     bool is_recorded);
  /// A step of all weights of the layer at once. `factors`: kOptimizerFactors; null: by the options.
  void step_whole(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node, const float* factors);
  void step_perturbed(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node);
  void make_norms(const mesh::WeightStore& weights);
  void make_own_factors(const mesh::WeightStore& weights);
  void make_traces(const LearningOptions& options, const LearningPlan& plan, const mesh::WeightStore& weights);
  /// Counts an update, and moves each parameter of the layer by move(its number, parameter, its arrays, options).
  template <class Move>
  void step_each(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node, const float* squares,
                 OptimizerOptions options, const float* factors, const Move& move);
  OptimizerOptions options_of(const mesh::WeightStore& weights, mesh::NodeId node) const noexcept;
  /// A step's factors for a parameter whose layer has a rate of its own, inside a container.
  const float* own_factors(kernels::OpStream& stream, std::size_t parameter, float share, const float* factors);
  /// The sum of squares of gradients that a step of these options is limited by; null: it has no limit.
  const float* squares_of(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node,
                          const OptimizerOptions& options);

  OptimizerOptions options_;
  kernels::RateSchedule schedule_;
  mesh::ParameterBuffer gradients_;
  std::vector<mesh::ParameterBuffer> slots_;
  std::size_t first_past_ = 0;  // slots before those of the consolidation
  std::vector<float*> gradient_pointers_;
  std::vector<std::vector<float*>> joined_;  // by node; empty where the layer's weights are its own
  std::vector<std::size_t> first_;           // node -> its first parameter; one past the end at the back
  std::vector<std::size_t> sizes_;           // by parameter, floats of its arrays; 0: it never moves
  std::vector<std::uint64_t> updates_;
  std::vector<bool> is_frozen_;              // by node
  std::vector<kernels::StepShares> shares_;  // by node
  std::vector<float> limits_;                // by node, of the norm of its gradients; 0: none but the options'
  std::vector<float> factors_;               // kOptimizerFactors a node, then of parameters with rates of their own
  std::vector<std::uint32_t> own_factors_;   // by parameter, where they are in factors_; empty: none has any
  Sums sums_;
  EligibilityTraces traces_;
  Perturbed perturbed_;
  Adapters adapters_;
};

}  // namespace weft::learning
