// SPDX-License-Identifier: Apache-2.0

#include "learning/eligibility_traces.hpp"

#include "learning/internal/learning_plan.hpp"

#include "kernels/finite.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/trace.hpp"

#include <algorithm>
#include <utility>

namespace weft::learning {

using kernels::ConstMatrixView;
using kernels::kOptimizerFactors;
using kernels::kTraceSignal;

namespace {

bool are_all_moderate(const ConstMatrixView& all) noexcept {
  for (std::size_t row = 0; row < all.rows; ++row)
    if (!kernels::are_moderate(all.row(row), all.cols)) return false;
  return true;
}

/// At once where values are at hand: a call by way of a stream costs more than what a small trace does.
void take_gradient(kernels::OpStream& stream, bool is_recorded, const kernels::ops::TraceUpdate& op) {
  is_recorded ? stream.trace_update(op) : op.compute();
}

}  // namespace

void write_signal(const TraceSignal& signal, float* to) noexcept {
  to[kernels::kTraceError] = signal.error;
  to[kernels::kTraceDecay] = signal.decay;
  to[kernels::kTraceBound] = signal.bound;
  to[kernels::kTraceEnds] = signal.ends ? 1.0f : 0.0f;
}

EligibilityTraces::EligibilityTraces(const LearningOptions& options, const LearningPlan& plan,
                                     const mesh::WeightStore& weights, std::vector<TracedParameter> parameters)
    : learners_(options.learners), lr_(options.optimizer.lr), parameters_(std::move(parameters)) {
  for (const LayerPlan& layer : plan.layers)
    outputs_.resize(std::max(outputs_.size(), static_cast<std::size_t>(layer.traced_for + 1)));
  for (mesh::NodeId node = 0; node < plan.layers.size(); ++node) {
    TracedLayer& layer = layers_.emplace_back();
    layer.first = weights.first(node);
    layer.parameters = weights.of(node).size();
    layer.output = plan.layers[node].traced_for;
    if (layer.output < 0) continue;
    Output& output = outputs_[static_cast<std::size_t>(layer.output)];
    layer.first_sum = output.sums;  // from the output's first, which is not known yet
    output.counts.push_back(static_cast<std::uint32_t>(layer.parameters));
    output.sums += layer.parameters;
  }
  std::size_t sums = 0;
  for (Output& output : outputs_) {
    output.first_sum = sums;
    sums += output.sums * learners_;
  }
  for (TracedLayer& layer : layers_)
    if (layer.output >= 0) layer.first_sum += outputs_[static_cast<std::size_t>(layer.output)].first_sum;
  sums_.assign(sums, 0.0f);
  rates_.assign(outputs_.size() * learners_ * kOptimizerFactors, 0.0f);
  layer_rates_.assign(layers_.size() * learners_ * kOptimizerFactors, 0.0f);
  if (learners_ > 1)
    rows_.resize(parameters_.size());
  else
    products_.resize(parameters_.size());
}

bool EligibilityTraces::begin(std::size_t i, bool keeps_product) noexcept {
  if (!rows_.empty()) {
    rows_[i] = {};
    return false;
  }
  products_[i] = {{}, !keeps_product};
  return !keeps_product;
}

void EligibilityTraces::forget(kernels::OpStream& stream, mesh::NodeId node) {
  const TracedLayer& layer = layers_[node];
  if (layer.output < 0 || layer.parameters == 0) return;
  stream.fill(
      {0.0f, {sum(layer, 0, 0), learners_, layer.parameters, outputs_[static_cast<std::size_t>(layer.output)].sums}});
}

mesh::RowGradients EligibilityTraces::row_of(std::size_t i, std::size_t learner) const noexcept {
  const mesh::RowGradients& all = rows_[i];
  if (!all.dy.data) return {};
  const std::size_t rows = all.dy.rows / learners_, first = learner * rows;  // a learner's tokens
  mesh::RowGradients row{{all.dy.row(first), rows, all.dy.cols, all.dy.stride}, {}};
  if (all.x.data) row.x = {all.x.row(first), rows, all.x.cols, all.x.stride};
  return row;
}

void EligibilityTraces::write_row(kernels::OpStream& stream, std::size_t i, std::size_t learner) const {
  const mesh::RowGradients row = row_of(i, learner);
  const auto& [gradient, size, traces] = parameters_[i];
  stream.fill({0.0f, {gradient, 1, size, size}});
  if (row.x.data)
    stream.outer_accumulate({row.dy, row.x, {gradient, row.dy.cols, row.x.cols}});
  else if (row.dy.data)
    stream.column_accumulate({row.dy, gradient});
}

bool EligibilityTraces::are_rows_finite(kernels::OpStream& stream, std::size_t i) const {
  const mesh::RowGradients& all = rows_[i];
  if (!all.dy.data || (are_all_moderate(all.dy) && (!all.x.data || are_all_moderate(all.x)))) return true;
  const auto& [gradient, size, traces] = parameters_[i];
  for (std::size_t learner = 0; learner < learners_; ++learner) {
    write_row(stream, i, learner);
    if (!stream.is_finite({{gradient, 1, size, size}})) return false;
  }
  return true;
}

void EligibilityTraces::take(kernels::OpStream& stream, mesh::NodeId node, const float* signals, bool is_recorded) {
  if (!signals) return;
  const TracedLayer& layer = layers_[node];
  for (std::size_t p = 0; p < layer.parameters; ++p) {
    const std::size_t i = layer.first + p;
    const auto& [gradient, size, traces] = parameters_[i];
    if (size == 0) continue;  // it never moves
    for (std::size_t learner = 0; learner < learners_; ++learner) {
      const float* const signal = signals + learner * kTraceSignal;
      float* const to = sum(layer, p, learner);
      if (!rows_.empty()) {
        take_row(stream, i, learner, signal, to, is_recorded);
        continue;
      }
      const kernels::OuterProduct& product = products_[i].product;
      if (product.dy) {
        take_gradient(stream, is_recorded,
                      {signal,
                       nullptr,
                       {product.dy, 1, product.out, product.out},
                       {product.x, 1, product.in, product.in},
                       size,
                       traces[learner],
                       to});
        continue;
      }
      // Nothing was added, and its memory holds the gradient of an earlier update.
      if (!products_[i].is_in_memory) stream.fill({0.0f, {gradient, 1, size, size}});
      take_gradient(stream, is_recorded, {signal, gradient, {}, {}, size, traces[learner], to});
    }
  }
}

// A product of any numbers is taken while values are not known: a trace that is not finite tells of it.
void EligibilityTraces::take_row(kernels::OpStream& stream, std::size_t i, std::size_t learner, const float* signal,
                                 float* sum, bool is_recorded) {
  const auto& [gradient, size, traces] = parameters_[i];
  const mesh::RowGradients row = row_of(i, learner);
  float* const trace = traces[learner];
  if (row.dy.data && row.dy.rows == 1 &&
      (is_recorded || (are_all_moderate(row.dy) && (!row.x.data || are_all_moderate(row.x))))) {
    take_gradient(stream, is_recorded, {signal, nullptr, row.dy, row.x, size, trace, sum});
  } else {
    write_row(stream, i, learner);
    take_gradient(stream, is_recorded, {signal, gradient, {}, {}, size, trace, sum});
  }
  if (is_recorded) stream.is_finite({{trace, 1, size, size}});
}

void EligibilityTraces::find_rates(kernels::OpStream& stream, std::size_t output, const float* signals) {
  if (!signals || output >= outputs_.size() || outputs_[output].sums == 0) return;
  const Output& of = outputs_[output];
  for (std::size_t learner = 0; learner < learners_; ++learner)
    stream.bounded_rate({signals + learner * kTraceSignal, sums_.data() + of.first_sum + learner * of.sums, of.sums,
                         of.counts.data(), of.counts.size(), lr_,
                         rates_.data() + (output * learners_ + learner) * kOptimizerFactors});
}

const float* EligibilityTraces::factors(kernels::OpStream& stream, mesh::NodeId node, std::span<const float> shares) {
  const std::size_t floats = learners_ * kOptimizerFactors;
  float* from = rates_.data() + static_cast<std::size_t>(layers_[node].output) * floats;
  float* const own = layer_rates_.data() + node * floats;
  for (const float share : shares) {
    if (share == 1.0f) continue;
    stream.scale({share, {from, 1, floats, floats}, {own, 1, floats, floats}});
    from = own;
  }
  return from;
}

// Most steps end no episode.
void EligibilityTraces::end(kernels::OpStream& stream, mesh::NodeId node, const float* signals, bool is_recorded) {
  const TracedLayer& layer = layers_[node];
  for (std::size_t learner = 0; learner < learners_; ++learner) {
    const float* const signal = signals + learner * kTraceSignal;
    if (!is_recorded && signal[kernels::kTraceEnds] == 0.0f) continue;
    for (std::size_t i = layer.first; i < layer.first + layer.parameters; ++i)
      if (parameters_[i].size != 0) stream.end_traces({signal, parameters_[i].size, parameters_[i].traces[learner]});
  }
}

}  // namespace weft::learning
