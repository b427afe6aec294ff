// SPDX-License-Identifier: Apache-2.0

// Steps of a run as a learner's: which are ticks, and which samples a layer learns from in them.

#include "learning/internal/learner_parts.hpp"
#include "learning/learner.hpp"
#include "learning/rules/rule.hpp"

#include <algorithm>

namespace weft::learning {

using mesh::NodeId;

namespace {

/// Signals of the output by whose error the layer's traces move; null: it has no target of this sample, or there are
/// no traces.
const float* signals_of(const LearnerParts& parts, NodeId node, std::uint64_t sample) noexcept {
  const std::int32_t output = parts.plan.layers[node].traced_for;
  return output < 0 ? nullptr : parts.rings.signals(static_cast<std::size_t>(output), sample);
}

/// Learning of one layer in one step: an update of the errors that reach the layer in it, or the part of a settled
/// sample's update that is in this step.
class LayerUpdate {
 public:
  LayerUpdate(LearnerParts& parts, LayerAt at) : parts_(parts), at_(at) {
    if (!at.context.cpu || parts.sizes.is_measured(at.node)) return;
    if (parts.plan.layers[at.node].is_outer) at_.product = &product_;
    at_.keeps_products = parts.plan.layers[at.node].keeps_products;
  }
  LayerUpdate(const LayerUpdate&) = delete;
  LayerUpdate& operator=(const LayerUpdate&) = delete;

  void begin() noexcept {
    if (at_.product)
      parts_.updates.begin_product(at_.node);
    else
      parts_.updates.begin(at_.context, at_.node, at_.keeps_products);
    is_begun_ = at_.is_first = true;
  }
  bool is_begun() const noexcept { return is_begun_; }
  void take(const Hop& hop, std::uint64_t activation_tick, std::uint64_t sample) noexcept {
    const BackwardStep::Outcome outcome = parts_.backward.run(at_, hop, activation_tick, sample);
    if (outcome == BackwardStep::Outcome::failed) parts_.updates.fail(at_.node);
    is_used_ |= outcome == BackwardStep::Outcome::used;
    at_.is_first = false;
    sample_ = sample;
  }
  /// Of an output's error: its answer is scored, and nothing is learned from it.
  void score(const Hop& hop, std::uint64_t activation_tick, std::uint64_t sample) noexcept {
    parts_.backward.score(at_, hop, activation_tick, sample);
  }
  void end() noexcept {
    if (!at_.product)
      parts_.updates.end(at_.context, at_.node, is_used_, at_.parity, parts_.sizes,
                         signals_of(parts_, at_.node, sample_));
    else if (is_used_)
      parts_.updates.end_product(at_.context, at_.node, product_);
  }

