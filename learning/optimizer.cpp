// SPDX-License-Identifier: Apache-2.0

#include "learning/optimizer.hpp"

#include "learning/internal/learning_plan.hpp"

#include "kernels/binary.hpp"
#include "kernels/cpu_stream.hpp"
#include "kernels/finite.hpp"
#include "kernels/linear.hpp"
#include "kernels/math.hpp"
#include "kernels/perturb.hpp"
#include "kernels/reduce.hpp"
#include "kernels/trace.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weft::learning {

namespace {

// A step that turns a weight of one bit turns all of it: layers of such weights move at a third of the rate. Measured
// on the digits, docs/learning.md.
float rate_share(Dtype dtype) noexcept { return dtype == Dtype::binary ? 1.0f / 3.0f : 1.0f; }

/// Weights that the steps of several learners move one after the other while they are in the fastest cache.
constexpr std::size_t kStepChunk = 2048;

/// Rows that the sum of squares of a parameter is cut into: the panels of a matrix.
std::size_t rows_of(const mesh::ParameterSpec& spec) noexcept { return spec.is_matrix() ? (spec.out + 15) / 16 : 1; }

}  // namespace

kernels::StepShares delayed_shares(const OptimizerOptions& options, DelayCompensation compensation,
                                   std::uint32_t delay) noexcept {
  if (compensation == DelayCompensation::none || delay == 0) return {};
  const double m = options.momentum, s = 1.0 - double{options.dampening}, d = delay;
  const double left = kernels::math::power(m, delay);
  double velocity = 1.0, gradient = 0.0;
  if (compensation != DelayCompensation::prediction) velocity = left, gradient = (1.0 - left) / (1.0 - m);
  if (compensation != DelayCompensation::spike) velocity += d - d / m, gradient += d / m;
  return {static_cast<float>(velocity), static_cast<float>(s * gradient)};
}

std::size_t arrays_before_past(const LearningOptions& options) noexcept {
  return kernels::arrays_of(options.optimizer) + (options.traces            ? options.learners
                                                  : options.perturb.is_on() ? std::size_t{1}
                                                                            : std::size_t{0});
}

Result<Optimizer> Optimizer::build(const mesh::Graph& graph, const LearningPlan& plan, const mesh::WeightStore& weights,
                                   const LearningOptions& options) {
  Optimizer made;
  made.options_ = options.optimizer;
  made.schedule_ = options.rate_schedule;
  const bool has_limits = options.gradient_limit > 0.0f && options.optimizer.clip == Clip::none;
  for (const mesh::Node& node : graph.nodes()) {
    // Of one product the step itself has a limit.
    const bool is_limited = has_limits && !node.is_port() && !is_one_product(node);
    made.limits_.push_back(is_limited ? options.gradient_limit : 0.0f);
    made.is_frozen_.push_back(node.is_frozen);
  }
  made.traces_.is_on = options.traces;
  if (options.traces) made.traces_.learners = options.learners;
  made.traces_.signals.resize(graph.outputs().size());
  for (auto& signals : made.traces_.signals) signals.reserve(made.traces_.learners);
  made.traces_.rates.assign(graph.outputs().size(), std::vector<float>(made.traces_.learners));
  for (const LayerPlan& layer : plan.layers) {
    made.traces_.outputs.push_back(layer.traced_for);
    made.shares_.push_back(delayed_shares(options.optimizer, options.delay_compensation, layer.delay));
  }
  std::vector<bool> has_state;
  for (const auto& parameter : weights.parameters()) {
    has_state.push_back(!made.is_frozen_[parameter.node]);
    made.sizes_.push_back(has_state.back() ? parameter.spec->stored_size() : 0);
  }
  made.first_past_ = arrays_before_past(options);
  WEFT_TRY(made.adapters_, Adapters::build(weights, options.lora, has_state, made.first_past_));
  std::vector<bool> has_gradients = has_state;
  // Layers that compute with a frozen one's weights add to gradients that nobody uses.
  for (mesh::NodeId id = 0; id < weights.node_count(); ++id)
    for (const std::uint32_t parameter : weights.slots(id)) has_gradients[parameter] = true;
  WEFT_TRY(made.gradients_, weights.memory().make_buffer(has_gradients));
  for (std::size_t i = 0; !options.lora.is_on() && i < made.first_past_ + options.consolidation.arrays(); ++i) {
    WEFT_TRY(auto slot, weights.memory().make_buffer(has_state));
    made.slots_.push_back(std::move(slot));
  }
  if (options.lora.is_on()) {
    WEFT_TRY(made.slots_, made.adapters_.make_slots(weights, graph.spec().seed));
    for (std::size_t i = 0; i < made.sizes_.size(); ++i) made.sizes_[i] = made.adapters_.floats(i);
  }
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    made.gradient_pointers_.push_back(made.gradients_.data(i));
  for (mesh::NodeId id = 0; id < weights.node_count(); ++id) {
    made.first_.push_back(weights.first(id));
    std::vector<float*>& joined = made.joined_.emplace_back();
    for (const std::uint32_t parameter : weights.slots(id)) joined.push_back(made.gradient_pointers_[parameter]);
  }
  made.first_.push_back(weights.parameters().size());
  if (made.traces_.learners > 1)
    made.traces_.rows.resize(weights.parameters().size());
  else if (options.traces)
    made.traces_.products.resize(weights.parameters().size());
  made.updates_.assign(weights.node_count(), 0);
  if (kernels::counts_updates(made.options_) || !kernels::is_constant(made.schedule_))
    made.factors_.assign(kernels::kOptimizerFactors * weights.node_count(), 0.0f);
  made.perturbed_.by = options.perturb;
  for (std::size_t i = 0; i < weights.parameters().size() && options.perturb.is_on(); ++i) {
    RandomStream random(graph.spec().seed, i, RandomPurpose::perturb);
    made.perturbed_.keys.push_back({random.next_u32(), random.next_u32()});
  }
  made.make_norms(weights);
  return made;
}

