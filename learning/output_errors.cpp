// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/output_errors.hpp"

#include "mesh/runtime/state.hpp"

#include <algorithm>

namespace weft::learning {

using kernels::ConstMatrixView;
using kernels::MatrixView;

void OutputErrors::gradient(const LayerAt& at, const MatrixView& y, std::uint64_t sample,
                            MatrixView gradient) noexcept {
  loss_gradient(at, y, of(at.node), sample, gradient);
}

void OutputErrors::loss_gradient(const LayerAt& at, const MatrixView& y, OutputRing& output, std::uint64_t sample,
                                 const MatrixView& gradient) noexcept {
  const std::size_t n = options_.learners, tokens = output.tokens, slot = rings_.slot(sample);
  const std::size_t first = slot * n * tokens;
  const float* values = output.values.empty() ? nullptr : output.values.data() + slot * n * output.width;
  if (output.labels[first] == kGradient) {
    at.context.stream.copy({{values, n, output.width, output.width}, gradient});
  } else if (tokens == 1) {
    score_rows(at, y, output, first, {values, n, output.width, output.width}, gradient);
  } else {
    for (std::size_t b = 0; b < n; ++b)
      part_gradients(at, {y.row(b), 1, y.cols, y.stride}, output, first + b * tokens,
                     {gradient.row(b), 1, y.cols, gradient.stride});
  }
  weigh(at, output, sample, gradient);
  if (!output.guides.empty()) guide(at, y, output, sample, gradient);
}

/// Adds the slope of the distance between answers of now and of then.
void OutputErrors::guide(const LayerAt& at, const MatrixView& y, OutputRing& output, std::uint64_t sample,
                         const MatrixView& gradient) noexcept {
  const std::size_t n = options_.learners, slot = rings_.slot(sample), width = output.width;
  const float scale = output.guide_scales[slot];
  if (scale == 0.0f) return;
  kernels::OpStream& stream = at.context.stream;
  const std::size_t first = options_.replay.has_answers() ? n - options_.replay.rows() : 0;
  const auto rows = [&](const MatrixView& all) { return MatrixView{all.row(first), n - first, width, all.stride}; };
  const ConstMatrixView then{output.guides.data() + (slot * n + first) * width, n - first, width, width};
  ConstMatrixView now = rows(y);
  if (options_.consolidation.guides()) {
    const std::size_t classes = width / output.tokens;
    float* const work = output.guide_work.data();
    stream.copy({now, {work, n, width, width}});
    const MatrixView parts{work, n * output.tokens, classes, classes};
    stream.softmax({parts, options_.consolidation.temperature, parts});
    now = {work, n, width, width};
  }
  stream.axpy({scale, now, rows(gradient)});
  stream.axpy({-scale, then, rows(gradient)});
}

void OutputErrors::weigh(const LayerAt& at, const OutputRing& output, std::uint64_t sample,
                         const MatrixView& rows) noexcept {
  if (output.weights.empty()) return;
  at.context.stream.scale_rows({output.weights.data() + rings_.slot(sample) * options_.learners, rows, rows});
}

void OutputErrors::part_gradients(const LayerAt& at, MatrixView y, OutputRing& output, std::size_t first,
                                  const MatrixView& gradient) noexcept {
  const std::size_t parts = output.tokens;
  if (targets_of(options_.loss) == LossTargets::labels) {
    const std::size_t classes = output.width / parts;
    score_rows(at, {y.data, parts, classes, classes}, output, first, {}, {gradient.data, parts, classes, classes});
  } else {
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t start = output.starts[i], width = output.starts[i + 1] - start;
      score_rows(at, {y.data + start, 1, width, y.stride}, output, first + i, {},
                 {gradient.data + start, 1, width, gradient.stride});
    }
  }
  // The mean over the parts that have labels.
  const std::uint32_t* const labels = output.labels.data() + first;
  const auto labelled = parts - static_cast<std::size_t>(std::count(labels, labels + parts, kNoLabel));
  if (labelled > 1) at.context.stream.scale({1.0f / static_cast<float>(labelled), gradient, gradient});
}

void OutputErrors::score_rows(const LayerAt& at, const MatrixView& y, OutputRing& output, std::size_t place,
                              const ConstMatrixView& values, const MatrixView& gradient) noexcept {
  kernels::OpStream& stream = at.context.stream;
  // Only the output itself is scored.
  const bool is_scored = output.node == at.node;
  float* const losses = is_scored ? output.losses.data() + place : nullptr;
  if (targets_of(options_.loss) == LossTargets::values)
    stream.value_loss({options_.loss, options_.delta, y, values, losses, gradient});
  else
    stream.cross_entropy({y, output.classes.data() + place, losses, gradient});
  if (is_scored) stream.row_argmax({y, output.predictions.data() + place});
  for (std::size_t i = 0; i < y.rows; ++i)
    if (output.labels[place + i] == kNoLabel) stream.fill({0.0f, {gradient.row(i), 1, gradient.cols, gradient.stride}});
}

void OutputErrors::target(const LayerAt& at, const MatrixView& y, std::uint64_t sample, MatrixView residual) noexcept {
  kernels::OpStream& stream = at.context.stream;
  const OutputRing& output = of(at.node);
  const std::size_t n = options_.learners, tokens = output.tokens;
  const std::size_t slot = rings_.slot(sample) * n;
  // Labels go as values: which place they mean is found where the row is filled.
  for (std::size_t i = 0; i < n * tokens; ++i) {
    const std::size_t b = i / tokens, first = output.starts[i % tokens], place = slot * tokens + i;
    const std::size_t classes = output.starts[i % tokens + 1] - first;
    const MatrixView row{residual.row(b) + first, 1, classes, residual.stride};
    if (output.labels[place] == kNoLabel) {
      stream.fill({0.0f, row});
      continue;
    }
    if (targets_of(options_.loss) != LossTargets::values)
      stream.one_hot({output.classes.data() + place, options_.output_step, row});
    else
      stream.scale(
          {options_.output_step, {output.values.data() + (slot + b) * output.width, 1, row.cols, row.cols}, row});
    stream.binary({kernels::BinaryOp::sub, row, {y.row(b) + first, 1, classes, y.stride}, row});
  }
  weigh(at, output, sample, residual);
}

void OutputErrors::local(const LayerAt& at, const MatrixView& y, std::uint64_t sample, MatrixView sum) noexcept {
  LearningScratch& scratch = at.scratch;
  kernels::OpStream& stream = at.context.stream;
  std::size_t before = 0;
  for (OutputRing& output : rings_.outputs()) {
    const kernels::ConstPanels head = feedback_.of(at.node, output.width, sum.cols, before);
    const MatrixView read = at.rows(scratch.target, output.width), error = at.rows(scratch.dx, output.width);
    const MatrixView part = before == 0 ? sum : at.rows(scratch.work, sum.cols);
    stream.linear({head, nullptr, y, kernels::Activation::linear, {}, read});
    loss_gradient(at, read, output, sample, error);
    stream.linear_transposed({head, error, part});
    if (before != 0) stream.binary({kernels::BinaryOp::add, sum, part, sum});
    before += kernels::panels_size(output.width, sum.cols);
  }
  stream.scale({-options_.output_step, sum, sum});
}

}  // namespace weft::learning
