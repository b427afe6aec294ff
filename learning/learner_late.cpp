// SPDX-License-Identifier: Apache-2.0

// Samples of which the targets come later: observe, answer, teach, forgo.

#include "learning/internal/late_steps.hpp"
#include "learning/internal/learner_parts.hpp"
#include "learning/learner.hpp"

#include "mesh/mesh_access.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weft::learning {

using Fate = LateSample::Fate;
using mesh::MeshAccess;
using mesh::NodeId;

namespace {

/// Rows of every learner, as rings hold them, of what came for one sample.
void keep_target(const mesh::Graph& graph, const SampleRings& rings, std::span<const Target> targets,
                 std::size_t learners, std::vector<TargetRow>& rows) {
  rows.resize(rings.outputs().size());
  for (std::size_t o = 0; o < rows.size(); ++o) {
    const OutputRing& output = rings.outputs()[o];
    TargetRow& row = rows[o];
    const auto target = std::find_if(targets.begin(), targets.end(),
                                     [&](const Target& t) { return graph.find_output(t.output) == output.node; });
    row.values.clear();
    if (target == targets.end()) {
      row.labels.assign(rings.places(output), kNoLabel);
    } else if (!target->gradient.empty()) {
      row.labels.assign(rings.places(output), kGradient);
      row.values.assign(target->gradient.begin(), target->gradient.end());
    } else if (target->labels.empty()) {
      row.labels.assign(rings.places(output), 0);
      row.values.assign(target->values.begin(), target->values.end());
    } else {
      row.labels.assign(target->labels.begin(), target->labels.end());
    }
    if (target == targets.end() || target->weights.empty())
      row.weights.assign(learners, 1.0f);
    else
      row.weights.assign(target->weights.begin(), target->weights.end());
  }
}

/// The ports' values of all sessions, as they are now: those given, and of the others those that stay.
void keep_input(const mesh::Mesh& mesh, std::span<const mesh::RunInput> inputs, std::vector<float>& x) {
  float* to = x.data();
  for (NodeId port = 0; port < mesh.graph().port_count(); ++port) {
    const auto given = std::find_if(inputs.begin(), inputs.end(), [&](const mesh::RunInput& input) {
      return mesh.graph().find_port(input.port) == port;
    });
    if (given != inputs.end()) {
      to = std::copy(given->values.begin(), given->values.end(), to);
      continue;
    }
    const kernels::MatrixView held = MeshAccess::state(mesh).output(port, mesh.ticks());
    for (std::size_t session = 0; session < mesh.sessions(); ++session)
      to = std::copy_n(held.row(session), held.cols, to);
  }
}

}  // namespace

bool teaches(std::span<const Target> targets, std::size_t learners) noexcept {
  const auto is_first = [&](const Target& target) {
    return &target == &*std::find_if(targets.begin(), targets.end(),
                                     [&](const Target& each) { return each.output == target.output; });
  };
  for (const Target& target : targets) {
    if (!is_first(target)) continue;  // of one output the first counts
    const auto is_heavy = [&](std::size_t learner) {
      return target.weights.empty() || (learner < target.weights.size() && target.weights[learner] > 0.0f);
    };
    const bool has_labels = !target.labels.empty() && target.gradient.empty();
    const std::size_t parts = std::max<std::size_t>(target.labels.size() / std::max<std::size_t>(learners, 1), 1);
    for (std::size_t i = 0; i < target.labels.size() && has_labels; ++i)
      if (target.labels[i] != kNoLabel && is_heavy(i / parts)) return true;
    for (std::size_t i = 0; i < learners && !has_labels && !(target.values.empty() && target.gradient.empty()); ++i)
      if (is_heavy(i)) return true;
  }
  return false;
}

Result<Ticket> Learner::observe(std::span<const mesh::RunInput> inputs) {
  LearnerParts& p = *parts_;
  WEFT_CHECK(p.late.check_on());
  WEFT_CHECK(check(inputs, 1));
  SampleClock::Counters& now = p.clock.now;
  p.late.follow(p.mesh);
  if (p.late.has_entries()) WEFT_CHECK(make_room_for_errors());
  const std::uint64_t position = now.samples;
  p.rings.stage(p.mesh.graph(), {}, 0, 1, position);
  const std::uint64_t ticks = p.clock.is_pipelined() ? p.plan.latency : p.plan.hold;
  LateSample& sample = p.late.enter(position, p.mesh.ticks() + ticks);
  const Ticket ticket = sample.ticket;
  now.block_first = position;
  ++now.samples;
  Status ran = run(inputs, 0, 1, p.clock.is_pipelined() ? 1 : p.plan.hold);
  p.late.end_run(p.mesh.ticks(), position + 1 - now.samples);
  if (!ran) {
    // Nobody has its ticket.
    if (LateSample& cut = p.late.at(ticket); cut.fate == Fate::open) p.late.close(cut, Fate::forgone);
    return fail(std::move(ran).error());
  }
  if (p.options.late == Late::again) keep_input(p.mesh, inputs, p.late.at(ticket).x);
  return ticket;
}