void Optimizer::make_norms(const mesh::WeightStore& weights) {
  const bool has_limits = std::any_of(limits_.begin(), limits_.end(), [](float limit) { return limit > 0.0f; });
  if (options_.clip != Clip::norm && options_.clip != Clip::global_norm && !has_limits && !traces_.is_on &&
      !is_perturbed())
    return;
  std::size_t squares = 0;
  for (const auto& parameter : weights.parameters()) {
    sums_.first.push_back(squares);
    squares += rows_of(*parameter.spec);
  }
  sums_.squares.assign(squares, 0.0f);
  sums_.norms.assign(weights.node_count() * traces_.learners, 0.0f);
  sums_.total.assign(1, 0.0f);
}

void Optimizer::clear_gradients(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node,
                                bool keeps_products) {
  for (const auto& parameter : weights.of(node)) {
    const std::size_t n = parameter.spec->stored_size(), i = first_[node] + parameter.index;
    if (!traces_.rows.empty()) {
      traces_.rows[i] = {};
      continue;
    }
    const bool is_kept = keeps_products && parameter.spec->is_outer && parameter.spec->is_matrix();
    if (!traces_.products.empty()) traces_.products[i] = {{}, !is_kept};
    float* const values = gradient_pointers_[i];
    if (values && !is_kept) stream.fill({0.0f, {values, 1, n, n}});
  }
}

bool Optimizer::are_finite(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node) const {
  for (const auto& parameter : weights.of(node)) {
    const std::size_t n = parameter.spec->stored_size(), i = first_[node] + parameter.index;
    if (product(i) || has_no_gradient(i)) continue;  // a product is of moderate numbers
    if (!traces_.rows.empty()) {
      if (!are_rows_finite(stream, i)) return false;
      continue;
    }
    if (!stream.is_finite({{gradient_pointers_[i], 1, n, n}})) return false;
    if (adapters_.has(i) && !stream.is_finite({{adapters_.gradient(i), 1, sizes_[i], sizes_[i]}})) return false;
  }
  return true;
}

// Lanes that pad a panel hold 0 and add nothing. The order of the sums follows from the layer's shapes.
void Optimizer::measure_norm(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node) {
  const auto parameters = weights.of(node);
  if (parameters.empty()) return;
  float* const squares = sums_.squares.data() + sums_.first[first_[node]];
  std::size_t count = 0;
  for (const auto& parameter : parameters) {
    const std::size_t i = first_[node] + parameter.index;
    if (sizes_[i] == 0) continue;  // it never moves
    const bool is_adapted = adapters_.has(i);
    const std::size_t rows = is_adapted ? 1 : rows_of(*parameter.spec), cols = sizes_[i] / rows;
    const kernels::ConstMatrixView all{is_adapted ? adapters_.gradient(i) : gradient_pointers_[i], rows, cols, cols};
    stream.row_dots({all, all, squares + count});
    count += rows;
  }
  if (count == 0) return forget_norm(stream, node);
  stream.row_sums({{squares, 1, count, count}, &sums_.norms[node]});
}

