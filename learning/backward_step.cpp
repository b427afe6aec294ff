// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/backward_step.hpp"

#include "mesh/network/source_combine.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/narrow_rows.hpp"

#include <algorithm>
#include <exception>

namespace weft::learning {

namespace {
Unpacking unpacking(const LayerAt& at) noexcept { return {at.scratch.kept.data(), at.context.cpu == nullptr}; }
/// All of a scratch, as rows of the learners.
kernels::MatrixView whole(const LayerAt& at, AlignedBuffer<float>& buffer) noexcept {
  const std::size_t width = buffer.size() / at.learners;
  return {buffer.data(), at.learners, width, width};
}
}  // namespace

using kernels::ConstMatrixView;
using kernels::MatrixView;

BackwardStep::Outcome BackwardStep::run(const LayerAt& at, const Hop& hop, std::uint64_t activation_tick,
                                        std::uint64_t sample) noexcept {
  try {
    const bool is_used = process(at, hop, activation_tick, sample);
    if (are_messages_finite(at, hop)) return is_used ? Outcome::used : Outcome::unused;
    at.context.report_fault(at.node, actors::FaultKind::update_not_finite, "", parameter_at_fault(at));
  } catch (const std::exception& error) {
    at.context.report_fault(at.node, actors::FaultKind::threw, error.what());
  } catch (...) {
    at.context.report_fault(at.node, actors::FaultKind::threw);
  }
  drop_messages(at, hop);
  return Outcome::failed;
}

bool BackwardStep::are_messages_finite(const LayerAt& at, const Hop& hop) noexcept {
  const auto is_finite = [&](std::uint32_t index) {
    return index == kNoMessage || at.context.stream.is_finite({messages_.at(index, at.parity)});
  };
  if (hop.distance == 0 && rule_.path == ErrorPath::direct && !is_finite(error_message(at.node))) return false;
  return is_finite(hop.state_out) && std::all_of(hop.outbox.begin(), hop.outbox.end(), is_finite);
}

// Errors that are not finite are so behind the layer inside that made them, whose own gradient mostly is not either.
std::uint32_t BackwardStep::parameter_at_fault(const LayerAt& at) noexcept {
  const bool has_gradients = at.context.weights.learns(at.node) && !optimizer_.is_frozen(at.node) && !at.product;
  if (!has_gradients || options_.traces) return mesh::StepContext::kNoParameter;
  return optimizer_.not_finite(at.context.stream, at.context.weights, at.node, false)
      .value_or(mesh::StepContext::kNoParameter);
}

void BackwardStep::drop_messages(const LayerAt& at, const Hop& hop) noexcept {
  const auto drop = [&](std::uint32_t index) {
    if (index != kNoMessage) at.context.stream.fill({0.0f, messages_.at(index, at.parity)});
  };
  if (hop.distance == 0 && rule_.path == ErrorPath::direct) drop(error_message(at.node));
  drop(hop.state_out);
  for (const std::uint32_t index : hop.outbox) drop(index);
}

Activation BackwardStep::activation(const LayerAt& at, const Hop& hop, std::uint64_t tick) noexcept {
  if (records_.has(at.node, hop)) return records_.at(at.node, hop, tick, unpacking(at));
  const mesh::State& state = at.context.state;
  ConstMatrixView x = mesh::input_at(at.context.graph, state, at.node, tick);
  x.rows = options_.learners;
  return {x, at.learner_rows(state.output(at.node, tick)), at.learner_rows(state.preactivation(at.node, tick)),
          at.learner_rows(state.cache(at.node, tick)), at.learner_rows(state.hidden(at.node, tick - 1))};
}

bool BackwardStep::process(const LayerAt& at, const Hop& hop, std::uint64_t tick, std::uint64_t sample) {
  LearningScratch& scratch = at.scratch;
  kernels::OpStream& stream = at.context.stream;
  const bool is_output = hop.distance == 0;
  // Errors that one reader alone has written are read in place, and not used after this step.
  const bool is_in_place = !is_output && rule_.path == ErrorPath::gradients && hop.inbox.size() == 1;
  const MatrixView delta = is_in_place ? messages_.at(hop.inbox[0], at.parity ^ 1)
                                       : at.rows(scratch.delta, at.context.graph.nodes()[at.node].width);
  const MatrixView y = output(at, hop, tick);
  if (is_output) {
    outputs_.gradient(at, y, sample, delta);
    if (rule_.path == ErrorPath::direct) stream.copy({delta, messages_.at(error_message(at.node), at.parity)});
    if (rule_.takes_wanted_output)
      outputs_.target(at, y, sample, delta);
    else if (rule_.path != ErrorPath::gradients)
      stream.scale({-options_.output_step, delta, delta});
  } else if (rule_.path == ErrorPath::direct) {
    gather_direct(at, delta);
  } else if (rule_.path == ErrorPath::local) {
    outputs_.local(at, y, sample, delta);
  } else if (!is_in_place && !(is_at_once(at) && hop.inbox.size() == 1)) {
    gather(at, hop, delta);
  }
  if (rule_.path == ErrorPath::gradients) return process_gradient(at, hop, tick, delta);
  if (is_at_once(at)) {
    limit_at_once(at, hop, tick, delta);
  } else {
    round_errors(at, delta);
    if (options_.displacement_limit != 0.0f) limits_.limit_displacement(at, delta);
    if (!is_output && options_.activation_limit != 0.0f) limits_.pull_back(at, y, delta);
  }
  return process_target(at, hop, tick, delta);
}

void BackwardStep::gather(const LayerAt& at, const Hop& hop, MatrixView sum) noexcept {
  kernels::OpStream& stream = at.context.stream;
  const std::uint64_t written = at.parity ^ 1;
  if (hop.inbox.empty()) {
    // Only its own hidden state speaks to it.
    stream.fill({0.0f, sum});
    return;
  }
  stream.copy({messages_.at(hop.inbox[0], written), sum});
  for (std::size_t i = 1; i < hop.inbox.size(); ++i)
    stream.binary({kernels::BinaryOp::add, sum, messages_.at(hop.inbox[i], written), sum});
  // Gradients add up; of several targets a layer takes the mean.
  if (rule_.path != ErrorPath::gradients && hop.inbox.size() > 1)
    stream.scale({1.0f / static_cast<float>(hop.inbox.size()), sum, sum});
}

void BackwardStep::gather_direct(const LayerAt& at, MatrixView sum) noexcept {
  LearningScratch& scratch = at.scratch;
  kernels::OpStream& stream = at.context.stream;
  std::size_t before = 0;
  for (std::size_t o = 0; o < plan_.error_messages.size(); ++o) {
    const ConstMatrixView error = messages_.at(plan_.error_messages[o], at.parity ^ 1);
    const kernels::ConstPanels feedback = feedback_.of(at.node, sum.cols, error.cols, before);
    const MatrixView part = o == 0 ? sum : at.rows(scratch.work, sum.cols);
    stream.linear({feedback, nullptr, error, kernels::Activation::linear, {}, part});
    if (o > 0) stream.binary({kernels::BinaryOp::add, sum, part, sum});
    before += kernels::panels_size(sum.cols, error.cols);
  }
  stream.scale({-options_.output_step, sum, sum});
}

// Displacements that one reader alone has sent are read where they stand.
void BackwardStep::limit_at_once(const LayerAt& at, const Hop& hop, std::uint64_t tick,
                                 const MatrixView& residual) noexcept {
  const bool is_output = hop.distance == 0, is_read = !is_output && is_along_links(rule_.path) && hop.inbox.size() == 1;
  const float* const wanted = is_read ? messages_.at(hop.inbox[0], at.parity ^ 1).data : residual.data;
  kernels::limit_displacement(wanted, at.context.state.output(at.node, tick).data, residual.cols,
                              {is_output ? 0.0f : options_.activation_limit, options_.displacement_limit},
                              residual.data);
}

void BackwardStep::learn_inverse(const LayerAt& at, const mesh::BackwardArgs& args) noexcept {
  LearningScratch& scratch = at.scratch;
  const mesh::Node& here = at.context.graph.nodes()[at.node];
  const RowNumbers rows{scratch.limits.data(), scratch.ones.data()};
  if (inverses_.has_maps(at.node))
    return inverses_.learn_maps(at.context.stream, at.node, at.context.weights.view(at.node), scratch.maps.data(),
                                at.context.workspace, rows);
  inverses_.learn(at.context.stream, at.node, *here.layer, at.context.weights.view(at.node), args.x,
                  {at.rows(scratch.split, here.in), at.rows(scratch.dx, here.in), at.rows(scratch.target, here.width),
                   at.rows(scratch.work, here.width), rows});
}

mesh::BackwardArgs BackwardStep::past(const LayerAt& at, const Hop& hop, std::uint64_t tick) noexcept {
  const Activation then = activation(at, hop, tick);
  mesh::BackwardArgs args;
  args.weights = at.context.weights.backward_view(at.node);
  args.x = then.x;
  args.y = then.y;
  args.z = then.z;
  args.cache = then.cache;
  args.state = then.state;
  args.workspace = at.context.workspace;
  args.scratch = at.rows(at.scratch.own, at.context.graph.nodes()[at.node].layer->scratch_size());
  return args;
}

MatrixView BackwardStep::output(const LayerAt& at, const Hop& hop, std::uint64_t tick) noexcept {
  const bool is_narrow = at.context.graph.nodes()[at.node].value_dtypes.activation != Dtype::float32;
  if (!is_narrow || !records_.has(at.node, hop)) return at.learner_rows(at.context.state.output(at.node, tick));
  const ConstMatrixView y = records_.at(at.node, hop, tick, unpacking(at)).y;
  return {const_cast<float*>(y.data), y.rows, y.cols, y.stride};  // in the scratch
}

void BackwardStep::round_errors(const LayerAt& at, const MatrixView& errors) noexcept {
  const Dtype dtype = at.context.graph.nodes()[at.node].value_dtypes.gradient;
  if (dtype != Dtype::float32 && errors.data && at.context.cpu) kernels::round_rows(dtype, errors);
}

MatrixView BackwardStep::state_errors(const LayerAt& at, const Hop& hop) noexcept {
  if (hop.state_in == kNoMessage) return {};
  const MatrixView errors = messages_.at(hop.state_in, at.parity ^ 1);
  round_errors(at, errors);  // nobody else reads them
  return errors;
}

void BackwardStep::backward(const LayerAt& at, mesh::BackwardArgs& args, bool learns) {
  if (learns && !at.product) args.gradients = optimizer_.gradients(at.node, at.keeps_products);
  at.context.backward(at.node, args);
  if (learns && at.product) *at.product = {args.dy.data, args.x.data, args.dy.cols, args.x.cols};
}

bool BackwardStep::process_gradient(const LayerAt& at, const Hop& hop, std::uint64_t tick, MatrixView delta) {
  LearningScratch& scratch = at.scratch;
  kernels::OpStream& stream = at.context.stream;
  // The gradients of several learners are a mean. With traces each has its own.
  if (hop.distance == 0 && options_.learners > 1 && !options_.traces)
    stream.scale({1.0f / static_cast<float>(options_.learners), delta, delta});
  round_errors(at, delta);
  if (statistics_ && at.context.cpu) statistics_->note_error(at.node, delta, at.context.tick - tick);
  mesh::BackwardArgs args = past(at, hop, tick);
  args.dy = delta;
  const bool learns = at.context.weights.learns(at.node) && !optimizer_.is_frozen(at.node);
  const bool sends_directly = hop.sends && at.context.graph.nodes()[at.node].reads_directly();
  if (sends_directly)
    args.dx = messages_.at(hop.outbox[0], at.parity);
  else if (hop.sends)
    args.dx = at.rows(scratch.dx, at.context.graph.nodes()[at.node].in);
  args.dnext_state = state_errors(at, hop);
  if (hop.state_out != kNoMessage) args.dstate = messages_.at(hop.state_out, at.parity);
  if (learns && is_step_limited(at, args.x))
    backward_limited(at, args);
  else
    backward(at, args, learns);
  if (hop.sends && !sends_directly) send(at, hop, tick, args.dx);
  return learns;
}

bool BackwardStep::is_step_limited(const LayerAt& at, const ConstMatrixView& x) noexcept {
  if (options_.step_limit == 0.0f || limits_.step_size(at) == 0.0f) return false;
  limits_.limit_step(at, x);
  const float* const limits = at.scratch.limits.data();
  // Factors of 1 need no step of their own; those on a device nobody waits for.
  return !at.context.cpu || std::any_of(limits, limits + options_.learners, [](float each) { return each != 1.0f; });
}

// The layer sends on the whole gradient; its own step alone is shorter. One that sends nothing shortens what reached
// it, so that the same errors are left behind where no limit was reached.
void BackwardStep::backward_limited(const LayerAt& at, mesh::BackwardArgs& args) {
  mesh::BackwardArgs own = args;
  if (args.dx.data) own.dy = at.rows(at.scratch.work, args.dy.cols);
  at.context.stream.scale_rows({at.scratch.limits.data(), args.dy, own.dy});
  if (args.dx.data) backward(at, args, false);
  own.dx = {};
  backward(at, own, true);
}

bool BackwardStep::process_target(const LayerAt& at, const Hop& hop, std::uint64_t tick, MatrixView residual) {
  if (statistics_ && at.context.cpu) statistics_->note_error(at.node, residual, at.context.tick - tick);
  LearningScratch& scratch = at.scratch;
  const mesh::Node& here = at.context.graph.nodes()[at.node];
  mesh::BackwardArgs args = past(at, hop, tick);
  args.dnext_state = state_errors(at, hop);
  const bool has_gone = hop.sends && send_parts(at, hop, residual);
  if (!has_gone && (hop.sends || hop.state_out != kNoMessage)) {
    const bool sends_directly = hop.sends && at.context.cpu && here.reads_directly();
    const MatrixView dx = sends_directly ? messages_.at(hop.outbox[0], at.parity)
                          : hop.sends    ? at.rows(scratch.dx, here.in)
                                         : MatrixView();
    propagate_target(at, hop, args, residual, dx);
    if (hop.sends && !sends_directly) send(at, hop, tick, dx);
    // Once a sample, however many ticks of its past the errors are about.
    const bool is_first = &hop == &plan_.layers[at.node].hops.front();
    if (is_first && inverses_.has(at.node)) learn_inverse(at, args);
  }
  if (here.layer->parameters().empty() && here.owners.empty()) return false;
  if (!at.context.weights.learns(at.node) || optimizer_.is_frozen(at.node)) return false;
  const bool is_usual = !rule_.own_step && rule_.budget_share == 1.0f;
  return is_usual && is_at_once(at) ? learn_target_at_once(at, args, residual)
                                    : learn_target(at, args, residual, hop.distance == 0);
}

bool BackwardStep::learn_target_at_once(const LayerAt& at, const mesh::BackwardArgs& args, const MatrixView& residual) {
  const mesh::Node& here = at.context.graph.nodes()[at.node];
  const kernels::Activation activation = *here.layer->row_product();
  if (rule_.target_share != 1.0f) at.context.stream.scale({rule_.target_share, residual, residual});
  const float size = limits_.step_size(at);
  const bool is_limited = options_.step_limit != 0.0f && size != 0.0f;
  float* const dy = at.scratch.work.data();
  if (!kernels::target_error(
          {args.y.data, kernels::needs_preactivation(activation) ? args.z.data : args.y.data, residual.data,
           args.x.data, here.width, here.in, activation, is_limited ? options_.step_limit / size : 0.0f, -1.0f},
          dy))
    return false;
  *at.product = {dy, args.x.data, here.width, here.in};
  return true;
}

bool BackwardStep::learn_target(const LayerAt& at, mesh::BackwardArgs& args, const MatrixView& residual,
                                bool is_output) {
  LearningScratch& scratch = at.scratch;
  kernels::OpStream& stream = at.context.stream;
  const mesh::Node& here = at.context.graph.nodes()[at.node];
  const MatrixView target = at.rows(scratch.target, here.width);
  if (rule_.target_share != 1.0f) stream.scale({rule_.target_share, residual, residual});
  MatrixView aim = residual;
  if (rule_.budget_share != 1.0f && !is_output) {
    aim = at.rows(scratch.work, here.width);
    stream.scale({rule_.budget_share, residual, aim});
  }
  stream.binary({kernels::BinaryOp::add, args.y, aim, target});
  if (statistics_ && at.context.cpu) statistics_->note_target(at.node, args.y, target);
  stream.link_budget({args.y, target, scratch.factors.data()});
  const float* factors = scratch.factors.data();
  // A layer that moves with all others has gradients of 0 then, and one of several errors adds 0, as on a device.
  const bool is_used = plan_.moves_together || at.context.any_nonzero(at.node, update_factors(at));
  if (!is_used && budgets_.of(at.node).empty()) return false;
  // Moving towards the target is descending against the residual.
  args.dy = at.rows(scratch.work, here.width);
  stream.scale_rows({factors, residual, args.dy});
  if (options_.step_limit != 0.0f && limits_.step_size(at) != 0.0f) {
    limits_.limit_step(at, args.x);
    stream.scale_rows({scratch.limits.data(), args.dy, args.dy});
  }
  const float share = -1.0f / static_cast<float>(options_.learners);
  stream.scale({share, args.dy, args.dy});
  if (args.dnext_state.data) {
    // The hidden state's displacement, from the next tick, is part of the same step.
    const MatrixView state = at.rows(scratch.target, args.dnext_state.cols);
    stream.scale_rows({factors, args.dnext_state, state});
    stream.scale({share * rule_.target_share, state, state});
    args.dnext_state = state;
  }
  if (rule_.own_step) return step_by_rule(at, args) && is_used;
  backward(at, args, true);
  return is_used;
}

std::span<const float> BackwardStep::update_factors(const LayerAt& at) {
  const std::size_t n = options_.learners;
  const std::span<float> sums = budgets_.of(at.node);
  float* const factors = at.scratch.factors.data();
  if (sums.empty()) return {factors, n};
  const MatrixView all{sums.data(), 1, n, n};
  if (at.is_first)
    at.context.stream.copy({{factors, 1, n, n}, all});
  else
    at.context.stream.binary({kernels::BinaryOp::add, all, {factors, 1, n, n}, all});
  return sums;
}

bool BackwardStep::step_by_rule(const LayerAt& at, const mesh::BackwardArgs& args) {
  if (at.product) {
    *at.product = {args.dy.data, args.x.data, args.dy.cols, args.x.cols};
    return true;
  }
  LearningScratch& scratch = at.scratch;
  const mesh::Layer& layer = *at.context.graph.nodes()[at.node].layer;
  return rule_.own_step({at.context.stream, layer, at.context.graph.layer_spec(at.node).type, args, args.dy,
                         MatrixView(), optimizer_.gradients(at.node), whole(at, scratch.target), MatrixView(),
                         nullptr});
}

void BackwardStep::propagate_target(const LayerAt& at, const Hop& hop, const mesh::BackwardArgs& past,
                                    const MatrixView& residual, const MatrixView& dx) {
  LearningScratch& scratch = at.scratch;
  kernels::OpStream& stream = at.context.stream;
  const mesh::Node& here = at.context.graph.nodes()[at.node];
  const int matrix = here.layer->weight_matrix();
  const bool is_direct_output = hop.distance == 0 && rule_.outputs_send_gradients;
  if (rule_.through_matrix && matrix >= 0 && !is_direct_output) {
    const bool is_learned = inverses_.has_matrix(at.node), has_feedback = is_per_layer(rule_.feedback);
    rule_.through_matrix({stream, past, past.weights.matrix(static_cast<std::size_t>(matrix)),
                          is_learned     ? inverses_.matrix(at.node)
                          : has_feedback ? feedback_.of(at.node, here.in, here.width)
                                         : kernels::ConstPanels{},
                          is_learned ? inverses_.bias(at.node) : nullptr, options_.feedback == Feedback::tanh, residual,
                          dx, at.rows(scratch.target, here.width), at.rows(scratch.split, here.in),
                          scratch.factors.data()});
  } else if (rule_.through_layer) {
    rule_.through_layer({stream,
                         *here.layer,
                         at.context.graph.layer_spec(at.node).type,
                         past,
                         residual,
                         dx,
                         {},
                         whole(at, scratch.target),
                         whole(at, scratch.split),
                         scratch.factors.data()});
  } else if (here.layer->is_step()) {
    stream.copy({residual, dx});
  } else {
    propagate_backward(at, hop, past, residual, dx);
  }
}

void BackwardStep::propagate_backward(const LayerAt& at, const Hop& hop, const mesh::BackwardArgs& past,
                                      const MatrixView& residual, const MatrixView& dx) {
  LearningScratch& scratch = at.scratch;
  kernels::OpStream& stream = at.context.stream;
  const mesh::Node& here = at.context.graph.nodes()[at.node];
  mesh::BackwardArgs args = past;
  const mesh::ConstWeights other =
      inverses_.has_maps(at.node) ? inverses_.weights(at.node) : feedback_.weights(at.node);
  const bool is_fed_back = other.data && !(hop.distance == 0 && rule_.outputs_send_gradients);
  if (is_fed_back) args.weights = other;
  // The vector-Jacobian product is odd in its argument, so no sign needs turning twice.
  args.dy = at.rows(scratch.work, here.width);
  args.dx = dx;
  if (hop.state_out != kNoMessage) args.dstate = messages_.at(hop.state_out, at.parity);
  if (!is_fed_back || options_.feedback == Feedback::linear) {
    stream.copy({residual, args.dy});
    at.context.backward(at.node, args);
  } else {
    const auto bend = [&](const MatrixView& values) {
      if (values.data) stream.unary({kernels::Activation::tanh, values, values});
    };
    // g(a + d) - g(a): what the layer published comes back too, and a state of which no displacement is known as 0.
    mesh::BackwardArgs base = args;
    base.dnext_state = {};
    if (dx.data) base.dx = at.rows(scratch.split, here.in);
    if (args.dstate.data) base.dstate = at.rows(scratch.target, args.dstate.cols);
    stream.copy({past.y, base.dy});
    at.context.backward(at.node, base);
    stream.binary({kernels::BinaryOp::add, past.y, residual, args.dy});
    at.context.backward(at.node, args);
    for (const MatrixView& values : {base.dx, base.dstate, args.dx, args.dstate}) bend(values);
    if (args.dx.data) stream.binary({kernels::BinaryOp::sub, args.dx, base.dx, args.dx});
    if (args.dstate.data) stream.binary({kernels::BinaryOp::sub, args.dstate, base.dstate, args.dstate});
  }
  if (args.dstate.data && options_.displacement_limit != 0.0f) limits_.limit_displacement(at, args.dstate);
}

// A value of the input is a row of the feedback matrix: those that nobody listens to are left out.
bool BackwardStep::send_parts(const LayerAt& at, const Hop& hop, const MatrixView& residual) noexcept {
  const mesh::Graph& graph = at.context.graph;
  const mesh::Node& here = graph.nodes()[at.node];
  if (!is_at_once(at) || here.reads_directly() || here.combine != mesh::Combine::concat || here.tokens != 1 ||
      rule_.through_matrix != through_feedback || options_.feedback == Feedback::tanh || inverses_.has(at.node) ||
      here.layer->weight_matrix() < 0 || (hop.distance == 0 && rule_.outputs_send_gradients))
    return false;
  const auto edge = [&](std::size_t i) -> const mesh::Edge& { return graph.edges()[here.sources[i]]; };
  for (std::size_t i = 0; i < here.sources.size(); ++i)
    if (hop.outbox[i] != kNoMessage && edge(i).offset % kernels::kPanelWidth != 0) return false;
  const kernels::ConstPanels feedback = feedback_.of(at.node, here.in, here.width);
  for (std::size_t i = 0; i < here.sources.size(); ++i)
    if (hop.outbox[i] != kNoMessage)
      at.context.stream.linear(
          {kernels::ConstPanels{feedback.data + edge(i).offset * here.width, edge(i).width, here.width},
           nullptr,
           residual,
           kernels::Activation::linear,
           {},
           messages_.at(hop.outbox[i], at.parity)});
  return true;
}

void BackwardStep::send(const LayerAt& at, const Hop& hop, std::uint64_t tick, MatrixView dx) noexcept {
  LearningScratch& scratch = at.scratch;
  kernels::OpStream& stream = at.context.stream;
  const mesh::Graph& graph = at.context.graph;
  const mesh::Node& here = graph.nodes()[at.node];
  if (here.reads_directly()) {
    stream.copy({dx, messages_.at(hop.outbox[0], at.parity)});
    return;
  }
  const auto source_of = [&](const mesh::Edge& edge) {
    if (records_.has(at.node, hop)) return records_.source(at.node, hop, tick, edge.position, unpacking(at));
    return ConstMatrixView(at.learner_rows(at.context.state.output(edge.from, tick - 1)));
  };
  const ConstMatrixView x = activation(at, hop, tick).x;
  for (std::size_t i = 0; i < here.sources.size(); ++i) {
    const mesh::Edge& edge = graph.edges()[here.sources[i]];
    if (hop.outbox[i] == kNoMessage) {
      // A maximum's gradient goes to the first source that holds it, whether or not that one listens.
      if (here.combine == mesh::Combine::max)
        stream.max_backward({source_of(edge), x, dx, at.rows(scratch.split, edge.width)});
      continue;
    }
    mesh::split_gradient(stream, graph, here, edge, source_of, x, dx, at.rows(scratch.target, edge.width),
                         messages_.at(hop.outbox[i], at.parity));
  }
}

}  // namespace weft::learning