 private:
  LearnerParts& parts_;
  LayerAt at_;
  kernels::OuterProduct product_;
  std::uint64_t sample_ = 0;
  bool is_begun_ = false, is_used_ = false;
};

/// True where an error of a labelled sample will be paired with this firing.
bool trains(const LearnerParts& p, NodeId node, std::uint64_t step, std::uint64_t tick) noexcept {
  const std::vector<Hop>& hops = p.plan.layers[node].hops;
  if (!p.clock.is_pipelined())
    return !hops.empty() && !p.late.is_observed(p.clock.sample_of(step)) && p.rings.teaches(p.clock.sample_of(step));
  // The output committed at tick + 1 is paired with the errors of the outputs `back` ticks later.
  for (const Hop& hop : hops) {
    const Meeting meeting = p.plan.meeting(rule_of(p.options).path, node, hop, false);
    // Errors of later samples, through states and loops: these have not entered, and may not have been given.
    if (meeting.back + 1 > static_cast<std::int64_t>(p.plan.latency)) break;
    const std::int64_t sample = p.clock.sample_at(tick + 1 + static_cast<std::uint64_t>(meeting.back));
    if (sample != SampleClock::kNoSample && !p.late.is_observed(static_cast<std::uint64_t>(sample)) &&
        p.rings.teaches(static_cast<std::uint64_t>(sample)))
      return true;
    // Further hops of target rules would look at samples that may not have been given yet.
    if (rule_of(p.options).path == ErrorPath::displacements) break;
  }
  return false;
}

/// True where this firing reads a sample that no firing before it did.
bool reads_sample(const LearnerParts& p, NodeId node, std::uint64_t step, std::uint64_t tick) noexcept {
  const LayerPlan& layer = p.plan.layers[node];
  if (!p.clock.is_pipelined())
    return p.clock.phase(step) == layer.settled && !p.late.is_shown_again(p.clock.sample_of(step));
  const std::uint64_t ahead = p.plan.latency - std::min(layer.arrival, p.plan.latency);
  const std::int64_t sample = p.clock.sample_at(tick + 1 + ahead);
  return sample != SampleClock::kNoSample && !p.late.is_shown_again(static_cast<std::uint64_t>(sample));
}

}  // namespace

bool Learner::fires(std::uint64_t step) const noexcept { return parts_->clock.fires(step); }
std::uint64_t Learner::fired_before(std::uint64_t step) const noexcept { return parts_->clock.fired_before(step); }

bool Learner::keeps_value(NodeId node, std::uint64_t step) const noexcept {
  const LearnerParts& p = *parts_;
  if (p.plan.windows.empty()) return false;
  const std::uint64_t phase = p.clock.phase(step);
  return phase < p.plan.windows[node].first || phase > p.plan.windows[node].last;
}

std::vector<std::pair<NodeId, NodeId>> Learner::extra_links() const {
  const LearnerParts& p = *parts_;
  std::vector<std::pair<NodeId, NodeId>> links;
  if (p.plan.moves_together)
    for (NodeId id = 0; id < p.plan.layers.size(); ++id)
      if (p.plan.layers[id].moves && id != p.plan.adder()) {
        links.emplace_back(id, p.plan.adder());
        links.emplace_back(p.plan.adder(), id);
      }
  if (rule_of(p.options).path != ErrorPath::direct) return links;
  // The outputs' errors go straight to every layer.
  for (const OutputRing& output : p.rings.outputs())
    for (NodeId id = static_cast<NodeId>(p.mesh.graph().port_count()); id < p.plan.layers.size(); ++id)
      if (id != output.node && !p.plan.layers[id].hops.empty()) links.emplace_back(output.node, id);
  return links;
}

mesh::FiringRows Learner::firing_rows(NodeId node, std::uint64_t step, std::uint64_t tick) const noexcept {
  const std::size_t learners = parts_->options.learners;
  return {trains(*parts_, node, step, tick) ? learners : 0, reads_sample(*parts_, node, step, tick) ? learners : 0};
}

float Learner::gradient_size(NodeId node, std::uint64_t step) const noexcept {
  return parts_->sizes.last(node, parts_->clock.parity(step));
}

/// The steps of a settled sample after its errors have reached all layers: norms are added, then all layers move.
void Learner::move_together(mesh::StepContext& context, NodeId node) noexcept {
  LearnerParts& p = *parts_;
  const std::uint64_t phase = p.clock.phase(context.step);
  if (phase < p.plan.norm_step()) return;
  const std::uint64_t sample = p.clock.sample_of(context.step);
  if (!p.rings.teaches(sample)) return;
  if (phase == p.plan.norm_step() && node == p.plan.adder()) {
    EligibilityTraces& traces = p.updates.optimizer().traces();
    if (!traces.is_on()) p.updates.add_norms(context);
    for (std::size_t output = 0; traces.is_on() && output < p.rings.outputs().size(); ++output)
      traces.find_rates(context.stream, output, p.rings.signals(output, sample));
  }
  if (phase == p.plan.move_step() && p.clock.end_tick(context.tick) >= p.plan.layers[node].reach + 1)
    p.updates.move_together(context, node, signals_of(p, node, sample));
}

void Learner::learn(mesh::StepContext& context, NodeId node) noexcept {
  LearnerParts& p = *parts_;
  const LayerPlan& layer = p.plan.layers[node];
  if (p.plan.moves_together) move_together(context, node);
  if (layer.hops.empty()) return;
  if (p.plan.history.ticks_of(node) != 0) p.records.keep_tick(context, node);
  const std::uint64_t step = context.step, tick = context.tick, parity = p.clock.parity(step);
  p.sizes.carry(node, parity);
  const ErrorPath path = rule_of(p.options).path;
  LayerUpdate update(p, {context, node, parity, p.scratch[context.region], p.options.learners});

  if (!p.clock.is_pipelined()) {
    const std::uint64_t sample = p.clock.sample_of(step), phase = p.clock.phase(step), end = p.clock.end_tick(tick);
    if (p.clock.fires(step)) {
      const std::uint64_t left = p.plan.hold - phase;
      if (!p.records.empty() && p.records.is_due(node, left) && p.rings.is_labelled(sample))
        p.records.keep(context, node, left);
      return;
    }
    if (phase == p.plan.hold && !p.records.empty() && p.records.is_due(node, 0) && p.rings.is_labelled(sample))
      p.records.keep(context, node, 0);
    // In a mesh's first ticks the deepest hops would read from before tick 0.
    if (!p.rings.is_labelled(sample)) return;
    if (end < layer.reach + 1 || !p.rings.teaches(sample)) {
      if (layer.output >= 0 && phase == p.plan.hold) update.score(layer.hops.front(), end, sample);
      return;
    }
    for (const Hop& hop : layer.hops) {
      const Meeting meeting = p.plan.meeting(path, node, hop, true);
      if (p.plan.hold + static_cast<std::uint64_t>(meeting.age) != phase) continue;
      // Gradients of all hops of a sample add up; the weights move once, after the last.
      if (&hop == &layer.hops.front()) update.begin();
      update.take(hop, end - static_cast<std::uint64_t>(meeting.back), sample);
      if (&hop == &layer.hops.back()) update.end();
    }
    return;
  }

  for (const Hop& hop : layer.hops) {
    // The error left the outputs `age` ticks ago and is about what they published then.
    const Meeting meeting = p.plan.meeting(path, node, hop, false);
    if (p.late.has_entries()) {
      const auto age = static_cast<std::uint64_t>(meeting.age), back = static_cast<std::uint64_t>(meeting.back);
      const LateSamples::Entry& entry = p.late.entry(p.clock.now.steps + step - age);
      if (!entry.is_one || entry.end_tick < back + 1) continue;
      if (!p.rings.teaches(entry.position)) {
        if (layer.output >= 0 && hop.distance == 0) update.score(hop, entry.end_tick - back, entry.position);
        continue;
      }
      if (!update.is_begun()) update.begin();
      update.take(hop, entry.end_tick - back, entry.position);
      continue;
    }
    const auto past = static_cast<std::uint64_t>(meeting.age + meeting.back);
    if (tick < past + 1) continue;
    const std::int64_t sample = p.clock.sample_at(tick - static_cast<std::uint64_t>(meeting.age));
    if (sample == SampleClock::kNoSample || !p.rings.is_labelled(static_cast<std::uint64_t>(sample))) continue;
    if (!p.rings.teaches(static_cast<std::uint64_t>(sample))) {
      if (layer.output >= 0 && hop.distance == 0) update.score(hop, tick - past, static_cast<std::uint64_t>(sample));
      continue;
    }
    if (!update.is_begun()) update.begin();
    update.take(hop, tick - past, static_cast<std::uint64_t>(sample));
  }
  if (!update.is_begun() && !layer.groups.empty()) update.begin();
  if (update.is_begun()) update.end();
}

}  // namespace weft::learning
