// SPDX-License-Identifier: Apache-2.0

#include "learning/learner.hpp"

#include "learning/internal/late_steps.hpp"
#include "learning/internal/learner_parts.hpp"
#include "learning/losses.hpp"
#include "learning/memory_estimate.hpp"
#include "learning/rules/rule.hpp"

#include "mesh/mesh_access.hpp"

#include "core/size_limit.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace weft::learning {

using mesh::MeshAccess;
using mesh::NodeId;

LearnerParts::LearnerParts(mesh::Mesh& of, const LearningOptions& given, LearningPlan made, Optimizer optimizer)
    : mesh(of),
      options(with_replayed_rows(given)),
      plan(std::move(made)),
      clock(options.schedule, plan.hold, plan.travel, plan.latency),
      rings(mesh.graph(), options, plan.ring),
      late(mesh.graph(), plan, options),
      records(mesh.graph(), plan, options),
      messages(plan, options.learners),
      feedback(mesh.graph(), options),
      inverses(mesh.graph(), options),
      sizes(mesh.graph()),
      updates(plan, std::move(optimizer)),
      backward(options, plan, feedback, inverses, rings, records, messages, updates.optimizer()),
      watches{DriftWatch(options.drift, mesh.spec().seed), AnomalyWatch(options.anomaly)},
      past{given, Reservoir(of, options), Consolidator(of, options, plan.hold), UnitRenewal(of, given),
           WeightSwap(of, given)},
      saved(std::make_unique<LearnerState>(*this)),
      recordable(std::make_unique<RecordedLearner>(*this)) {}

void LearnerParts::add_score(const Score& score) {
  pending_scores.push_back(score);
  watches.anomaly.add(pending_scores.back());
  watches.drift.add(score);
}

void LearnerParts::care_for_weights(std::uint64_t tick) {
  if (past.renewal.is_on()) past.renewal.after(mesh, updates.optimizer(), learned(), tick);
  if (options.plasticity.is_due(learned())) pull_weights(mesh, options.plasticity, learned());
}

Learner::Learner(std::unique_ptr<LearnerParts> parts) : parts_(std::move(parts)) {}

namespace {

/// The sample that enters beside stored ones, and what holds the weights after it.
Status begin_with_past(LearnerParts& p, std::span<const mesh::RunInput>& inputs, std::uint64_t& first) {
  const std::uint64_t sample = p.clock.now.block_first;
  if (p.past.reservoir.is_on()) {
    inputs = p.past.reservoir.mix(p.mesh, inputs, first, p.rings, sample);
    first = 0;
  }
  Consolidator& consolidator = p.past.consolidator;
  if (!consolidator.is_on()) return {};
  return consolidator.before(p.mesh, p.updates.optimizer(), sample, p.rings, sample, inputs, first);
}

void end_with_past(LearnerParts& p) {
  if (p.past.reservoir.is_on()) p.past.reservoir.offer(p.mesh, p.rings, p.clock.now.block_first);
  if (p.past.consolidator.is_on()) p.past.consolidator.after(p.mesh, p.updates.optimizer(), p.clock.now.samples);
}

/// Before anything is allocated.
Status check_memory(const mesh::Mesh& mesh, const LearningOptions& options) {
  const std::uint64_t most = mesh.options().max_memory;
  auto estimate = estimate_memory(mesh.graph(), options, mesh.sessions(), mesh::free_memory(most));
  const std::string object = "network '" + mesh.spec().name + "'";
  if (!estimate) return fail(std::move(estimate).error().within(object));
  Status fits = mesh::check_memory("learning on " + object, *estimate, most);
  if (fits || options.schedule != Schedule::pipelined) return fits;
  const bool is_direct = rule_of(options).path == ErrorPath::direct;
  return fail(fits.error().code(),
              fits.error().text() + "; a pipelined layer r links before an output keeps " +
                  (is_direct ? "r + 5" : "2 r + 4") + " ticks, so that a chain of n layers keeps about " +
                  (is_direct ? "n n / 2" : "n n") + " of a layer's values: give --schedule settle or learning.horizon");
}

/// Checks the mesh for `replay`.
Status check_past(const mesh::Mesh& mesh, const LearningOptions& given) {
  const std::size_t rows = given.learners + given.replay.rows();
  if (given.replay.is_on() && rows > mesh.sessions())
    return fail(Errc::invalid_argument, "learning.replay.samples: " + std::to_string(given.replay.samples) +
                                            " stored samples beside " + std::to_string(given.learners) +
                                            " learners take " + std::to_string(rows) + " sessions; the mesh has " +
                                            std::to_string(mesh.sessions()));
  return {};
}

}  // namespace

