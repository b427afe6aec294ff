// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/feedback_weights.hpp"
#include "learning/internal/learning_plan.hpp"
#include "learning/internal/learning_scratch.hpp"
#include "learning/internal/sample_rings.hpp"
#include "learning/options.hpp"

#include "kernels/views.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::learning {

/// Errors by the loss: gradients and targets of the outputs, and those of layers with a loss of their own. Scores
/// samples on the way. Equations: docs/learning.md.
/// @thread the one that runs the region; allocates nothing, takes no lock
class OutputErrors {
 public:
  /// The parts must outlive it.
  OutputErrors(const LearningOptions& options, const LearningPlan& plan, const FeedbackWeights& feedback,
               SampleRings& rings)
      : options_(options), plan_(plan), feedback_(feedback), rings_(rings) {}

  /// The slope of the loss by what an output published, `y`.
  void gradient(const LayerAt& at, const kernels::MatrixView& y, std::uint64_t sample,
                kernels::MatrixView gradient) noexcept;
  /// The way from that to the wanted output (RuleDefinition::takes_wanted_output).
  void target(const LayerAt& at, const kernels::MatrixView& y, std::uint64_t sample,
              kernels::MatrixView residual) noexcept;
  /// The displacement of a layer by the losses of what its heads read from it (ErrorPath::local).
  void local(const LayerAt& at, const kernels::MatrixView& y, std::uint64_t sample, kernels::MatrixView sum) noexcept;

 private:
  /// The slope of the loss of `y`, which is the output itself or what a head reads.
  void loss_gradient(const LayerAt& at, const kernels::MatrixView& y, OutputRing& output, std::uint64_t sample,
                     const kernels::MatrixView& gradient) noexcept;
  /// Multiplies the rows of learners by their weights, where samples have any.
  void weigh(const LayerAt& at, const OutputRing& output, std::uint64_t sample,
             const kernels::MatrixView& rows) noexcept;
  void guide(const LayerAt& at, const kernels::MatrixView& y, OutputRing& output, std::uint64_t sample,
             const kernels::MatrixView& gradient) noexcept;
  /// The slope of several labels of one row: of tokens, or of heads.
  void part_gradients(const LayerAt& at, kernels::MatrixView y, OutputRing& output, std::size_t first,
                      const kernels::MatrixView& gradient) noexcept;
  /// Scores of rows of one label each, and the slopes of their losses; a row without a label has none.
  void score_rows(const LayerAt& at, const kernels::MatrixView& y, OutputRing& output, std::size_t place,
                  const kernels::ConstMatrixView& values, const kernels::MatrixView& gradient) noexcept;
  OutputRing& of(mesh::NodeId node) noexcept {
    return rings_.outputs()[static_cast<std::size_t>(plan_.layers[node].output)];
  }

  const LearningOptions& options_;
  const LearningPlan& plan_;
  const FeedbackWeights& feedback_;
  SampleRings& rings_;
};

}  // namespace weft::learning