Result<std::span<const float>> Learner::answer(Ticket ticket, std::string_view output) const {
  const LearnerParts& p = *parts_;
  const auto node = p.mesh.graph().find_output(output);
  if (!node) return fail(Errc::unknown_name, "no output is named '" + std::string(output) + "'");
  WEFT_TRY(const LateSample* const sample, p.late.find(ticket, true));
  if (!sample->has_answer)
    return fail(Errc::not_found, "sample " + std::to_string(ticket) + ": its answer leaves at tick " +
                                     std::to_string(sample->end_tick) + "; now is tick " +
                                     std::to_string(p.mesh.ticks()));
  std::size_t widths = 0, width = 0;  // of the outputs before it, and of all
  for (const OutputRing& each : p.rings.outputs()) {
    if (each.node == *node) widths = width;
    width += each.width;
  }
  const std::size_t sessions = sample->y.size() / width;
  return std::span<const float>(sample->y).subspan(widths * sessions, p.mesh.graph().nodes()[*node].width * sessions);
}

Status Learner::teach(Ticket ticket, std::span<const Target> targets) {
  LearnerParts& p = *parts_;
  WEFT_CHECK(p.late.check_on());
  WEFT_TRY([[maybe_unused]] const LateSample* const found, p.late.find(ticket));
  WEFT_CHECK(p.late.check_sessions(p.mesh));
  WEFT_CHECK(check(targets, 1, true));
  LateSample& sample = p.late.at(ticket);
  keep_target(p.mesh.graph(), p.rings, targets, p.options.learners, sample.target);
  sample.has_target = true;
  if (sample.has_answer) {
    score_late(p, sample);
    p.late.close(sample, Fate::taught);
  }
  const bool is_learned = teaches(targets, p.options.learners);
  if (p.options.late == Late::again) return is_learned ? learn_again(sample) : Status();
  if (is_learned) p.rings.put(sample.position, sample.target);
  if (is_learned && p.options.traces) p.rings.put_signals(p.mesh.graph(), targets, sample.position);
  if (!p.clock.is_pipelined()) {
    if (is_learned) WEFT_CHECK(teach_settled(sample));
    p.care_for_weights(sample.end_tick);
    return {};
  }
  if (!is_learned) return {};
  if (p.mesh.ticks() <= sample.end_tick) return {};
  // One error enters a step; the one that waits goes first, in a step without a tick.
  if (p.late.next_entry().is_one) WEFT_CHECK(let_errors_move());
  p.late.next_entry() = LateSamples::Entry{sample.position, sample.end_tick, true};
  return {};
}

Status Learner::forgo(Ticket ticket) {
  LearnerParts& p = *parts_;
  WEFT_CHECK(p.late.check_on());
  WEFT_TRY([[maybe_unused]] const LateSample* const found, p.late.find(ticket));
  WEFT_CHECK(p.late.check_sessions(p.mesh));
  p.late.close(p.late.at(ticket), Fate::forgone);
  return {};
}

LateCounts Learner::late_counts() const noexcept { return parts_->late.counts(); }
Ticket Learner::next_ticket() const noexcept { return parts_->late.entered(); }
void number_from(Learner& learner, Ticket next) noexcept { number_from(learner.parts_->late, next); }
std::span<const Ticket> Learner::expired() const noexcept { return parts_->late.expired(); }

/// The steps of a settled sample after its ticks, at the activations of then.
Status Learner::teach_settled(const LateSample& sample) {
  LearnerParts& p = *parts_;
  p.clock.now.block_first = sample.position;
  p.clock.first_phase = p.plan.hold;
  p.clock.late_end = sample.end_tick;
  std::uint64_t done = 0;
  Status ran = run_steps(p.plan.travel, done);
  p.clock.first_phase = 0;
  p.clock.late_end = SampleClock::kNow;
  return ran;
}

Status Learner::learn_again(const LateSample& sample) {
  LearnerParts& p = *parts_;
  SampleClock::Counters& now = p.clock.now;
  std::vector<mesh::RunInput> inputs;
  std::size_t at = 0;
  for (std::size_t port = 0; port < p.mesh.graph().port_count(); ++port) {
    const std::size_t floats = p.mesh.graph().nodes()[port].width * p.mesh.sessions();
    inputs.push_back({p.mesh.spec().inputs[port].name, std::span(sample.x).subspan(at, floats)});
    at += floats;
  }
  p.rings.put(now.samples, sample.target);
  p.late.show_again(now.samples);
  now.block_first = now.samples;
  ++now.samples;
  Status ran = run(inputs, 0, 1, p.clock.steps_per_sample());
  p.late.end_run(p.mesh.ticks(), 0);
  return ran;
}

/// A step in which errors move one link and no tick passes.
Status Learner::let_errors_move() {
  LearnerParts& p = *parts_;
  p.clock.stands = 1;
  std::uint64_t done = 0;
  Status ran = run_steps(1, done);
  p.clock.stands = 0;
  return ran;
}

/// Lets a late error enter before the next tick where the next tick's own sample has an error too.
Status Learner::make_room_for_errors() {
  LearnerParts& p = *parts_;
  if (!p.late.next_entry().is_one || !labelled_at(p, p.mesh.ticks())) return {};
  return let_errors_move();
}

}  // namespace weft::learning
