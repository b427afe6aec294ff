// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/activation_records.hpp"
#include "learning/internal/error_messages.hpp"
#include "learning/internal/feedback_weights.hpp"
#include "learning/internal/layer_meter.hpp"
#include "learning/internal/learned_inverses.hpp"
#include "learning/internal/learning_plan.hpp"
#include "learning/internal/sample_rings.hpp"
#include "learning/optimizer.hpp"
#include "learning/options.hpp"
#include "learning/rules/rule.hpp"

#include "mesh/runtime/step_rule.hpp"

#include "core/aligned_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::learning {

/// Memory of one region for the learning of one layer after the other.
struct LearningScratch {
  AlignedBuffer<float> delta, work, target, dx, split;
  AlignedBuffer<float> own;  // Layer::scratch_size()
  AlignedBuffer<float> factors, limits, ones;

  static std::vector<LearningScratch> make(const mesh::Graph& graph, const LearningPlan& plan,
                                           const LearningOptions& options, std::size_t regions);
};

/// The learning of one layer for one error: takes in the messages of its readers, or at an output the loss, adds to the
/// gradients, and writes messages to its sources. Equations: docs/learning.md.
/// @thread the one that runs the region; allocates nothing, takes no lock, reads of other layers only what they wrote
///         in earlier steps
class BackwardStep {
 public:
  /// The parts must outlive it.
  BackwardStep(const LearningOptions& options, const LearningPlan& plan, const FeedbackWeights& feedback,
               LearnedInverses& inverses, SampleRings& rings, ActivationRecords& records, ErrorMessages& messages,
               const Optimizer& optimizer)
      : options_(options),
        rule_(rule_of(options)),
        plan_(plan),
        feedback_(feedback),
        inverses_(inverses),
        rings_(rings),
        records_(records),
        messages_(messages),
        optimizer_(optimizer) {}

  /// Measures what comes to layers, on the CPU; null: nobody looks. Between runs.
  void measure(LayerMeter* meter) noexcept { meter_ = meter; }

  /// A layer in a step, and the half of the messages that the step writes.
  struct At {
    mesh::StepContext& context;
    mesh::NodeId node = 0;
    std::uint64_t parity = 0;
    LearningScratch& scratch;
    kernels::OuterProduct* product = nullptr;  // takes the gradients of a layer that is one product, instead of memory
  };
  enum class Outcome : int { unused, used, failed };
  /// One hop of one layer; `activation_tick` is when the layer published what the error is about. used: gradients were
  /// added to. failed: the fault is reported, and its messages are zeros, from which readers learn nothing.
  Outcome run(const At& at, const Hop& hop, std::uint64_t activation_tick, std::uint64_t sample) noexcept;

