// SPDX-License-Identifier: Apache-2.0

// What a layer does in one learning step. Runs inside ticks: allocates nothing, takes no lock, reads of other layers
// only what they wrote in earlier steps. Equations: docs/learning.md.

#include "learning/learner.hpp"

#include "mesh/network/source_combine.hpp"

#include <algorithm>
#include <cmath>
#include <exception>

namespace weft::learning {

using kernels::ConstRows;
using kernels::Rows;
using mesh::NodeId;

Rows Learner::scratch_rows(AlignedBuffer<float>& buffer, std::size_t width) const noexcept {
  return {buffer.data(), options_.learners, width, (width + 15) / 16 * 16};
}

Rows Learner::box(std::uint32_t index, std::uint64_t parity) const noexcept {
  const Box& place = box_table_[index];
  return {const_cast<float*>(boxes_.data()) + parity * box_half_ + place.offset, options_.learners, place.width,
          place.stride};
}

std::int64_t Learner::sample_at(std::uint64_t output_tick) const noexcept {
  const std::uint64_t first = birth_tick_ + latency_;
  if (output_tick < first || output_tick - first >= samples_) return kNoSample;
  return static_cast<std::int64_t>(output_tick - first);
}

bool Learner::is_labelled(std::uint64_t sample) const noexcept {
  for (const OutputPlan& output : outputs_) {
    const std::size_t places = options_.learners * output.tokens;
    const std::uint32_t* const labels = output.labels.data() + (sample & ring_mask_) * places;
    if (std::any_of(labels, labels + places, [](std::uint32_t label) { return label != kNoLabel; })) return true;
  }
  return false;
}

std::size_t Learner::training_rows(NodeId node, std::uint64_t step, std::uint64_t tick) const noexcept {
  const std::vector<Wave>& waves = layers_[node].waves;
  if (options_.schedule == Schedule::settle)
    return !waves.empty() && is_labelled(block_first_ + step / steps_per_sample()) ? options_.learners : 0;
  // What is committed at tick + 1 is paired with the errors of the outputs `distance` ticks later.
  for (const Wave& wave : waves) {
    const std::int64_t sample = sample_at(tick + 1 + wave.distance);
    if (sample != kNoSample && is_labelled(static_cast<std::uint64_t>(sample))) return options_.learners;
  }
  return 0;
}

void Learner::learn(std::size_t region, NodeId node, std::uint64_t step, std::uint64_t tick) noexcept {
  const LayerPlan& plan = layers_[node];
  if (plan.waves.empty()) return;
  const std::uint64_t parity = (steps_ + step) & 1;
  scratch_[region].parity = parity;
  if (is_measured_[node]) gradient_sizes_[node][parity] = gradient_sizes_[node][parity ^ 1];
  const bool is_direct = options_.rule == Rule::dfa;

  if (options_.schedule == Schedule::settle) {
    const std::uint64_t phase = step % steps_per_sample();
    if (phase < hold_) return;
    const std::uint64_t sample = block_first_ + step / steps_per_sample();
    // In a mesh's first ticks the deepest waves would reach behind its birth.
    if (!is_labelled(sample) || tick < plan.reach + 1) return;
    for (const Wave& wave : plan.waves) {
      const std::uint64_t when = is_direct ? std::min(wave.distance, 1u) : wave.distance;
      if (hold_ + when != phase) continue;
      // Gradients of all waves of a sample add up; the weights move once, after the last.
      if (&wave == &plan.waves.front()) begin_update(region, node);
      const bool is_used = attempt(region, node, wave, tick - wave.distance, sample, tick);
      if (&wave == &plan.waves.back()) end_update(region, node, is_used, tick);
    }
    return;
  }

  bool is_cleared = false, is_used = false;
  for (const Wave& wave : plan.waves) {
    // The error left the outputs `age` ticks ago and speaks of what they published then.
    const std::uint64_t age = is_direct ? std::min(wave.distance, 1u) : wave.distance;
    if (tick < age + wave.distance + 1) continue;
    const std::int64_t sample = sample_at(tick - age);
    if (sample == kNoSample || !is_labelled(static_cast<std::uint64_t>(sample))) continue;
    if (!is_cleared) begin_update(region, node);
    is_cleared = true;
    is_used |= attempt(region, node, wave, tick - age - wave.distance, static_cast<std::uint64_t>(sample), tick);
  }
  if (!is_cleared && !plan.sharings.empty()) begin_update(region, node);
  if (is_cleared || !plan.sharings.empty()) end_update(region, node, is_used, tick);
}

float Learner::gradient_size(NodeId node, std::uint64_t step) const noexcept {
  return gradient_sizes_[node][((steps_ + step) & 1) ^ 1];
}

// Lanes that pad a panel hold 0 and add nothing to the sum; `stored` counts the values themselves.
void Learner::measure_gradient(std::size_t region, NodeId node) noexcept {
  kernels::OpStream& stream = mesh_.engine().stream(region);
  double squares = 0, stored = 0;
  for (const mesh::WeightStore::Parameter& parameter : mesh_.weights().of(node)) {
    const mesh::ParameterSpec& spec = *parameter.spec;
    const ConstRows all{optimizer_.gradient(mesh_.weights().first(node) + parameter.index), 1, spec.stored_size(),
                        spec.stored_size()};
    stream.row_dots({all, all, &gradient_squares_[node]});
    squares += static_cast<double>(gradient_squares_[node]);
    stored += static_cast<double>(spec.out) * static_cast<double>(std::max<std::size_t>(spec.in, 1));
  }
  const auto size = static_cast<float>(std::sqrt(squares / stored));
  // What is not finite is a fault of its own, and no storm.
  if (std::isfinite(size)) gradient_sizes_[node][scratch_[region].parity] = size;
}

void Learner::begin_update(std::size_t region, NodeId node) noexcept {
  kernels::OpStream& stream = mesh_.engine().stream(region);
  has_failed_[node] = 0;
  bool is_owner = false;
  for (const std::uint32_t s : layers_[node].sharings) {
    Sharing& sharing = sharings_[s];
    is_owner |= sharing.owner == node;
    if (sharing.pending == 0) {
      optimizer_.clear_gradients(stream, mesh_.weights(), sharing.owner);
      sharing.pending = static_cast<std::uint32_t>(sharing.users.size());
      sharing.is_used = sharing.has_failed = false;
    }
  }
  if (!is_owner) optimizer_.clear_gradients(stream, mesh_.weights(), node);
}

void Learner::end_update(std::size_t region, NodeId node, bool is_used, std::uint64_t tick) noexcept {
  // A fault in one wave drops the whole update.
  is_used = is_used && !has_failed_[node];
  bool is_owner = false;
  for (const std::uint32_t s : layers_[node].sharings) {
    Sharing& sharing = sharings_[s];
    is_owner |= sharing.owner == node;
    sharing.is_used |= is_used;
    sharing.has_failed |= has_failed_[node] != 0;
    if (--sharing.pending == 0 && sharing.is_used && !sharing.has_failed) move_weights(region, sharing.owner, tick);
  }
  if (!is_owner && is_used) move_weights(region, node, tick);
}

void Learner::move_weights(std::size_t region, NodeId node, std::uint64_t tick) noexcept {
  // Isolated is a cell as a whole: what it computes and what it is.
  if (!mesh_.weights().learns(node) || mesh_.engine().is_isolated(node)) return;
  if (is_measured_[node]) measure_gradient(region, node);
  mesh_.engine().begin_move(node);
  const bool is_moved = optimizer_.step(mesh_.engine().stream(region), mesh_.weights(), node);
  mesh_.engine().end_move(node);
  if (!is_moved) mesh_.engine().report_fault(node, tick, actors::FaultKind::update_not_finite);
}

bool Learner::attempt(std::size_t region, NodeId node, const Wave& wave, std::uint64_t activation_tick,
                      std::uint64_t sample, std::uint64_t tick) noexcept {
  try {
    const bool is_used = process(region, node, wave, activation_tick, sample);
    if (are_messages_finite(region, node, wave)) return is_used;
    mesh_.engine().report_fault(node, tick, actors::FaultKind::update_not_finite);
  } catch (const std::exception& error) {
    mesh_.engine().report_fault(node, tick, actors::FaultKind::threw, error.what());
  } catch (...) {
    mesh_.engine().report_fault(node, tick, actors::FaultKind::threw);
  }
  drop_wave(region, node, wave);
  return false;
}

bool Learner::are_messages_finite(std::size_t region, NodeId node, const Wave& wave) noexcept {
  const Scratch& scratch = scratch_[region];
  kernels::OpStream& stream = mesh_.engine().stream(region);
  const auto is_finite = [&](std::uint32_t index) {
    return index == kNoBox || stream.is_finite({box(index, scratch.parity)});
  };
  if (wave.distance == 0 && options_.rule == Rule::dfa &&
      !is_finite(error_boxes_[static_cast<std::size_t>(layers_[node].output)]))
    return false;
  return is_finite(wave.state_out) && std::all_of(wave.outbox.begin(), wave.outbox.end(), is_finite);
}

// Who reads a message of zeros learns nothing from it. What the wave added to the gradients may be half of it, also to
// those that are shared: end_update looks.
void Learner::drop_wave(std::size_t region, NodeId node, const Wave& wave) noexcept {
  kernels::OpStream& stream = mesh_.engine().stream(region);
  const auto drop = [&](std::uint32_t index) {
    if (index != kNoBox) stream.fill({0.0f, box(index, scratch_[region].parity)});
  };
  if (wave.distance == 0 && options_.rule == Rule::dfa)
    drop(error_boxes_[static_cast<std::size_t>(layers_[node].output)]);
  drop(wave.state_out);
  for (const std::uint32_t index : wave.outbox) drop(index);
  has_failed_[node] = 1;
}

bool Learner::process(std::size_t region, NodeId node, const Wave& wave, std::uint64_t tick, std::uint64_t sample) {
  Scratch& scratch = scratch_[region];
  kernels::OpStream& stream = mesh_.engine().stream(region);
  const bool is_output = wave.distance == 0;
  // What one reader alone has written is read where it lies, and nobody wants it after this step.
  const bool is_in_place = !is_output && options_.rule == Rule::backprop && wave.inbox.size() == 1;
  const Rows delta = is_in_place ? box(wave.inbox[0], scratch.parity ^ 1)
                                 : scratch_rows(scratch.delta, mesh_.graph().nodes()[node].width);
  if (is_output) {
    output_gradient(region, node, tick, sample, delta);
    if (options_.rule == Rule::dfa)
      stream.copy({delta, box(error_boxes_[static_cast<std::size_t>(layers_[node].output)], scratch.parity)});
    if (options_.rule == Rule::gap)
      output_target(region, node, tick, sample, delta);
    else if (options_.rule != Rule::backprop)
      stream.scale({-options_.output_step, delta, delta});
  } else if (options_.rule == Rule::dfa) {
    gather_direct(region, node, delta);
  } else if (!is_in_place) {
    gather(region, node, wave, delta);
  }
  return options_.rule == Rule::backprop ? process_gradient(region, node, wave, tick, delta)
                                         : process_target(region, node, wave, tick, delta);
}

void Learner::output_gradient(std::size_t region, NodeId node, std::uint64_t tick, std::uint64_t sample,
                              Rows gradient) noexcept {
  OutputPlan& output = outputs_[static_cast<std::size_t>(layers_[node].output)];
  const Rows y = learner_rows(mesh_.state().output(node, tick));
  const std::size_t n = options_.learners, tokens = output.tokens, slot = sample & ring_mask_;
  const std::size_t first = slot * n * tokens;
  if (tokens == 1) {
    const float* values = output.values.empty() ? nullptr : output.values.data() + slot * n * output.width;
    return score_rows(region, y, output, first, {values, n, output.width, output.width}, gradient);
  }
  kernels::OpStream& stream = mesh_.engine().stream(region);
  const std::size_t classes = output.width / tokens;
  for (std::size_t b = 0; b < n; ++b) {
    const std::size_t place = first + b * tokens;
    const Rows of_tokens{gradient.row(b), tokens, classes, classes};
    score_rows(region, {y.row(b), tokens, classes, classes}, output, place, {}, of_tokens);
    // The mean over the tokens that have labels.
    const std::uint32_t* const labels = output.labels.data() + place;
    const auto labelled = tokens - static_cast<std::size_t>(std::count(labels, labels + tokens, kNoLabel));
    if (labelled > 1) stream.scale({1.0f / static_cast<float>(labelled), of_tokens, of_tokens});
  }
}

void Learner::score_rows(std::size_t region, const Rows& y, OutputPlan& output, std::size_t place,
                         const ConstRows& values, const Rows& gradient) noexcept {
  kernels::OpStream& stream = mesh_.engine().stream(region);
  float* const losses = output.losses.data() + place;
  if (options_.loss == Loss::cross_entropy)
    stream.cross_entropy({y, output.classes.data() + place, losses, gradient});
  else
    stream.mean_squared_error({y, values, losses, gradient});
  stream.row_argmax({y, output.predictions.data() + place});
  for (std::size_t i = 0; i < y.rows; ++i)
    if (output.labels[place + i] == kNoLabel) stream.fill({0.0f, {gradient.row(i), 1, gradient.cols, gradient.stride}});
}

void Learner::output_target(std::size_t region, NodeId node, std::uint64_t tick, std::uint64_t sample,
                            Rows displacement) noexcept {
  kernels::OpStream& stream = mesh_.engine().stream(region);
  const OutputPlan& output = outputs_[static_cast<std::size_t>(layers_[node].output)];
  const Rows y = learner_rows(mesh_.state().output(node, tick));
  const std::size_t n = options_.learners, tokens = output.tokens, classes = output.width / tokens;
  const std::size_t slot = (sample & ring_mask_) * n;
  // Labels go as values: which place they mean is found where the row is filled.
  for (std::size_t i = 0; i < n * tokens; ++i) {
    const std::size_t b = i / tokens, first = i % tokens * classes, place = slot * tokens + i;
    const Rows row{displacement.row(b) + first, 1, classes, displacement.stride};
    if (output.labels[place] == kNoLabel) {
      stream.fill({0.0f, row});
      continue;
    }
    if (options_.loss == Loss::cross_entropy)
      stream.one_hot({output.classes.data() + place, options_.output_step, row});
    else
      stream.scale(
          {options_.output_step, {output.values.data() + (slot + b) * output.width, 1, row.cols, row.cols}, row});
    stream.binary({kernels::BinaryOp::sub, row, {y.row(b) + first, 1, classes, y.stride}, row});
  }
}

void Learner::gather(std::size_t region, NodeId node, const Wave& wave, Rows sum) noexcept {
  kernels::OpStream& stream = mesh_.engine().stream(region);
  const std::uint64_t written = scratch_[region].parity ^ 1;
  if (wave.inbox.empty()) {
    // Only its own hidden state speaks to it.
    stream.fill({0.0f, sum});
    return;
  }
  stream.copy({box(wave.inbox[0], written), sum});
  for (std::size_t i = 1; i < wave.inbox.size(); ++i)
    stream.binary({kernels::BinaryOp::add, sum, box(wave.inbox[i], written), sum});
  // Gradients add up; of several targets a layer takes the mean.
  if (options_.rule != Rule::backprop && wave.inbox.size() > 1)
    stream.scale({1.0f / static_cast<float>(wave.inbox.size()), sum, sum});
}

void Learner::gather_direct(std::size_t region, NodeId node, Rows sum) noexcept {
  Scratch& scratch = scratch_[region];
  kernels::OpStream& stream = mesh_.engine().stream(region);
  std::size_t place = layers_[node].feedback;
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    const ConstRows error = box(error_boxes_[o], scratch.parity ^ 1);
    const kernels::ConstPanels feedback{feedback_.data() + place, sum.cols, error.cols};
    const Rows part = o == 0 ? sum : scratch_rows(scratch.work, sum.cols);
    stream.linear({feedback, nullptr, error, kernels::Activation::linear, {}, part});
    if (o > 0) stream.binary({kernels::BinaryOp::add, sum, part, sum});
    place += kernels::panels_size(sum.cols, error.cols);
  }
  stream.scale({-options_.output_step, sum, sum});
}