Result<std::unique_ptr<Learner>> Learner::build(mesh::Mesh& mesh, LearningOptions wanted) {
  WEFT_CHECK(check_options(wanted));
  const LearningOptions given = with_defaults(wanted);
  const LearningOptions options = with_replayed_rows(given);
  WEFT_CHECK(check_past(mesh, given));
  WEFT_CHECK(UnitRenewal::check(mesh, given));
  WEFT_CHECK(check_memory(mesh, given));
  WEFT_TRY(LearningPlan plan, LearningPlan::build(mesh.graph(), mesh.sessions(), options));
  WEFT_TRY(Optimizer optimizer, Optimizer::build(mesh.graph(), plan, MeshAccess::weights(mesh), options));
  const History history = plan.history;
  std::unique_ptr<Learner> learner(
      new Learner(std::make_unique<LearnerParts>(mesh, given, std::move(plan), std::move(optimizer))));
  WEFT_CHECK(MeshAccess::attach(mesh, learner.get(), history.depth, history.node_depths));
  LearnerParts& p = *learner->parts_;
  p.scratch = LearningScratch::make(mesh.graph(), p.plan, p.options, mesh.plan().regions.size());
  p.clock.now.start_tick = mesh.ticks();
  return learner;
}

Learner::~Learner() { MeshAccess::detach(parts_->mesh, this); }

namespace {

template <class Object>
Status check_weights(const Target& target, std::uint64_t rows, const Object& object) {
  if (target.weights.size() != rows)
    return fail(Errc::shape_mismatch, object() + std::to_string(target.weights.size()) + " weights where " +
                                          std::to_string(rows) + " are expected, one of each sample and learner");
  for (const float weight : target.weights)
    if (!std::isfinite(weight) || weight < 0.0f)
      return fail(std::isfinite(weight) ? Errc::out_of_range : Errc::not_finite,
                  object() + "weight " + std::to_string(weight) + "; weights are finite and not below 0");
  return {};
}

template <class Object>
Status check_signal(const Target& target, const LearningOptions& options, const Object& object) {
  const auto signals = target.signal ? std::span(&*target.signal, 1) : target.signals;
  if (!options.traces) {
    if (signals.empty()) return {};
    return fail(Errc::invalid_argument, object() + "a signal of traces, and learning.traces is false");
  }
  if (signals.empty() || target.gradient.empty())
    return fail(Errc::invalid_argument,
                object() + "learning.traces takes a gradient and a signal, of Learner::teach; give both");
  if (signals.size() != options.learners)
    return fail(Errc::shape_mismatch, object() + std::to_string(signals.size()) + " signals where " +
                                          std::to_string(options.learners) + " are expected, one of each learner");
  for (const TraceSignal& signal : signals) {
    if (!std::isfinite(signal.error))
      return fail(Errc::not_finite, object() + "signal.error is " + std::to_string(signal.error));
    if (!(signal.decay >= 0.0f && signal.decay <= 1.0f) || !(signal.bound >= 0.0f && std::isfinite(signal.bound)))
      return fail(Errc::out_of_range, object() + "signal.decay " + std::to_string(signal.decay) + ", signal.bound " +
                                          std::to_string(signal.bound) + "; decay is from 0 to 1, bound not below 0");
  }
  return {};
}

template <class Object>
Status check_gradient(const Target& target, const LearningOptions& options, std::size_t wanted, const Object& object) {
  if (!target.labels.empty() || !target.values.empty())
    return fail(Errc::invalid_argument, object() + "a gradient beside labels or values; give one of them");
  if (rule_of(options).takes_wanted_output || rule_of(options).path == ErrorPath::local)
    return fail(Errc::invalid_argument, object() + "a gradient, and learning.rule '" + std::string(name(options.rule)) +
                                            "' learns from what the output should say; give labels or values");
  if (target.gradient.size() != wanted)
    return fail(Errc::shape_mismatch, object() + "a gradient of " + std::to_string(target.gradient.size()) +
                                          " values where " + std::to_string(wanted) + " are expected");
  for (std::size_t i = 0; i < wanted; ++i)
    if (!std::isfinite(target.gradient[i]))
      return fail(Errc::not_finite,
                  object() + "gradient " + std::to_string(i) + " is " + std::to_string(target.gradient[i]));
  for (std::size_t i = 0; i < wanted && !target.weights.empty(); ++i) {
    const float weighted = target.gradient[i] * target.weights[i / (wanted / options.learners)];
    if (!std::isfinite(weighted))
      return fail(Errc::not_finite,
                  object() + "gradient " + std::to_string(i) + " times its weight is " + std::to_string(weighted));
  }
  return {};
}

}  // namespace

