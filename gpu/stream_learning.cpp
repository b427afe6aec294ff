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

void Stream::mean_squared_error(const ConstRows& x, const ConstRows& target, float* loss, const Rows& dx) {
  static const Shader& kernel = shader("squared_error");
  const SquaredErrorPush push{
      address(x.data), address(target.data), address(loss),       address(dx.data), word(x.rows),
      word(x.cols),    word(x.stride),       word(target.stride), word(dx.stride),  static_cast<float>(x.cols)};
  recorder_->dispatch(kernel, {}, push, {groups_of(x.rows, kLaneGroupRows), 1}, {range(x), range(target)},
                      {range(loss, x.rows * sizeof(float)), range(dx)});
}

void Stream::sgd(std::size_t n, float* w, const float* g, float lr, float weight_decay) {
  record(*recorder_, kSgd, false, n, {address(w), 0, 0, address(g), 0, skip_, 0, lr, weight_decay});
}

void Stream::momentum(std::size_t n, float* w, float* v, const float* g, float lr, float momentum, float dampening,
                      bool nesterov, float weight_decay) {
  record(*recorder_, kMomentum, nesterov, n,
         {address(w), 0, address(v), address(g), 0, skip_, 0, lr, weight_decay, momentum, 1.0f - dampening});
}

void Stream::adamw_step(std::uint64_t* step, float beta1, float beta2, float* corrections) {
  static const Shader& kernel = shader("adamw_step");
  const AdamwStepPush push{address(step), address(corrections), skip_, beta1, beta2};
  recorder_->dispatch(kernel, {}, push, groups_for(1, 64), {word_range(push.skip, 1)},
                      {word_range(push.step, 2), word_range(push.corrections, 2)});
}

void Stream::adamw(std::size_t n, float* w, float* m, float* v, const float* g, float lr, float beta1, float beta2,
                   float epsilon, float weight_decay, const float* corrections) {
  const kernels::FlushSubnormals exact;  // settings are computed with here, as the CPU's stream does
  record(*recorder_, kAdamw, false, n,
         {address(w), address(m), address(v), address(g), address(corrections), skip_, 0, lr, -(lr * weight_decay),
          beta1, 1.0f - beta1, beta2, 1.0f - beta2, epsilon});
}

void Stream::one_hot(const std::uint32_t* labels, float value, const Rows& y) {
  static const Shader& kernel = shader("one_hot");
  for_parts(y.rows, y.cols, [&](const Cut& cut) {
    const Rows to{y.row(cut.row) + cut.col, cut.rows, cut.cols, y.stride};
    const OneHotPush push{address(labels + cut.row), address(to.data), word(to.rows), word(to.cols),
                          word(to.stride),           word(cut.col),    value};
    recorder_->dispatch(kernel, {}, push, cut.groups(), {word_range(push.labels, to.rows)}, {range(to)});
  });
}

}  // namespace weft::gpu