mesh::BackwardArgs Learner::past(std::size_t region, NodeId node, std::uint64_t tick) noexcept {
  const mesh::State& state = mesh_.state();
  mesh::BackwardArgs args;
  args.weights = mesh_.weights().backward_view(node);
  args.x = mesh_.engine().input_at(node, tick);
  args.x.rows = options_.learners;
  args.y = learner_rows(state.output(node, tick));
  args.z = learner_rows(state.preactivation(node, tick));
  args.cache = learner_rows(state.cache(node, tick));
  args.state = learner_rows(state.hidden(node, tick - 1));
  args.workspace = mesh_.engine().workspace(region);
  args.scratch = scratch_rows(scratch_[region].own, mesh_.graph().nodes()[node].layer->scratch_size());
  return args;
}

bool Learner::process_gradient(std::size_t region, NodeId node, const Wave& wave, std::uint64_t tick, Rows delta) {
  Scratch& scratch = scratch_[region];
  kernels::OpStream& stream = mesh_.engine().stream(region);
  if (wave.distance == 0 && options_.learners > 1)
    stream.scale({1.0f / static_cast<float>(options_.learners), delta, delta});
  mesh::BackwardArgs args = past(region, node, tick);
  args.dy = delta;
  const bool learns = mesh_.weights().learns(node);
  if (learns) args.gradients = optimizer_.gradients(node);
  const bool sends_directly = wave.sends && mesh_.graph().nodes()[node].reads_directly();
  if (sends_directly)
    args.dx = box(wave.outbox[0], scratch.parity);
  else if (wave.sends)
    args.dx = scratch_rows(scratch.dx, mesh_.graph().nodes()[node].in);
  if (wave.state_in != kNoBox) args.dnext_state = box(wave.state_in, scratch.parity ^ 1);
  if (wave.state_out != kNoBox) args.dstate = box(wave.state_out, scratch.parity);
  mesh_.engine().backward(region, node, args);
  if (wave.sends && !sends_directly) send(region, node, wave, tick, args.dx);
  return learns;
}

