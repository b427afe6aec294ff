// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/target_limits.hpp"

#include "learning/internal/row_limits.hpp"

#include "mesh/weights/weight_store.hpp"

namespace weft::learning {

using kernels::ConstMatrixView;
using kernels::MatrixView;

void TargetLimits::pull_back(const LayerAt& at, const ConstMatrixView& y, MatrixView residual) noexcept {
  constexpr float kShare = kernels::kPullBack;
  LearningScratch& scratch = at.scratch;
  kernels::OpStream& stream = at.context.stream;
  const MatrixView within = at.rows(scratch.work, residual.cols);
  limit(at, options_.activation_limit, false, y, within);
  stream.scale_rows({scratch.limits.data(), y, within});
  stream.binary({kernels::BinaryOp::sub, within, y, within});
  stream.axpy({kShare, within, residual});
}

void TargetLimits::limit_displacement(const LayerAt& at, MatrixView residual) noexcept {
  LearningScratch& scratch = at.scratch;
  limit(at, options_.displacement_limit, false, residual, at.rows(scratch.work, residual.cols));
  at.context.stream.scale_rows({scratch.limits.data(), residual, residual});
}

float TargetLimits::step_size(const LayerAt& at) const noexcept {
  return plan_.layers[at.node].step_size * at.context.weights.rates.of(at.node);
}

void TargetLimits::limit_step(const LayerAt& at, const ConstMatrixView& x) noexcept {
  LearningScratch& scratch = at.scratch;
  limit(at, options_.step_limit / step_size(at), true, x, at.rows(scratch.split, x.cols));
}

void TargetLimits::limit(const LayerAt& at, float most, bool is_square, const ConstMatrixView& x,
                         const MatrixView& normal) noexcept {
  LearningScratch& scratch = at.scratch;
  if (at.context.cpu) return limit_rows(*at.context.cpu, most, is_square, x, scratch.limits.data());
  limit_rows(at.context.stream, most, is_square, x, normal, {scratch.limits.data(), scratch.ones.data()});
}

}  // namespace weft::learning
