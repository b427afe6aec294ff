// SPDX-License-Identifier: Apache-2.0

#include "learning/optimizer.hpp"

#include "learning/internal/learning_plan.hpp"

#include "kernels/binary.hpp"
#include "kernels/cpu_stream.hpp"
#include "kernels/finite.hpp"
#include "kernels/linear.hpp"
#include "kernels/math.hpp"
#include "kernels/reduce.hpp"

#include "core/philox.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace weft::learning {

namespace {

// A step that turns a weight of one bit turns all of it: layers of such weights move at a third of the rate. Measured
// on the digits, docs/learning.md.
float rate_share(Dtype dtype) noexcept { return dtype == Dtype::binary ? 1.0f / 3.0f : 1.0f; }

/// A parameter's part of its layer's rate: that of a layer inside a container, whose type may be another.
float own_share(const mesh::WeightStore& weights, const mesh::WeightStore::Parameter& parameter) noexcept {
  const mesh::OwnStorage& own = parameter.spec->own;
  const Dtype layer = weights.encoding(parameter.node).dtype;
  return own.rate_scale * (rate_share(own.encoding ? own.encoding->dtype : layer) / rate_share(layer));
}

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
  for (const LayerPlan& layer : plan.layers)
    made.shares_.push_back(delayed_shares(options.optimizer, options.delay_compensation, layer.delay));
  std::vector<bool> has_state;
  for (const auto& parameter : weights.parameters()) {
    has_state.push_back(!graph.nodes()[parameter.node].freezes(*parameter.spec));
    made.sizes_.push_back(has_state.back() ? parameter.spec->stored_size() : 0);
  }
  made.first_past_ = arrays_before_past(options);
  WEFT_TRY(made.adapters_, Adapters::build(weights, options.lora, has_state, made.first_past_));
  std::vector<bool> has_gradients = has_state;
  // Layers that compute with a frozen one's weights add to gradients that nobody uses, and so do frozen ones inside
  // containers that learn.
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    if (!made.is_frozen_[weights.parameters()[i].node]) has_gradients[i] = true;
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
  if (options.traces) made.make_traces(options, plan, weights);
  made.updates_.assign(weights.node_count(), 0);
  if (kernels::counts_updates(made.options_) || !kernels::is_constant(made.schedule_) || options.perturb.is_on())
    made.factors_.assign(kernels::kOptimizerFactors * weights.node_count(), 0.0f);
  made.make_own_factors(weights);
  made.perturbed_.by = options.perturb;
  for (std::size_t i = 0; i < weights.parameters().size() && options.perturb.is_on(); ++i) {
    RandomStream random(graph.spec().seed, i, RandomPurpose::perturb);
    made.perturbed_.keys.push_back({random.next_u32(), random.next_u32()});
  }
  made.make_norms(weights);
  return made;
}

void Optimizer::make_traces(const LearningOptions& options, const LearningPlan& plan,
                            const mesh::WeightStore& weights) {
  std::vector<TracedParameter> parameters;
  for (std::size_t i = 0; i < weights.parameters().size(); ++i) {
    TracedParameter& parameter = parameters.emplace_back(TracedParameter{gradient_pointers_[i], sizes_[i], {}});
    for (std::size_t learner = 0; learner < options.learners; ++learner)
      parameter.traces.push_back(slots_[first_past_ - options.learners + learner].data(i));
  }
  traces_ = EligibilityTraces(options, plan, weights, std::move(parameters));
}

void Optimizer::make_own_factors(const mesh::WeightStore& weights) {
  for (std::size_t i = 0; i < weights.parameters().size(); ++i) {
    const mesh::OwnStorage& own = weights.parameters()[i].spec->own;
    if (sizes_[i] == 0 || (own.rate_scale == 1.0f && !own.encoding)) continue;
    if (factors_.empty()) factors_.assign(kernels::kOptimizerFactors * weights.node_count(), 0.0f);
    own_factors_.resize(weights.parameters().size(), 0);
    own_factors_[i] = static_cast<std::uint32_t>(factors_.size());
    factors_.resize(factors_.size() + kernels::kOptimizerFactors, 0.0f);
  }
}

const float* Optimizer::own_factors(kernels::OpStream& stream, std::size_t i, float share, const float* factors) {
  if (share == 1.0f) return factors;
  constexpr std::size_t kAll = kernels::kOptimizerFactors;
  float* const own = factors_.data() + own_factors_[i];
  stream.copy({{factors, 1, kAll, kAll}, {own, 1, kAll, kAll}});
  stream.scale({share, {factors, 1, 1, 1}, {own, 1, 1, 1}});
  return own;
}