bool Learner::process_target(std::size_t region, NodeId node, const Wave& wave, std::uint64_t tick, Rows displacement) {
  Scratch& scratch = scratch_[region];
  kernels::OpStream& stream = mesh_.engine().stream(region);
  const mesh::Node& here = mesh_.graph().nodes()[node];
  if (wave.sends) {
    const Rows dx = scratch_rows(scratch.dx, here.in);
    propagate_target(region, node, tick, displacement, dx);
    send(region, node, wave, tick, dx);
  }
  if (here.layer->parameters().empty() && here.owners.empty()) return false;
  if (!mesh_.weights().learns(node)) return false;

  mesh::BackwardArgs args = past(region, node, tick);
  const Rows target = scratch_rows(scratch.target, here.width);
  stream.binary({kernels::BinaryOp::add, args.y, displacement, target});
  stream.link_budget({args.y, target, scratch.factors.data()});
  const float* factors = scratch.factors.data();
  if (!mesh_.engine().any_nonzero(node, {factors, options_.learners})) return false;
  // Moving towards the target is descending against the displacement.
  args.dy = scratch_rows(scratch.work, here.width);
  stream.scale_rows({factors, displacement, args.dy});
  stream.scale({-1.0f / static_cast<float>(options_.learners), args.dy, args.dy});
  args.gradients = optimizer_.gradients(node);
  mesh_.engine().backward(region, node, args);
  return true;
}