void Optimizer::forget_norm(kernels::OpStream& stream, mesh::NodeId node) {
  stream.fill({0.0f, {&sums_.norms[node * traces_.learners], 1, traces_.learners, traces_.learners}});
}

void Optimizer::add_norms(kernels::OpStream& stream) {
  if (traces_.is_on) return find_rates();
  if (is_perturbed()) {
    sums_.total[0] = *std::max_element(sums_.norms.begin(), sums_.norms.end());
    return;
  }
  stream.row_sums({{sums_.norms.data(), 1, sums_.norms.size(), sums_.norms.size()}, sums_.total.data()});
}

std::span<const TraceSignal> Optimizer::signals_of(mesh::NodeId node) const noexcept {
  if (traces_.outputs[node] < 0) return {};
  return traces_.signals[static_cast<std::size_t>(traces_.outputs[node])];
}

mesh::RowGradients Optimizer::row_of(std::size_t i, std::size_t learner) const noexcept {
  const mesh::RowGradients& all = traces_.rows[i];
  if (!all.dy.data) return {};
  const std::size_t rows = all.dy.rows / traces_.learners, first = learner * rows;  // a learner's tokens
  mesh::RowGradients row{{all.dy.row(first), rows, all.dy.cols, all.dy.stride}, {}};
  if (all.x.data) row.x = {all.x.row(first), rows, all.x.cols, all.x.stride};
  return row;
}

void Optimizer::take_row(std::size_t i, std::size_t learner) const noexcept {
  const mesh::RowGradients row = row_of(i, learner);
  std::fill_n(gradient(i), sizes_[i], 0.0f);
  if (row.x.data)
    kernels::outer_accumulate(row.dy, row.x, {gradient(i), row.dy.cols, row.x.cols});
  else if (row.dy.data)
    kernels::column_accumulate(row.dy, gradient(i));
}

bool Optimizer::are_rows_finite(kernels::OpStream& stream, std::size_t i) const {
  const auto are_moderate = [](const kernels::ConstMatrixView& all) {
    for (std::size_t row = 0; row < all.rows; ++row)
      if (!kernels::are_moderate(all.row(row), all.cols)) return false;
    return true;
  };
  const mesh::RowGradients& all = traces_.rows[i];
  if (!all.dy.data || (are_moderate(all.dy) && (!all.x.data || are_moderate(all.x)))) return true;
  for (std::size_t learner = 0; learner < traces_.learners; ++learner) {
    take_row(i, learner);
    if (!stream.is_finite({{gradient(i), 1, sizes_[i], sizes_[i]}})) return false;
  }
  return true;
}

void Optimizer::update_traces(const mesh::WeightStore& weights, mesh::NodeId node) noexcept {
  const std::span<const TraceSignal> signals = signals_of(node);
  if (signals.empty()) return;
  if (traces_.learners > 1) return update_traces_by_rows(weights, node, signals);
  for (const auto& parameter : weights.of(node)) {
    const std::size_t i = first_[node] + parameter.index;
    if (has_no_gradient(i)) std::fill_n(gradient(i), sizes_[i], 0.0f);
    sums_.norms[node] += product(i) ? kernels::trace_update(trace(i), *product(i), signals[0].decay)
                                    : kernels::trace_update(trace(i), gradient(i), signals[0].decay, sizes_[i]);
  }
}

/// The same of each learner's own, with the operations of one learner.
void Optimizer::update_traces_by_rows(const mesh::WeightStore& weights, mesh::NodeId node,
                                      std::span<const TraceSignal> signals) noexcept {
  for (const auto& parameter : weights.of(node))
    for (std::size_t learner = 0; learner < traces_.learners; ++learner) {
      const std::size_t i = first_[node] + parameter.index;
      const mesh::RowGradients row = row_of(i, learner);
      const float decay = signals[learner].decay;
      float& norm = sums_.norms[node * traces_.learners + learner];
      if (row.x.data && row.dy.rows == 1 && kernels::are_moderate(row.dy.data, row.dy.cols) &&
          kernels::are_moderate(row.x.data, row.x.cols)) {
        const kernels::OuterProduct product{row.dy.data, row.x.data, row.dy.cols, row.x.cols};
        norm += kernels::trace_update(trace(i, learner), product, decay);
      } else {
        take_row(i, learner);
        norm += kernels::trace_update(trace(i, learner), gradient(i), decay, sizes_[i]);
      }
    }
}