void Optimizer::make_norms(const mesh::WeightStore& weights) {
  const bool has_limits = std::any_of(limits_.begin(), limits_.end(), [](float limit) { return limit > 0.0f; });
  if (options_.clip != Clip::norm && options_.clip != Clip::global_norm && !has_limits && !is_perturbed()) return;
  std::size_t squares = 0;
  for (const auto& parameter : weights.parameters()) {
    sums_.first.push_back(squares);
    squares += rows_of(*parameter.spec);
  }
  sums_.squares.assign(squares, 0.0f);
  sums_.norms.assign(weights.node_count(), 0.0f);
  sums_.total.assign(1, 0.0f);
}

void Optimizer::clear_gradients(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node,
                                bool keeps_products) {
  for (const auto& parameter : weights.of(node)) {
    const std::size_t n = parameter.spec->stored_size(), i = first_[node] + parameter.index;
    const bool is_kept = keeps_products && parameter.spec->is_outer && parameter.spec->is_matrix();
    if (traces_.is_on() && !traces_.begin(i, is_kept)) continue;
    if (float* const values = gradient_pointers_[i]) stream.fill({0.0f, {values, 1, n, n}});
  }
}

std::optional<std::uint32_t> Optimizer::not_finite(kernels::OpStream& stream, const mesh::WeightStore& weights,
                                                   mesh::NodeId node, bool is_recorded) const {
  const auto parameters = weights.of(node);
  for (auto p = static_cast<std::uint32_t>(parameters.size()); p-- > 0;) {
    const std::size_t n = parameters[p].spec->stored_size(), i = first_[node] + p;
    if (traces_.has_rows()) {
      if (!is_recorded && !traces_.are_rows_finite(stream, i)) return p;
      continue;
    }
    if (traces_.is_on() && !traces_.is_in_memory(i)) continue;
    if (!stream.is_finite({{gradient_pointers_[i], 1, n, n}})) return p;
    if (adapters_.has(i) && !stream.is_finite({{adapters_.gradient(i), 1, sizes_[i], sizes_[i]}})) return p;
  }
  return std::nullopt;
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
  stream.fill({0.0f, {&sums_.norms[node], 1, 1, 1}});
}

void Optimizer::add_norms(kernels::OpStream& stream) {
  if (is_perturbed()) return stream.largest({sums_.norms.size(), sums_.norms.data(), sums_.total.data()});
  stream.row_sums({{sums_.norms.data(), 1, sums_.norms.size(), sums_.norms.size()}, sums_.total.data()});
}

void Optimizer::update_utilities(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node) {
  for (const auto& parameter : weights.of(node)) {
    const std::size_t i = first_[node] + parameter.index;
    if (!moves(i)) continue;
    stream.utility_update(
        {sizes_[i], utilities(i), parameter.data, gradient(i), perturbed_.by.decay, &sums_.norms[node]});
  }
}

OptimizerOptions Optimizer::options_of(const mesh::WeightStore& weights, mesh::NodeId node) const noexcept {
  OptimizerOptions options = options_;
  options.lr *= rate_share(weights.encoding(node).dtype);
  options.lr *= weights.rates.of(node);
  options.shares = shares_[node];
  if (limits_[node] > 0.0f) options.clip = Clip::norm, options.clip_limit = limits_[node];
  return options;
}

template <class Move>
void Optimizer::step_each(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node,
                          const float* squares, OptimizerOptions options, const float* factors, const Move& move) {
  if (!factors && !factors_.empty()) {
    float* const own = factors_.data() + kernels::kOptimizerFactors * node;
    stream.optimizer_factors({&updates_[node], options.lr, options.beta1, options.beta2, schedule_, own});
    factors = own;
  } else {
    ++updates_[node];
  }
  const std::size_t arrays = kernels::arrays_of(options);
  for (auto& parameter : weights.of(node)) {
    const std::size_t i = first_[node] + parameter.index;
    if (sizes_[i] == 0) continue;  // it has no adapter, or never moves
    ++parameter.version;
    const bool is_adapted = adapters_.has(i);
    const auto state = [&](std::size_t s) { return s < arrays ? slot(s, i) : nullptr; };
    options.weight_decay = parameter.spec->decays ? options_.weight_decay : 0.0f;
    const kernels::OptimizerArguments arguments{
        sizes_[i],
        is_adapted ? slot(adapters_.values_slot(), i) : parameter.data,
        state(0),
        state(1),
        state(2),
        is_adapted        ? adapters_.gradient(i)
        : traces_.is_on() ? traces_.trace(i)
                          : gradient_pointers_[i],
        own_factors_.empty() ? factors : own_factors(stream, i, own_share(weights, parameter), factors),
        squares};
    move(i, *parameter.spec, arguments, options);
    if (is_adapted)
      adapters_.compose(stream, i, slot(adapters_.values_slot(), i), slot(adapters_.base_slot(), i), parameter.data);
  }
  weights.quantize_stored(node, stream);
}