Status Learner::check(std::span<const mesh::RunInput> inputs, std::uint64_t samples) const {
  const mesh::Mesh& mesh = parts_->mesh;
  for (const mesh::RunInput& input : inputs) {
    const auto port = mesh.graph().find_port(input.port);
    if (!port) return fail(Errc::unknown_name, "no input is named '" + std::string(input.port) + "'");
    const std::uint64_t wanted =
        product_or_most(product_or_most(samples, input_rows(*this)), mesh.graph().nodes()[*port].width);
    if (input.values.size() != wanted)
      return fail(Errc::shape_mismatch, "input '" + std::string(input.port) +
                                            "': " + std::to_string(input.values.size()) + " values where " +
                                            std::to_string(wanted) + " are expected (samples x sessions x width)");
    WEFT_CHECK(mesh::check_values(mesh.graph().nodes()[*port], input.values));
  }
  for (const mesh::PortSpec& port : mesh.spec().inputs)
    if (samples > 0 && (parts_->past.reservoir.is_on() || parts_->past.swap.compares()) &&
        std::none_of(inputs.begin(), inputs.end(), [&](const mesh::RunInput& each) { return each.port == port.name; }))
      return fail(Errc::invalid_argument, "input '" + port.name + "': has no values; with learning." +
                                              (parts_->past.reservoir.is_on() ? "replay" : "drift.swap 'best'") +
                                              " each sample has all its inputs");
  return {};
}

Status Learner::check(std::span<const Target> targets, std::uint64_t samples, bool is_late) const {
  const mesh::Mesh& mesh = parts_->mesh;
  const LearningOptions& options = parts_->past.given;
  const std::uint64_t rows = product_or_most(samples, options.learners);
  for (const Target& target : targets) {
    const auto node = mesh.graph().find_output(target.output);
    if (!node) return fail(Errc::unknown_name, "no output is named '" + std::string(target.output) + "'");
    const mesh::Node& output = mesh.graph().nodes()[*node];
    const auto ring = std::find_if(parts_->rings.outputs().begin(), parts_->rings.outputs().end(),
                                   [&](const OutputRing& each) { return each.node == *node; });
    const std::vector<std::size_t>& starts = ring->starts;  // made once: learning allocates nothing
    const std::size_t width = output.width, tokens = starts.size() - 1;
    const auto object = [&] { return "target of '" + std::string(target.output) + "': "; };
    WEFT_CHECK(check_signal(target, options, object));
    if (!is_late && !target.weights.empty() && !options.weights)
      return fail(Errc::invalid_argument,
                  object() + "weights, and learning.weights is false; with it Learner::learn takes them too");
    if (!target.weights.empty()) WEFT_CHECK(check_weights(target, rows, object));
    if (is_late && !target.gradient.empty()) {
      WEFT_CHECK(check_gradient(target, options, options.learners * width, object));
      continue;
    }
    if (!is_late && !target.gradient.empty())
      return fail(Errc::invalid_argument, object() + "gradients go with Learner::teach");
    const bool takes_labels = targets_of(options.loss) != LossTargets::values;
    if (is_late && !target.labels.empty() && !target.values.empty())
      return fail(Errc::invalid_argument, object() + std::to_string(target.labels.size()) + " labels beside " +
                                              std::to_string(target.values.size()) + " values; give one of them");
    const std::uint64_t wanted = product_or_most(rows, takes_labels ? tokens : width);
    const std::size_t found = takes_labels ? target.labels.size() : target.values.size();
    const std::size_t others = takes_labels ? target.values.size() : target.labels.size();
    if (found == 0 && others > 0 && wanted > 0)
      return fail(Errc::shape_mismatch,
                  object() + std::to_string(others) + (takes_labels ? " values" : " labels (whole numbers)") +
                      " where " + std::to_string(wanted) + (takes_labels ? " labels (whole numbers)" : " values") +
                      " are expected, by learning.loss '" + std::string(name(options.loss)) + "'");
    if (found != wanted)
      return fail(Errc::shape_mismatch, object() + std::to_string(found) + (takes_labels ? " labels" : " values") +
                                            " where " + std::to_string(wanted) + " are expected");
    for (std::size_t i = 0; takes_labels && i < found; ++i) {
      const std::size_t part = i % tokens, classes = starts[part + 1] - starts[part];
      if (target.labels[i] != kNoLabel && target.labels[i] >= classes)
        return fail(Errc::out_of_range,
                    object() + "label " + std::to_string(target.labels[i]) + " of sample " +
                        std::to_string(i / (options.learners * tokens)) + " is not below the " +
                        (targets_of(options.loss) == LossTargets::head_labels ? "head's" : "output's") + " width " +
                        std::to_string(classes));
    }
    for (std::size_t i = 0; !takes_labels && i < found; ++i)
      if (!std::isfinite(target.values[i]))
        return fail(Errc::not_finite,
                    object() + "value " + std::to_string(i) + " is " + std::to_string(target.values[i]));
    for (std::size_t i = 0; range_of(options.loss) == kernels::TargetRange::probability && i < found; ++i)
      if (target.values[i] < 0.0f || target.values[i] > 1.0f)
        return fail(Errc::out_of_range, object() + "value " + std::to_string(i) + " is " +
                                            std::to_string(target.values[i]) + "; " + std::string(name(options.loss)) +
                                            " takes probabilities from 0 to 1");
  }
  return {};
}