void Optimizer::update_utilities(const mesh::WeightStore& weights, mesh::NodeId node) noexcept {
  for (const auto& parameter : weights.of(node)) {
    const std::size_t i = first_[node] + parameter.index;
    sums_.norms[node] = std::max(sums_.norms[node], kernels::utility_update(trace(i), parameter.data, gradient(i),
                                                                            perturbed_.by.decay, sizes_[i]));
  }
}

/// Sums over layers in binary64, in their order; the rate is rounded once.
void Optimizer::find_rates() noexcept {
  for (std::size_t output = 0; output < traces_.signals.size(); ++output)
    for (std::size_t learner = 0; learner < traces_.signals[output].size(); ++learner) {
      const TraceSignal& signal = traces_.signals[output][learner];
      double norm = 0.0;
      for (mesh::NodeId node = 0; node < updates_.size(); ++node)
        if (traces_.outputs[node] == static_cast<std::int32_t>(output))
          norm += double{sums_.norms[node * traces_.learners + learner]};
      const double lr = options_.lr, error = signal.error;
      const double bounded = lr * signal.bound * std::max(std::fabs(error), 1.0) * norm;
      traces_.rates[output][learner] = static_cast<float>(lr / std::max(bounded, 1.0) * error);
    }
}

OptimizerOptions Optimizer::options_of(const mesh::WeightStore& weights, mesh::NodeId node,
                                       std::size_t learner) const noexcept {
  OptimizerOptions options = options_;
  if (traces_.is_on) options.lr = traces_.rates[static_cast<std::size_t>(traces_.outputs[node])][learner];
  options.lr *= rate_share(weights.encoding(node).dtype);
  options.lr *= weights.rates.of(node);
  options.shares = shares_[node];
  if (limits_[node] > 0.0f) options.clip = Clip::norm, options.clip_limit = limits_[node];
  return options;
}

template <class Move>
void Optimizer::step_each(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node,
                          const float* squares, OptimizerOptions options, const Move& move) {
  float* factors = nullptr;
  if (!factors_.empty()) {
    factors = factors_.data() + kernels::kOptimizerFactors * node;
    stream.optimizer_factors({&updates_[node], options.lr, options.beta1, options.beta2, schedule_, factors});
  } else {
    ++updates_[node];
  }
  for (auto& parameter : weights.of(node)) {
    const std::size_t i = first_[node] + parameter.index;
    ++parameter.version;
    if (sizes_[i] == 0) continue;  // it has no adapter
    const bool is_adapted = adapters_.has(i);
    const auto state = [&](std::size_t s) { return s < first_past_ ? slot(s, i) : nullptr; };
    options.weight_decay = parameter.spec->decays ? options_.weight_decay : 0.0f;
    const kernels::OptimizerArguments arguments{
        sizes_[i], is_adapted ? slot(adapters_.values_slot(), i) : parameter.data,
        state(0),  state(1),
        state(2),  is_adapted ? adapters_.gradient(i) : traces_.is_on ? trace(i) : gradient_pointers_[i],
        factors,   squares};
    move(*parameter.spec, arguments, options);
    if (is_adapted)
      adapters_.compose(stream, i, slot(adapters_.values_slot(), i), slot(adapters_.base_slot(), i), parameter.data);
  }
  weights.quantize_stored(node, stream);
}

void Optimizer::step(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node) {
  const std::span<const TraceSignal> signals = signals_of(node);
  if (traces_.is_on && signals.empty()) return;
  if (is_perturbed()) return step_perturbed(stream, weights, node);
  if (traces_.learners > 1) return step_by_rows(stream, weights, node, signals);
  const OptimizerOptions options = options_of(weights, node);
  const float* squares = nullptr;
  if (options.clip == Clip::norm) {
    measure_norm(stream, weights, node);
    squares = &sums_.norms[node];
  } else if (options.clip == Clip::global_norm) {
    squares = sums_.total.data();
  }
  step_each(stream, weights, node, squares, options,
            [&](const mesh::ParameterSpec&, const kernels::OptimizerArguments& of, const OptimizerOptions& own) {
              stream.optimizer_step({of.n, of.w, of.first, of.second, of.third, of.g, of.factors, of.squares, own});
            });
  for (const auto& parameter : weights.of(node))
    if (const std::size_t i = first_[node] + parameter.index; !signals.empty() && signals[0].ends)
      stream.fill({0.0f, {trace(i), 1, sizes_[i], sizes_[i]}});
}

