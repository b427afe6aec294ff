// SPDX-License-Identifier: Apache-2.0
// Losses of regression, optimisers and targets. Cross-entropy is a softmax: stream_softmax.cpp.

#include "gpu/internal/parts.hpp"
#include "gpu/internal/stream.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/math.hpp"

#include <algorithm>

namespace weft::gpu {
namespace {

struct SquaredErrorPush {
  std::uint64_t x, target, loss, dx;
  std::uint32_t rows, cols, x_stride, target_stride, dx_stride;
  float count;
};
struct OptimizerPush {
  std::uint64_t w, m, v, g, corrections, skip;
  std::uint32_t count;
  float rate, decay, keep = 0, rest = 0, keep2 = 0, rest2 = 0, epsilon = 0;
};
struct AdamwStepPush {
  std::uint64_t step, corrections, skip;
  float beta1, beta2;
};
struct OneHotPush {
  std::uint64_t labels, y;
  std::uint32_t rows, cols, y_stride, first;
  float value;
};

enum Optimizer : std::uint32_t { kSgd, kMomentum, kAdamw };  // of gpu/shaders/optimizer.comp

Range word_range(std::uint64_t from, std::size_t words) { return {from, from ? from + words * 4 : 0}; }

void record(Recorder& recorder, Optimizer kind, bool nesterov, std::size_t n, OptimizerPush push) {
  static const Shader& kernel = shader("optimizer");
  for (float* each : {&push.rate, &push.decay, &push.keep, &push.rest, &push.keep2, &push.rest2, &push.epsilon})
    *each = kernels::math::flush(*each);
  constexpr std::size_t kMost = std::size_t{1} << 31;
  const OptimizerPush all = push;
  for (std::size_t at = 0; at < n; at += kMost) {
    const std::size_t count = std::min(kMost, n - at), bytes = count * sizeof(float);
    const auto part = [&](std::uint64_t from) { return from ? from + at * sizeof(float) : 0; };
    push.w = part(all.w), push.m = part(all.m), push.v = part(all.v), push.g = part(all.g);
    push.count = word(count);
    const auto touched = [&](std::uint64_t from) { return Range{from, from ? from + bytes : 0}; };
    recorder.dispatch(kernel, {kind, nesterov}, push, groups_for(count, 256),
                      {touched(push.g), word_range(push.skip, 1), word_range(push.corrections, 2)},
                      {touched(push.w), touched(push.m), touched(push.v)});
  }
}

}  // namespace

void Stream::lower(const ops::MeanSquaredError& op) {
  static const Shader& kernel = shader("squared_error");
  const SquaredErrorPush push{address(op.x.data), address(op.target.data),
                              address(op.loss),   address(op.dx.data),
                              word(op.x.rows),    word(op.x.cols),
                              word(op.x.stride),  word(op.target.stride),
                              word(op.dx.stride), static_cast<float>(op.x.cols)};
  recorder_->dispatch(kernel, {}, push, {groups_of(op.x.rows, kLaneGroupRows), 1}, {range(op.x), range(op.target)},
                      {range(op.loss, op.x.rows * sizeof(float)), range(op.dx)});
}

void Stream::lower(const ops::Sgd& op) {
  record(*recorder_, kSgd, false, op.n, {address(op.w), 0, 0, address(op.g), 0, skip_, 0, op.lr, op.weight_decay});
}

void Stream::lower(const ops::Momentum& op) {
  record(*recorder_, kMomentum, op.nesterov, op.n,
         {address(op.w), 0, address(op.v), address(op.g), 0, skip_, 0, op.lr, op.weight_decay, op.momentum,
          1.0f - op.dampening});
}

void Stream::lower(const ops::AdamwStep& op) {
  static const Shader& kernel = shader("adamw_step");
  const AdamwStepPush push{address(op.step), address(op.corrections), skip_, op.beta1, op.beta2};
  recorder_->dispatch(kernel, {}, push, groups_for(1, 64), {word_range(push.skip, 1)},
                      {word_range(push.step, 2), word_range(push.corrections, 2)});
}

void Stream::lower(const ops::Adamw& op) {
  const kernels::FlushSubnormals exact;  // settings are computed with here, as the CPU's stream does
  record(*recorder_, kAdamw, false, op.n,
         {address(op.w), address(op.m), address(op.v), address(op.g), address(op.corrections), skip_, 0, op.lr,
          -(op.lr * op.weight_decay), op.beta1, 1.0f - op.beta1, op.beta2, 1.0f - op.beta2, op.epsilon});
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