Status Learner::learn(std::span<const mesh::RunInput> inputs, std::span<const Target> targets, std::uint64_t samples) {
  WEFT_CHECK(check(inputs, samples));
  WEFT_CHECK(check(targets, samples, false));
  LearnerParts& p = *parts_;
  SampleClock::Counters& now = p.clock.now;
  if (p.late.is_on()) p.late.follow(p.mesh);
  for (std::uint64_t done = 0; done < samples;) {
    if (p.late.has_entries()) WEFT_CHECK(make_room_for_errors());
    const bool goes_alone =
        p.late.awaits_answers() || p.late.next_entry().is_one || p.past.is_on() || p.past.renewal.is_on();
    const std::uint64_t most = goes_alone ? 1 : std::min({p.plan.chunk, samples - done, p.late.free_slots()});
    const std::uint64_t pulled = p.options.plasticity.room(p.learned(), most);
    const std::uint64_t count = p.past.swap.room(now.samples, pulled);
    p.rings.stage(p.mesh.graph(), targets, done, count, now.samples);
    now.block_first = now.samples;
    if (p.late.is_on()) p.late.enter_learned(now.samples, count);
    now.samples += count;
    std::span<const mesh::RunInput> rows = inputs;
    std::uint64_t first = done;
    if (p.past.is_on()) WEFT_CHECK(begin_with_past(p, rows, first));
    const Status ran = run(rows, first, count, count * p.clock.steps_per_sample());
    if (p.past.is_on() && now.samples > now.block_first) end_with_past(p);
    if (p.past.swap.compares())
      p.past.swap.after(p.mesh, inputs, done, now.samples - now.block_first, input_rows(*this), p.rings,
                        now.block_first, now.samples);
    if (p.late.is_on()) p.late.end_run(p.mesh.ticks(), now.block_first + count - now.samples);
    WEFT_CHECK(ran);
    done += count;
    p.care_for_weights(p.mesh.ticks());
  }
  return {};
}

Status Learner::drain() {
  LearnerParts& p = *parts_;
  if (!p.clock.is_pipelined()) return {};
  // The last sample's error has reached the farthest layer.
  const std::uint64_t steps = p.plan.latency + p.plan.depth;
  if (!p.late.is_on()) {
    WEFT_CHECK(run({}, 0, 0, steps));
  } else {
    // Tick by tick: answers leave, and errors that came late enter.
    p.late.follow(p.mesh);
    for (std::uint64_t done = 0; done < steps || p.late.next_entry().is_one; ++done) {
      WEFT_CHECK(make_room_for_errors());
      const Status ran = run({}, 0, 0, 1);
      p.late.end_run(p.mesh.ticks(), 0);
      WEFT_CHECK(ran);
    }
  }
  p.clock.now.start_tick = p.mesh.ticks() - p.clock.now.samples;
  // The clock counts the last samples anew, beside outputs that answer none of them.
  p.rings.forget();
  p.late.begin_at(p.clock.now.samples);
  return {};
}

