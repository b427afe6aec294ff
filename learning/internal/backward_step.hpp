// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/activation_records.hpp"
#include "learning/internal/error_messages.hpp"
#include "learning/internal/feedback_weights.hpp"
#include "learning/internal/layer_statistics.hpp"
#include "learning/internal/learned_inverses.hpp"
#include "learning/internal/learning_plan.hpp"
#include "learning/internal/learning_scratch.hpp"
#include "learning/internal/output_errors.hpp"
#include "learning/internal/sample_rings.hpp"
#include "learning/internal/target_limits.hpp"
#include "learning/internal/update_budgets.hpp"
#include "learning/optimizer.hpp"
#include "learning/options.hpp"
#include "learning/rules/rule.hpp"

#include "mesh/runtime/step_rule.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// The learning of one layer for one error: takes in the messages of its readers, or at an output the loss, adds to the
/// gradients, and writes messages to its sources. Equations: docs/learning.md.
/// @thread the one that runs the region; allocates nothing, takes no lock, reads of other layers only what they wrote
///         in earlier steps
class BackwardStep {
 public:
  /// The parts must outlive it.
  BackwardStep(const LearningOptions& options, const LearningPlan& plan, const FeedbackWeights& feedback,
               LearnedInverses& inverses, SampleRings& rings, ActivationRecords& records, ErrorMessages& messages,
               Optimizer& optimizer)
      : options_(options),
        rule_(rule_of(options)),
        plan_(plan),
        feedback_(feedback),
        inverses_(inverses),
        records_(records),
        messages_(messages),
        optimizer_(optimizer),
        outputs_(options, plan, feedback, rings),
        limits_(options, plan),
        budgets_(plan, options.learners) {}

  /// Measures what comes to layers, on the CPU; null: nobody looks. Between runs.
  void measure(LayerStatistics* statistics) noexcept { statistics_ = statistics; }

  /// Sums that a device has to have room for.
  UpdateBudgets& budgets() noexcept { return budgets_; }

  enum class Outcome : int { unused, used, failed };
  /// One hop of one layer; `activation_tick` is when the layer published what the error is about. used: gradients were
  /// added to. failed: the fault is reported, and its messages are zeros, from which readers learn nothing.
  Outcome run(const LayerAt& at, const Hop& hop, std::uint64_t activation_tick, std::uint64_t sample) noexcept;

  /// Scores an output's answer of `activation_tick`, from which nothing is learned: its errors would meet ticks before
  /// the mesh's first.
  void score(const LayerAt& at, const Hop& hop, std::uint64_t activation_tick, std::uint64_t sample) noexcept {
    outputs_.gradient(at, output(at, hop, activation_tick), sample,
                      at.rows(at.scratch.delta, at.context.graph.nodes()[at.node].width));
  }

 private:
  bool process(const LayerAt& at, const Hop& hop, std::uint64_t activation_tick, std::uint64_t sample);
  bool are_messages_finite(const LayerAt& at, const Hop& hop) noexcept;
  std::uint32_t parameter_at_fault(const LayerAt& at) noexcept;
  void drop_messages(const LayerAt& at, const Hop& hop) noexcept;
  bool process_gradient(const LayerAt& at, const Hop& hop, std::uint64_t tick, kernels::MatrixView delta);
  bool process_target(const LayerAt& at, const Hop& hop, std::uint64_t tick, kernels::MatrixView residual);
  /// As process_target says, the last part: the layer learns from its displacement.
  bool learn_target(const LayerAt& at, mesh::BackwardArgs& args, const kernels::MatrixView& residual, bool is_output);
  /// Factors of this error by link budget, or of all of the update so far, added up. All 0: nothing is taught.
  std::span<const float> update_factors(const LayerAt& at);
  /// The step of a rule that has its own for each type of layer, against -args.dy.
  bool step_by_rule(const LayerAt& at, const mesh::BackwardArgs& args);
  /// The same bits at once, on the CPU, of a layer that is one product: these operations of one row cost more than what
  /// they compute.
  bool learn_target_at_once(const LayerAt& at, const mesh::BackwardArgs& args, const kernels::MatrixView& residual);
  void limit_at_once(const LayerAt& at, const Hop& hop, std::uint64_t tick,
                     const kernels::MatrixView& residual) noexcept;
  void gather(const LayerAt& at, const Hop& hop, kernels::MatrixView sum) noexcept;
  void gather_direct(const LayerAt& at, kernels::MatrixView sum) noexcept;
  void learn_inverse(const LayerAt& at, const mesh::BackwardArgs& args) noexcept;
  void propagate_target(const LayerAt& at, const Hop& hop, const mesh::BackwardArgs& past,
                        const kernels::MatrixView& residual, const kernels::MatrixView& dx);
  /// Sends by the layer's own derivative, with its weights or others in their place, and bent if the options say so.
  void propagate_backward(const LayerAt& at, const Hop& hop, const mesh::BackwardArgs& past,
                          const kernels::MatrixView& residual, const kernels::MatrixView& dx);
  void send(const LayerAt& at, const Hop& hop, std::uint64_t tick, kernels::MatrixView dx) noexcept;
  /// Sends displacements through the feedback matrix, of a layer that puts sources side by side. False: it does not
  /// take them so, and nothing is sent.
  bool send_parts(const LayerAt& at, const Hop& hop, const kernels::MatrixView& residual) noexcept;
  /// Values that the layer published at `tick` and made them from: out of a record or the rings.
  Activation activation(const LayerAt& at, const Hop& hop, std::uint64_t tick) noexcept;
  mesh::BackwardArgs past(const LayerAt& at, const Hop& hop, std::uint64_t tick) noexcept;
  /// The layer's output at `tick`, of the learners.
  kernels::MatrixView output(const LayerAt& at, const Hop& hop, std::uint64_t tick) noexcept;
  /// Errors that have reached the layer, in its `gradient_dtype`.
  static void round_errors(const LayerAt& at, const kernels::MatrixView& errors) noexcept;
  /// Those of its hidden state, from the next tick.
  kernels::MatrixView state_errors(const LayerAt& at, const Hop& hop) noexcept;
  /// True where one row is taught by a displacement, no gradients go to memory, nobody measures, and nothing is
  /// rounded.
  bool is_at_once(const LayerAt& at) const noexcept {
    const mesh::Node& node = at.context.graph.nodes()[at.node];
    return at.product && !statistics_ && rule_.path != ErrorPath::gradients &&
           node.value_dtypes.activation == Dtype::float32 && node.value_dtypes.gradient == Dtype::float32;
  }
  /// The layer's backward with gradients, if `learns`.
  void backward(const LayerAt& at, mesh::BackwardArgs& args, bool learns);
  /// True where the step of a layer by its gradient has a limit that is reached: then scratch.limits has the factors.
  bool is_step_limited(const LayerAt& at, const kernels::ConstMatrixView& x) noexcept;
  /// The layer's backward with gradients of a step so shortened.
  void backward_limited(const LayerAt& at, mesh::BackwardArgs& args);
  std::uint32_t error_message(mesh::NodeId node) const noexcept {
    return plan_.error_messages[static_cast<std::size_t>(plan_.layers[node].output)];
  }
  const LearningOptions& options_;
  const RuleDefinition& rule_;
  const LearningPlan& plan_;
  const FeedbackWeights& feedback_;
  LearnedInverses& inverses_;
  ActivationRecords& records_;
  ErrorMessages& messages_;
  Optimizer& optimizer_;
  OutputErrors outputs_;
  TargetLimits limits_;
  UpdateBudgets budgets_;
  LayerStatistics* statistics_ = nullptr;
};

}  // namespace weft::learning