const float* Optimizer::squares_of(kernels::OpStream& stream, const mesh::WeightStore& weights, mesh::NodeId node,
                                   const OptimizerOptions& options) {
  if (options.clip == Clip::norm) measure_norm(stream, weights, node);
  return options.clip == Clip::norm          ? &sums_.norms[node]
         : options.clip == Clip::global_norm ? sums_.total.data()
                                             : nullptr;
}

void Optimizer::step(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node) {
  if (is_perturbed()) return step_perturbed(stream, weights, node);
  step_whole(stream, weights, node, nullptr);
}

void Optimizer::step_whole(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node,
                           const float* factors) {
  const OptimizerOptions options = options_of(weights, node);
  step_each(
      stream, weights, node, squares_of(stream, weights, node, options), options, factors,
      [&](std::size_t, const mesh::ParameterSpec&, const kernels::OptimizerArguments& of, const OptimizerOptions& own) {
        stream.optimizer_step({of.n, of.w, of.first, of.second, of.third, of.g, of.factors, of.squares, own});
      });
}

void Optimizer::step_by_traces(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node,
                               const float* signals, bool is_recorded) {
  if (!signals) return;
  const float shares[] = {rate_share(weights.encoding(node).dtype), weights.rates.of(node)};
  const float* const factors = traces_.factors(stream, node, shares);
  if (traces_.has_rows())
    step_learners(stream, weights, node, factors, is_recorded);
  else
    step_whole(stream, weights, node, factors);
  traces_.end(stream, node, signals, is_recorded);
}

/// On the CPU those of so many weights at a time that they stay near. The traces that were moved last go first, as they
/// are near too.
void Optimizer::step_learners(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node,
                              const float* factors, bool is_recorded) {
  ++updates_[node];
  const OptimizerOptions options = options_of(weights, node);
  const auto parameters = weights.of(node);
  for (std::size_t p = parameters.size(); p-- > 0;) {
    const std::size_t i = first_[node] + p, n = sizes_[i], size = is_recorded ? n : kStepChunk;
    for (std::size_t chunk = (n + size - 1) / size; chunk-- > 0;)
      for (std::size_t learner = 0; learner < traces_.learners(); ++learner) {
        const std::size_t at = chunk * size;
        kernels::ops::OptimizerStep part{};
        part.n = std::min(size, n - at);
        part.w = parameters[p].data + at;
        part.g = traces_.trace(i, learner) + at;
        part.factors = factors + learner * kernels::kOptimizerFactors;
        part.options = options;
        stream.optimizer_step(part);
      }
    ++parameters[p].version;
  }
  weights.quantize_stored(node, stream);
}

/// `sums_.norms` are free for the layer's own: the largest utility has been looked for.
void Optimizer::step_perturbed(kernels::OpStream& stream, mesh::WeightStore& weights, mesh::NodeId node) {
  const OptimizerOptions options = options_of(weights, node);
  const bool is_limited = limits_[node] > 0.0f;
  if (is_limited) measure_norm(stream, weights, node);
  step_each(
      stream, weights, node, is_limited ? &sums_.norms[node] : nullptr, options, nullptr,
      [&](std::size_t i, const mesh::ParameterSpec& spec, const kernels::OptimizerArguments& of,
          const OptimizerOptions& own) {
        stream.perturbed_step({spec.out, spec.is_matrix() ? spec.in : 0, of.w, utilities(i), of.g, of.factors,
                               &updates_[node], sums_.total.data(), of.squares, own.clip_limit, own.weight_decay,
                               perturbed_.by.noise, perturbed_.by.method == Perturbation::upgd, perturbed_.keys[i]});
      });
}

bool Optimizer::step_product(kernels::CpuStream& stream, mesh::WeightStore& weights, mesh::NodeId node,
                             const kernels::OuterProduct& product) {
  if (!kernels::are_moderate(product.dy, product.out) || !kernels::are_moderate(product.x, product.in)) return false;
  step_each(stream, weights, node, nullptr, options_of(weights, node), nullptr,
            [&](std::size_t, const mesh::ParameterSpec& spec, const kernels::OptimizerArguments& of,
                const OptimizerOptions& own) {
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
