// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/learning_plan.hpp"
#include "learning/internal/learning_scratch.hpp"
#include "learning/options.hpp"

#include "kernels/views.hpp"

namespace weft::learning {

/// Limits that keep updates of target rules bounded; docs/learning.md, "How a layer moves". Limits that are not reached
/// are factors of exactly 1.
/// @thread the one that runs the region; allocates nothing, takes no lock
class TargetLimits {
 public:
  /// The parts must outlive it.
  TargetLimits(const LearningOptions& options, const LearningPlan& plan) : options_(options), plan_(plan) {}

  /// Moves the target of a layer whose activations are larger than their limit back towards it.
  void pull_back(const LayerAt& at, const kernels::ConstMatrixView& y, kernels::MatrixView residual) noexcept;
  /// Keeps the rms of a displacement within its limit.
  void limit_displacement(const LayerAt& at, kernels::MatrixView residual) noexcept;
  /// Of a step at the layer's present rate, over the mean square of its input.
  float step_size(const LayerAt& at) const noexcept;
  /// Factors that keep the layer's step from passing its target, in scratch.limits.
  void limit_step(const LayerAt& at, const kernels::ConstMatrixView& x) noexcept;

 private:
  /// scratch.limits = the factors of limit_rows. `normal`: a scratch of x's size.
  void limit(const LayerAt& at, float most, bool is_square, const kernels::ConstMatrixView& x,
             const kernels::MatrixView& normal) noexcept;

  const LearningOptions& options_;
  const LearningPlan& plan_;
};

}  // namespace weft::learning