 private:
  bool process(const At& at, const Hop& hop, std::uint64_t activation_tick, std::uint64_t sample);
  bool are_messages_finite(const At& at, const Hop& hop) noexcept;
  void drop_messages(const At& at, const Hop& hop) noexcept;
  bool process_gradient(const At& at, const Hop& hop, std::uint64_t tick, kernels::MatrixView delta);
  bool process_target(const At& at, const Hop& hop, std::uint64_t tick, kernels::MatrixView residual);
  /// As process_target says, the last part: the layer learns from its displacement.
  bool learn_target(const At& at, mesh::BackwardArgs& args, const kernels::MatrixView& residual);
  /// The same bits at once, on the CPU, of a layer that is one product: these operations of one row cost more than what
  /// they compute.
  bool learn_target_at_once(const At& at, const mesh::BackwardArgs& args, const kernels::MatrixView& residual);
  void limit_at_once(const At& at, const Hop& hop, std::uint64_t tick, const kernels::MatrixView& residual) noexcept;
  void output_gradient(const At& at, std::uint64_t tick, std::uint64_t sample, kernels::MatrixView gradient) noexcept;
  /// The slope of the loss of `y`, which is the output itself or what a head reads.
  void loss_gradient(const At& at, const kernels::MatrixView& y, OutputRing& output, std::uint64_t sample,
                     const kernels::MatrixView& gradient) noexcept;
  /// Multiplies the rows of learners by their weights, where samples have any.
  void weigh(const At& at, const OutputRing& output, std::uint64_t sample, const kernels::MatrixView& rows) noexcept;
  /// The slope of several labels of one row: of tokens, or of heads.
  void part_gradients(const At& at, kernels::MatrixView y, OutputRing& output, std::size_t first,
                      const kernels::MatrixView& gradient) noexcept;
  /// Scores of rows of one label each, and the slopes of their losses; a row without a label has none.
  void score_rows(const At& at, const kernels::MatrixView& y, OutputRing& output, std::size_t place,
                  const kernels::ConstMatrixView& values, const kernels::MatrixView& gradient) noexcept;
  void output_target(const At& at, std::uint64_t tick, std::uint64_t sample, kernels::MatrixView residual) noexcept;
  void gather(const At& at, const Hop& hop, kernels::MatrixView sum) noexcept;
  void gather_direct(const At& at, kernels::MatrixView sum) noexcept;
  void local_errors(const At& at, std::uint64_t tick, std::uint64_t sample, kernels::MatrixView sum) noexcept;
  /// Moves the target of a layer whose activations are larger than their limit back towards it.
  void pull_back(const At& at, const kernels::ConstMatrixView& y, kernels::MatrixView residual) noexcept;
  /// Keeps the rms of a displacement within its limit.
  void limit_displacement(const At& at, kernels::MatrixView residual) noexcept;
  /// Of a step at the layer's present rate, over the mean square of its input.
  float step_size(const At& at) const noexcept;
  /// Factors that keep the layer's step from passing its target.
  void limit_step(const At& at, const kernels::ConstMatrixView& x) noexcept;
  /// scratch.limits = the factors of limit_rows. `normal`: a scratch of x's size.
  void limit(const At& at, float most, bool is_square, const kernels::ConstMatrixView& x,
             const kernels::MatrixView& normal) noexcept;
  void learn_inverse(const At& at, const mesh::BackwardArgs& args) noexcept;
  void propagate_target(const At& at, const Hop& hop, const mesh::BackwardArgs& past,
                        const kernels::MatrixView& residual, const kernels::MatrixView& dx);
  void send(const At& at, const Hop& hop, std::uint64_t tick, kernels::MatrixView dx) noexcept;
  /// Sends displacements through the feedback matrix, of a layer that puts sources side by side. False: it does not
  /// take them so, and nothing is sent.
  bool send_parts(const At& at, const Hop& hop, const kernels::MatrixView& residual) noexcept;
  /// Values that the layer published at `tick` and made them from: out of a record or the rings.
  Activation activation(const At& at, const Hop& hop, std::uint64_t tick) noexcept;
  mesh::BackwardArgs past(const At& at, const Hop& hop, std::uint64_t tick) noexcept;
  /// True where one row is taught by a displacement, no gradients go to memory, and nobody measures.
  bool is_at_once(const At& at) const noexcept { return at.product && !meter_ && rule_.path != ErrorPath::gradients; }
  /// The layer's backward with gradients, if `learns`.
  void backward(const At& at, mesh::BackwardArgs& args, bool learns);
  OutputRing& output_of(mesh::NodeId node) noexcept {
    return rings_.outputs()[static_cast<std::size_t>(plan_.layers[node].output)];
  }
  std::uint32_t error_message(mesh::NodeId node) const noexcept {
    return plan_.error_messages[static_cast<std::size_t>(plan_.layers[node].output)];
  }
  kernels::MatrixView scratch_rows(AlignedBuffer<float>& buffer, std::size_t width) const noexcept {
    return {buffer.data(), options_.learners, width, (width + 15) / 16 * 16};
  }
  kernels::MatrixView learner_rows(kernels::MatrixView rows) const noexcept {
    return {rows.data, options_.learners, rows.cols, rows.stride};
  }

  const LearningOptions& options_;
  const RuleDefinition& rule_;
  const LearningPlan& plan_;
  const FeedbackWeights& feedback_;
  LearnedInverses& inverses_;
  SampleRings& rings_;
  ActivationRecords& records_;
  ErrorMessages& messages_;
  const Optimizer& optimizer_;
  LayerMeter* meter_ = nullptr;
};

}  // namespace weft::learning