/// The step of each learner, in their order: those of one learner, of so many weights at a time that they stay near.
/// The traces that were moved last go first, as they are near too.
void Optimizer::step_by_rows(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node,
                             std::span<const TraceSignal> signals) {
  ++updates_[node];
  const auto parameters = weights.of(node);
  for (std::size_t p = parameters.size(); p-- > 0;) {
    const std::size_t i = first_[node] + p, n = sizes_[i];
    for (std::size_t chunk = (n + kStepChunk - 1) / kStepChunk; chunk-- > 0;)
      for (std::size_t learner = 0; learner < traces_.learners; ++learner) {
        const std::size_t at = chunk * kStepChunk, count = std::min(kStepChunk, n - at);
        kernels::optimizer_step({.n = count, .w = parameters[p].data + at, .g = trace(i, learner) + at},
                                options_of(weights, node, learner));
      }
    for (std::size_t learner = 0; learner < traces_.learners; ++learner)
      if (signals[learner].ends) std::fill_n(trace(i, learner), n, 0.0f);
    ++parameters[p].version;
  }
  weights.quantize_stored(node, stream);
}

/// `sums_.norms` are free for the layer's own: the largest utility has been looked for.
void Optimizer::step_perturbed(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node) {
  const OptimizerOptions options = options_of(weights, node);
  const bool is_limited = limits_[node] > 0.0f;
  if (is_limited) measure_norm(stream, weights, node);
  std::size_t i = first_[node];
  step_each(stream, weights, node, is_limited ? &sums_.norms[node] : nullptr, options,
            [&](const mesh::ParameterSpec& spec, const kernels::OptimizerArguments& of, const OptimizerOptions& own) {
              kernels::perturbed_step({.out = spec.out,
                                       .in = spec.is_matrix() ? spec.in : 0,
                                       .w = of.w,
                                       .u = of.first,
                                       .g = of.g,
                                       .squares = of.squares,
                                       .limit = own.clip_limit,
                                       .rate = of.factors ? of.factors[0] : own.lr,
                                       .weight_decay = own.weight_decay,
                                       .deviation = perturbed_.by.noise,
                                       .largest = sums_.total[0],
                                       .protects = perturbed_.by.method == Perturbation::upgd,
                                       .key = perturbed_.keys[i++],
                                       .update = updates_[node]});
            });
}

bool Optimizer::step_product(kernels::CpuStream& stream, mesh::WeightStore& weights, mesh::NodeId node,
                             const kernels::OuterProduct& product) {
  if (!kernels::are_moderate(product.dy, product.out) || !kernels::are_moderate(product.x, product.in)) return false;
  step_each(stream, weights, node, nullptr, options_of(weights, node),
            [&](const mesh::ParameterSpec& spec, const kernels::OptimizerArguments& of, const OptimizerOptions& own) {
              kernels::OuterProduct part = product;
              if (!spec.is_matrix()) {
                part.x = nullptr;
                return kernels::outer_step(of, part, own, 0, 0);
              }
              const double work = static_cast<double>((2 + slots()) * of.n) * kernels::ops::kMoved;
              stream.parts().units(kernels::panel_count(spec.out), work, [&](const kernels::ops::Part& p) {
                kernels::outer_step(of, part, own, p.row, p.rows);
              });
            });
  return true;
}

void Optimizer::take_product(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node,
                             const kernels::OuterProduct& p) {
  clear_gradients(stream, weights, node);
  const kernels::ConstMatrixView dy{p.dy, 1, p.out, p.out}, x{p.x, 1, p.in, p.in};
  for (const auto& parameter : weights.of(node)) {
    float* const to = gradient_pointers_[first_[node] + parameter.index];
    if (parameter.spec->is_matrix())
      stream.outer_accumulate({dy, x, {to, p.out, p.in}});
    else
      stream.column_accumulate({dy, to});
  }
}

}  // namespace weft::learning
