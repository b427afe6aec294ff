// SPDX-License-Identifier: Apache-2.0
// Steps with noise, by utilities of weights.

#include "gpu/internal/cut.hpp"
#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/perturb_operands.inc"

#include "kernels/math.hpp"
#include "kernels/perturb.hpp"

namespace weft::gpu {
namespace {

struct UtilityUpdatePush {
  WEFT_UTILITY_UPDATE_OPERANDS(WEFT_MEMBER)
  std::uint32_t unused = 0;
};
struct LargestPush {
  WEFT_LARGEST_OPERANDS(WEFT_MEMBER)
  std::uint32_t unused = 0;
};
struct PerturbedStepPush {
  WEFT_PERTURBED_STEP_OPERANDS(WEFT_MEMBER)
  std::uint32_t unused = 0;
};

Range weights_of(const float* from, std::size_t count) { return range(from, count * sizeof(float)); }

}  // namespace

void Stream::lower(const ops::UtilityUpdate& op) {
  static const Shader& kernel = shader("utility_update");
  const UtilityUpdatePush push{address(op.u),       address(op.w), address(op.g),
                               address(op.largest), word(op.n),    kernels::math::flush(op.decay),
                               kernels::kLargestUse};
  recorder_->dispatch(kernel, {}, push, groups_for_long(op.n, 256), {weights_of(op.w, op.n), weights_of(op.g, op.n)},
                      {weights_of(op.u, op.n), weights_of(op.largest, 1)});
}

void Stream::lower(const ops::Largest& op) {
  static const Shader& kernel = shader("largest");
  const LargestPush push{address(op.x), address(op.y), word(op.n)};
  recorder_->dispatch(kernel, {}, push, {}, {weights_of(op.x, op.n)}, {weights_of(op.y, 1)});
}

void Stream::lower(const ops::PerturbedStep& op) {
  static const Shader& kernel = shader("perturbed_step");
  const auto flush = [](float x) { return kernels::math::flush(x); };
  const std::size_t n = op.size();
  const PerturbedStepPush push{address(op.w),
                               address(op.u),
                               address(op.g),
                               address(op.factors),
                               address(op.updates),
                               address(op.largest),
                               address(op.squares),
                               word(n),
                               op.in > 0 ? word(op.out) : 0,
                               word(op.in),
                               op.key[0],
                               op.key[1],
                               kernels::kByteMean,
                               flush(op.limit),
                               flush(op.weight_decay),
                               flush(op.deviation / kernels::kByteDeviation)};
  recorder_->dispatch(kernel, {op.protects}, push, groups_for_long(n, 256),
                      {weights_of(op.u, n), weights_of(op.g, n), weights_of(op.factors, kernels::kOptimizerFactors),
                       range(op.updates, sizeof *op.updates), weights_of(op.largest, 1), weights_of(op.squares, 1)},
                      {weights_of(op.w, n)});
}

}  // namespace weft::gpu