Status Learner::run(std::span<const mesh::RunInput> inputs, std::uint64_t first, std::uint64_t samples,
                    std::uint64_t steps) {
  LearnerParts& p = *parts_;
  SampleClock::Counters& now = p.clock.now;
  // Access to the weights brings all of them here from a device.
  if (p.updates.must_follow(MeshAccess::weight_changes(p.mesh))) p.updates.follow(MeshAccess::weights(p.mesh));
  for (const mesh::RunInput& input : inputs) {
    const NodeId port = *p.mesh.graph().find_port(input.port);
    const std::size_t row = p.mesh.sessions() * p.mesh.graph().nodes()[port].width;
    MeshAccess::feed(p.mesh, port,
                     {input.values.data() + first * row, samples, p.clock.is_pipelined() ? 1 : p.plan.hold});
  }
  std::uint64_t done = 0;
  const Status ran = run_steps(steps, done);
  // After a halt, samples that were not finished are forgotten; the caller may give them again.
  if (!ran && now.samples > now.block_first)
    now.samples = std::min(now.samples, now.block_first + done / p.clock.steps_per_sample());
  collect_scores();
  for (const mesh::RunInput& input : inputs) MeshAccess::feed(p.mesh, *p.mesh.graph().find_port(input.port), {});
  if (p.late.is_on()) take_answers(p);
  return ran;
}

Status Learner::run_steps(std::uint64_t steps, std::uint64_t& done) {
  LearnerParts& p = *parts_;
  if (p.late.has_entries()) plan_errors(p, steps);
  p.updates.begin_run();
  Status ran = MeshAccess::run_steps(p.mesh, steps, done);
  p.clock.now.steps += done;
  p.late.plan(0);
  if (done > 0) p.late.next_entry() = {};
  return ran;
}

void Learner::collect_scores() {
  LearnerParts& p = *parts_;
  SampleClock::Counters& now = p.clock.now;
  std::uint64_t end = now.samples;
  if (p.clock.is_pipelined()) {
    const std::uint64_t first = now.start_tick + p.plan.latency;
    end = std::clamp<std::uint64_t>(p.mesh.ticks() > first ? p.mesh.ticks() - first : 0, now.scored, now.samples);
  }
  for (; now.scored < end; ++now.scored) {
    const std::optional<Ticket> ticket = p.late.is_on() ? p.late.ticket_of(now.scored) : now.scored;
    for (const OutputRing& output : p.rings.outputs())
      // Stored samples are behind the new ones.
      for (std::size_t i = 0; ticket && i < p.past.given.learners * output.tokens; ++i) {
        Score score = p.rings.score(output, now.scored, i);
        score.sample = *ticket;
        p.add_score(score);
      }
  }
}

std::size_t kept_ticks(const Learner& learner) noexcept {
  const LearnerParts& p = *learner.parts_;
  // A sample's first firing reads the present tick, and errors of distance r what was published r ticks before its
  // last: r is below `deepest`. Targets that come late meet what is older, and traces hold nothing back.
  const bool is_own =
      !p.clock.is_pipelined() && p.plan.deepest <= p.plan.hold && p.options.late == Late::none && !p.options.traces;
  return is_own ? 1 : 0;
}

std::span<const Score> Learner::scores() const noexcept { return parts_->pending_scores; }
void Learner::clear_scores() noexcept {
  parts_->pending_scores.clear();
  parts_->watches.drift.clear_events();
  parts_->watches.anomaly.clear_events();
  parts_->late.clear_expired();
}

const DriftWatch& drift_of(const Learner& learner) noexcept { return learner.parts_->watches.drift; }
DriftWatch& drift_of(Learner& learner) noexcept { return const_cast<DriftWatch&>(drift_of(std::as_const(learner))); }

Status change_weights(Learner& learner, const DriftReaction& reaction) {
  LearnerParts& p = *learner.parts_;
  Optimizer& optimizer = learner.optimizer();
  if (reaction.swaps) WEFT_CHECK(p.past.swap.swap(p.mesh, optimizer, p.rings, p.plan.hold));
  if (reaction.renews) p.past.renewal.renew_share(p.mesh, optimizer);
  return {};
}

WeightChanges weight_changes(const Learner& learner) noexcept {
  const PastParts& past = learner.parts_->past;
  return {past.swap.swaps(), past.renewal.renewed()};
}

const AnomalyWatch& anomaly_of(const Learner& learner) noexcept { return learner.parts_->watches.anomaly; }

std::span<const std::uint64_t> stored_samples(const Learner& learner) noexcept {
  return learner.parts_->past.reservoir.numbers();
}
std::uint64_t stored_sample_bytes(const Learner& learner) noexcept {
  return Reservoir::bytes_for(learner.mesh().graph(), learner.options());
}
std::size_t input_rows(const Learner& learner) noexcept {
  return learner.mesh().sessions() - learner.options().replay.rows();
}