void Learner::propagate_target(std::size_t region, NodeId node, std::uint64_t tick, Rows displacement, Rows dx) {
  Scratch& scratch = scratch_[region];
  kernels::OpStream& stream = mesh_.engine().stream(region);
  const mesh::Node& here = mesh_.graph().nodes()[node];
  mesh::BackwardArgs args = past(region, node, tick);
  const int mixing = here.layer->mixing_matrix();
  if (options_.rule == Rule::fw_dtp && mixing >= 0) {
    stream.linear({kernels::ConstPanels{feedback_.data() + layers_[node].feedback, here.in, here.width},
                   nullptr,
                   displacement,
                   kernels::Activation::linear,
                   {},
                   dx});
  } else if (options_.rule == Rule::gap && mixing >= 0) {
    const kernels::ConstWeight& weight = args.weights.matrix(static_cast<std::size_t>(mixing));
    const Rows target = scratch_rows(scratch.target, here.width), weighted = scratch_rows(scratch.split, here.in);
    stream.binary({kernels::BinaryOp::add, args.y, displacement, target});
    stream.linear_transposed({weight, target, weighted});
    stream.absolute_column_sums({weight, scratch.factors.data()});
    stream.gap_displacement({weighted, scratch.factors.data(), args.x, dx});
  } else {
    // The vector-Jacobian product is odd in its argument, so no sign needs turning twice.
    args.dy = scratch_rows(scratch.work, here.width);
    stream.copy({displacement, args.dy});
    args.dx = dx;
    mesh_.engine().backward(region, node, args);
    if (options_.rule == Rule::chain) stream.scale({0.1f, dx, dx});
  }
}

