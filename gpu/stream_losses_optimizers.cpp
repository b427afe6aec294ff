// SPDX-License-Identifier: Apache-2.0
// Losses of values, optimisers and targets. Cross-entropy is a softmax: stream_softmax.cpp.

#include "gpu/internal/cut.hpp"
#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/learning_operands.inc"

#include "kernels/math.hpp"

#include <algorithm>

namespace weft::gpu {
namespace {

struct ValueLossPush {
  WEFT_VALUE_LOSS_OPERANDS(WEFT_MEMBER)
  std::uint32_t unused = 0;
};
struct OptimizerPush {
  WEFT_OPTIMIZER_OPERANDS(WEFT_MEMBER)
};
struct OptimizerFactorsPush {
  WEFT_OPTIMIZER_FACTORS_OPERANDS(WEFT_MEMBER)
  std::uint32_t unused = 0;
};
struct OneHotPush {
  WEFT_ONE_HOT_OPERANDS(WEFT_MEMBER)
};

Range word_range(std::uint64_t from, std::size_t words) { return {from, from ? from + words * 4 : 0}; }

}  // namespace

void Stream::lower(const ops::ValueLoss& op) {
  static const Shader& kernel = shader("value_loss");
  const ValueLossPush push{address(op.x.data), address(op.target.data),
                           address(op.loss),   address(op.dx.data),
                           word(op.x.rows),    word(op.x.cols),
                           word(op.x.stride),  word(op.target.stride),
                           word(op.dx.stride), static_cast<float>(op.x.cols),
                           op.setting};
  recorder_->dispatch(kernel, {0, static_cast<std::uint32_t>(op.kind)}, push, {groups_of(op.x.rows, kLaneGroupRows), 1},
                      {range(op.x), range(op.target)}, {range(op.loss, op.x.rows * sizeof(float)), range(op.dx)});
}

void Stream::lower(const ops::OptimizerFactors& op) {
  static const Shader& kernel = shader("optimizer_factors");
  const kernels::RateSchedule& s = op.schedule;
  const auto flush = [](float x) { return kernels::math::flush(x); };
  const OptimizerFactorsPush push{
      address(op.updates), address(op.factors), skip_,           s.warmup,     s.updates,       s.growth,
      flush(op.lr),        flush(op.beta1),     flush(op.beta2), flush(s.end), flush(s.factor), flush(s.power)};
  recorder_->dispatch(kernel, {static_cast<std::uint32_t>(s.kind)}, push, groups_for(1, 64), {word_range(push.skip, 1)},
                      {word_range(push.updates, 2), word_range(push.factors, kernels::kOptimizerFactors)});
}

void Stream::lower(const ops::OptimizerStep& op) {
  static const Shader& kernel = shader("optimizer_step");
  const kernels::OptimizerOptions& o = op.options;
  const kernels::StepShares shares = kernels::step_shares(o);
  const bool has_shares = shares != kernels::StepShares{};
  // One place for both: see the shader.
  const float beta1 = has_shares ? shares.velocity : o.beta1, beta2 = has_shares ? shares.gradient : o.beta2;
  const auto flush = [](float x) { return kernels::math::flush(x); };
  const std::initializer_list<std::uint32_t> constants{static_cast<std::uint32_t>(o.kind), has_shares, o.centered,
                                                       o.momentum != 0.0f, o.clip == kernels::Clip::value};
  constexpr std::size_t kMost = std::size_t{1} << 31;
  for (std::size_t at = 0; at < op.n; at += kMost) {
    const std::size_t count = std::min(kMost, op.n - at), bytes = count * sizeof(float);
    const auto part = [&](const float* from) { return from ? address(from + at) : 0; };
    const OptimizerPush push{part(op.w),         part(op.first),      part(op.second),       part(op.third),
                             part(op.g),         address(op.factors), address(op.squares),   skip_,
                             word(count),        flush(o.lr),         flush(o.weight_decay), flush(o.momentum),
                             flush(o.dampening), flush(beta1),        flush(beta2),          flush(o.alpha),
                             flush(o.epsilon),   flush(o.clip_limit)};
    const auto touched = [&](std::uint64_t from) { return Range{from, from ? from + bytes : 0}; };
    recorder_->dispatch(kernel, constants, push, groups_for_long(count, 256),
                        {touched(push.g), word_range(push.skip, 1),
                         word_range(push.factors, kernels::kOptimizerFactors), word_range(push.squares, 1)},
                        {touched(push.w), touched(push.first), touched(push.second), touched(push.third)});
  }
}

void Stream::lower(const ops::OneHot& op) {
  static const Shader& kernel = shader("one_hot");
  for_parts(op.y.rows, op.y.cols, [&](const Cut& cut) {
    const MatrixView to{op.y.row(cut.row) + cut.col, cut.rows, cut.cols, op.y.stride};
    const OneHotPush push{address(op.labels + cut.row),
                          address(to.data),
                          word(to.rows),
                          word(to.cols),
                          word(to.stride),
                          word(cut.col),
                          op.value};
    recorder_->dispatch(kernel, {}, push, cut.groups(), {word_range(push.labels, to.rows)}, {range(to)});
  });
}

}  // namespace weft::gpu