std::uint64_t Learner::samples() const noexcept { return parts_->clock.now.samples; }
std::uint64_t Learner::scored() const noexcept { return parts_->clock.now.scored; }
std::uint32_t Learner::hold() const noexcept { return parts_->plan.hold; }

Status Learner::predict(std::span<const mesh::RunInput> inputs, std::size_t rows,
                        std::span<const mesh::RunOutput> outputs, std::optional<std::size_t> session) const {
  return MeshAccess::evaluate_copies(parts_->mesh, session, inputs, rows, hold(), outputs);
}

// A few rows at a time take the shortest way; where sessions make a difference they go one by one.
Status predict_sessions(const Learner& learner, std::span<const mesh::RunInput> inputs,
                        std::span<const std::size_t> sessions, std::span<const mesh::RunOutput> outputs) {
  const std::size_t rows = sessions.size();
  const std::size_t most = MeshAccess::rows_of_one_session(learner.mesh(), inputs.size(), learner.hold());
  const auto part = [&](auto values, std::size_t first, std::size_t count) {
    const std::size_t width = values.size() / rows;
    return values.subspan(first * width, count * width);
  };
  for (std::size_t first = 0; first < rows; first += most) {
    const std::size_t count = std::min(most, rows - first);
    std::vector<mesh::RunInput> own_inputs;
    for (const mesh::RunInput& each : inputs) own_inputs.push_back({each.port, part(each.values, first, count)});
    std::vector<mesh::RunOutput> own_outputs;
    for (const mesh::RunOutput& each : outputs) own_outputs.push_back({each.output, part(each.values, first, count)});
    WEFT_CHECK(learner.predict(own_inputs, count, own_outputs, sessions[first]));
  }
  return {};
}

std::uint32_t Learner::latency() const noexcept { return parts_->plan.latency; }
const LearningOptions& Learner::options() const noexcept { return parts_->past.given; }
std::vector<NodeId> states_without_errors(const Learner& learner) {
  const mesh::Graph& graph = learner.parts_->mesh.graph();
  std::vector<NodeId> nodes;
  for (NodeId node = static_cast<NodeId>(graph.port_count()); node < learner.parts_->plan.layers.size(); ++node) {
    const std::vector<Hop>& hops = learner.parts_->plan.layers[node].hops;
    if (hops.empty() || graph.nodes()[node].layer->state_errors() == mesh::StateErrors::none) continue;
    if (std::none_of(hops.begin(), hops.end(), [](const Hop& hop) { return hop.state_out != kNoMessage; }))
      nodes.push_back(node);
  }
  return nodes;
}

std::vector<NodeId> layers_without_errors(const Learner& learner) {
  const mesh::Graph& graph = learner.parts_->mesh.graph();
  std::vector<NodeId> nodes;
  for (NodeId node = static_cast<NodeId>(graph.port_count()); node < learner.parts_->plan.layers.size(); ++node) {
    const mesh::Node& layer = graph.nodes()[node];
    const bool has_weights = !layer.layer->parameters().empty() && !layer.is_frozen;
    if (learner.options().horizon != 0 && has_weights && learner.parts_->plan.layers[node].hops.empty())
      nodes.push_back(node);
  }
  return nodes;
}

std::vector<NodeId> inverse_nodes(const Learner& learner) {
  std::vector<NodeId> nodes;
  for (NodeId node = 0; node < learner.parts_->plan.layers.size(); ++node)
    if (learner.parts_->inverses.has(node)) nodes.push_back(node);
  return nodes;
}

mesh::Mesh& Learner::mesh() noexcept { return parts_->mesh; }
const mesh::Mesh& Learner::mesh() const noexcept { return parts_->mesh; }
mesh::RuleState* Learner::saved() noexcept { return parts_->saved.get(); }
mesh::RecordableRule* Learner::recordable() noexcept { return parts_->recordable.get(); }
std::uint64_t Learner::ticks_per_sample() const noexcept {
  return parts_->clock.is_pipelined() ? 1 : parts_->plan.hold;
}

// Access to the mesh's state brings that of the rule up to a device too; mutable access counts as a write.
Optimizer& Learner::optimizer() noexcept {
  MeshAccess::sync(parts_->mesh, true);
  return parts_->updates.optimizer();
}

const Optimizer& Learner::optimizer() const noexcept {
  MeshAccess::sync(parts_->mesh, false);
  return parts_->updates.optimizer();
}

}  // namespace weft::learning