void Learner::send(std::size_t region, NodeId node, const Wave& wave, std::uint64_t tick, Rows dx) noexcept {
  Scratch& scratch = scratch_[region];
  kernels::OpStream& stream = mesh_.engine().stream(region);
  const mesh::Graph& graph = mesh_.graph();
  const mesh::Node& here = graph.nodes()[node];
  if (here.reads_directly()) {
    stream.copy({dx, box(wave.outbox[0], scratch.parity)});
    return;
  }
  const auto source_of = [&](const mesh::Edge& edge) {
    return ConstRows(learner_rows(mesh_.state().output(edge.from, tick - 1)));
  };
  ConstRows x = mesh_.engine().input_at(node, tick);
  x.rows = options_.learners;
  for (std::size_t i = 0; i < here.sources.size(); ++i) {
    const mesh::Edge& edge = graph.edges()[here.sources[i]];
    if (wave.outbox[i] == kNoBox) {
      // A maximum's gradient goes to the first source that holds it, whether or not that one listens.
      if (here.combine == mesh::Combine::max)
        stream.route_equal({source_of(edge), x, dx, scratch_rows(scratch.split, edge.width)});
      continue;
    }
    mesh::split_gradient(stream, graph, here, edge, source_of, x, dx, scratch_rows(scratch.target, edge.width),
                         box(wave.outbox[i], scratch.parity));
  }
}

}  // namespace weft::learning
