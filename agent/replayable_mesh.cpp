// SPDX-License-Identifier: Apache-2.0

#include "agent/replayable_mesh.hpp"

#include "learning/learner_snapshot.hpp"
#include "learning/options.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/mesh_load.hpp"
#include "mesh/persistence/session_file.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/weights/weight_store.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace weft::agent {
namespace {

/// A tensor of each file with a learner's state.
constexpr const char* kLearnerTensor = "learning/in_flight";

Status restore_loop(EnvironmentLoop* loop, const formats::EntityFile& file) {
  if (!loop) return {};
  WEFT_TRY(const auto state, file.values<std::byte>(kLoopTensor));
  return loop->load(state);
}

/// A call halts the mesh exactly when it did in the recorded run, or when it does in a changed one.
Status as_told(Status status, bool halted, bool is_changed) {
  if (!status && status.error().code() != Errc::halted) return status;
  if (!status == halted) return {};
  if (is_changed) return status;
  if (halted) return fail(Errc::corrupt, "a fault halted the mesh here, and now none does");
  return fail(Errc::corrupt, "no fault halted the mesh here, and now one does: " + status.error().text());
}

/// Leaves out, and counts, what comes too late for a sample of a changed run.
Status unless_expired(Status status, bool is_changed, std::uint64_t& left_out) {
  if (status || !is_changed || status.error().code() != Errc::timed_out) return status;
  ++left_out;
  return {};
}

Failure no_learner_for(std::string_view what) {
  return fail(Errc::corrupt, std::string(what) + ": this mesh has no learner; the network has no section \"learning\"");
}

/// Each environment is a session; without the section there is one.
Result<std::size_t> environments_of(const mesh::NetworkSpec& spec) {
  if (spec.reinforcement.empty()) return std::size_t{1};
  WEFT_TRY(const auto options, read_reinforcement(spec.reinforcement));
  return std::size_t{options.environments};
}

/// The section "learning" of a network; one that acts in several environments has a learner of each.
Result<learning::LearningOptions> learning_of(const mesh::NetworkSpec& spec) {
  WEFT_TRY(learning::LearningOptions learning, learning::read_learning(spec.learning));
  WEFT_TRY(const std::size_t environments, environments_of(spec));
  if (learning.learners != 1 && learning.learners != environments && !spec.reinforcement.empty())
    return fail(Errc::invalid_argument, "learning.learners: " + std::to_string(learning.learners) +
                                            " beside reinforcement.environments " + std::to_string(environments) +
                                            ", each of which has one; leave it away");
  if (environments > 1) learning.learners = environments;
  return learning;
}

}  // namespace

Result<ReplayableMesh> ReplayableMesh::begin(const mesh::NetworkSpec& spec, bool learns, mesh::MeshOptions options) {
  ReplayableMesh replayable;
  if (learns && !spec.reinforcement.empty()) {
    WEFT_TRY(const std::size_t environments, environments_of(spec));
    if (options.sessions != 1 && options.sessions != environments)
      return fail(Errc::unsupported, "reinforcement.environments: " + std::to_string(environments) +
                                         ", and the mesh has " + std::to_string(options.sessions) +
                                         " sessions; each environment is one");
    options.sessions = environments;
  }
  WEFT_TRY(auto mesh, mesh::Mesh::build(spec, std::move(options)));
  replayable.mesh_ = std::make_unique<mesh::Mesh>(std::move(mesh));
  if (learns) WEFT_CHECK(replayable.begin_learning(spec));
  return replayable;
}

Status ReplayableMesh::begin_learning(const mesh::NetworkSpec& spec) {
  WEFT_TRY(const auto learning, learning_of(spec));
  WEFT_TRY(learner_, learning::Learner::build(*mesh_, learning));
  if (spec.reinforcement.empty()) {
    if (learning.drift.is_on() && learning::is_of_acting(learning.drift.input))
      return fail(Errc::invalid_argument, "learning.drift.input: '" + std::string(name(learning.drift.input)) +
                                              "' is of an agent that acts, and the network has no section "
                                              "\"reinforcement\"; give 'error' or 'loss'");
    return {};
  }
  WEFT_TRY(const auto reinforcement, read_reinforcement(spec.reinforcement));
  WEFT_TRY(loop_, EnvironmentLoop::build(*learner_, reinforcement));
  return {};
}

Result<ReplayableMesh> ReplayableMesh::restore(const formats::EntityFile& file, const mesh::NetworkSpec& spec,
                                               mesh::MeshOptions options) {
  options.sessions = mesh::sessions_of(file);
  const bool learns = file.contains(kLearnerTensor);
  WEFT_TRY(ReplayableMesh replayable, begin(spec, learns, std::move(options)));
  WEFT_CHECK(mesh::restore_weights(*replayable.mesh_, file));
  WEFT_CHECK(mesh::restore_live(*replayable.mesh_, file));
  if (learns) WEFT_CHECK(learning::restore_learner(*replayable.learner_, file));
  WEFT_CHECK(restore_loop(replayable.loop_.get(), file));
  return replayable;
}

Result<ReplayableMesh> ReplayableMesh::restore_changed(const formats::EntityFile& file, const mesh::NetworkSpec& was,
                                                       const mesh::NetworkSpec& spec, const mesh::MeshOptions& given,
                                                       std::vector<std::string>& anew) {
  if (!file.contains(kLearnerTensor)) {
    WEFT_TRY(ReplayableMesh other, restore(file, spec, given));
    other.is_changed_ = true;
    return other;
  }
  mesh::MeshOptions options = given;
  options.sessions = mesh::sessions_of(file);
  learning::LearnerBefore before;
  WEFT_TRY(before.options, learning_of(was));
  WEFT_TRY(const learning::LearningOptions now, learning_of(spec));
  if (learning::keeps_meaning(before.options, now)) {
    WEFT_TRY(ReplayableMesh same, begin(spec, true, options));
    WEFT_CHECK(mesh::restore_weights(*same.mesh_, file));
    if (mesh::restore_live(*same.mesh_, file) && learning::restore_learner(*same.learner_, file)) {
      // Changes at which nothing was to be done are over.
      if (!before.options.drift.has_reactions()) learning::drift_of(*same.learner_).forgo();
      WEFT_CHECK(restore_loop(same.loop_.get(), file));
      same.is_changed_ = true;
      return same;
    }
  }
  if (before.options.late != learning::Late::none) {
    WEFT_TRY(ReplayableMesh unchanged, restore(file, was, given));
    before.next_ticket = unchanged.learner_->next_ticket();
    before.open = unchanged.learner_->late_counts().open();
  }
  WEFT_TRY(ReplayableMesh changed, begin(spec, false, options));
  WEFT_CHECK(mesh::load_state(*changed.mesh_, file));
  WEFT_CHECK(changed.begin_learning(spec));
  WEFT_TRY(anew, learning::take_over(*changed.learner_, before, file));
  WEFT_CHECK(restore_loop(changed.loop_.get(), file));
  changed.is_changed_ = true;
  return changed;
}

Result<ReplayableMesh> ReplayableMesh::copy(mesh::MeshOptions options) {
  mesh::CheckpointExtras extras;
  learning::LearnerSnapshot rule;
  if (learner_) {
    rule.take(*learner_);
    extras.tensors = rule.tensors();
    extras.kept_ticks = rule.kept_ticks();
  }
  const std::vector<std::byte> loop = loop_ ? loop_->save() : std::vector<std::byte>();
  if (!loop.empty()) extras.tensors.push_back({kLoopTensor, "bytes", Shape{loop.size()}, ByteSpan(loop)});
  WEFT_TRY(const ByteBuffer bytes, mesh::encode_mesh(*mesh_, true, extras));
  WEFT_TRY(const formats::EntityFile file, formats::decode_entity(bytes, "copy of a mesh"));
  WEFT_TRY(const mesh::NetworkSpec spec, mesh::network_of(file));
  WEFT_TRY(ReplayableMesh made, restore(file, spec, std::move(options)));
  made.compares_ = compares_;
  made.is_changed_ = is_changed_;
  made.left_out_ = left_out_;
  if (loop_) made.loop_->connect(loop_->source());
  return made;
}

void ReplayableMesh::swap(ReplayableMesh& other) noexcept {
  std::swap(mesh_, other.mesh_);
  std::swap(learner_, other.learner_);
  std::swap(loop_, other.loop_);
  std::swap(compares_, other.compares_);
  std::swap(is_changed_, other.is_changed_);
  std::swap(left_out_, other.left_out_);
}

Hash128 fold_sessions(std::size_t sessions, const std::function<Hash128(std::size_t)>& hash_of) {
  if (sessions == 1) return hash_of(0);
  StateHasher hasher;
  for (std::size_t session = 0; session < sessions; ++session) hasher.add(hash_of(session));
  return hasher.digest();
}

Hash128 with_loop(Hash128 mesh, ByteSpan loop) {
  if (loop.empty()) return mesh;
  StateHasher hasher;
  hasher.add(mesh);
  hasher.add(loop);
  return hasher.digest();
}

Hash128 ReplayableMesh::hash() const {
  const Hash128 mesh =
      fold_sessions(mesh_->sessions(), [&](std::size_t session) { return mesh_->state_hash(session); });
  return loop_ ? with_loop(mesh, loop_->save()) : mesh;
}

void ReplayableMesh::quiesce() {
  mesh::MeshAccess::deliver_commands(*mesh_);
  mesh::MeshAccess::take_cell_snapshots(*mesh_);
}

Status ReplayableMesh::apply(const Record& record) {
  return std::visit(
      [&](const auto& one) -> Status {
        if constexpr (std::is_same_v<decltype(one), const AnnotationRecord&>)
          return {};
        else
          return apply_one(one);
      },
      record);
}

Status ReplayableMesh::learn(const LearnRecord& record, std::uint64_t first, std::uint64_t count) {
  if (!learner_) return no_learner_for("learn");
  const auto part = [&](const auto& values) {
    const std::size_t one = record.samples ? values.size() / record.samples : 0;
    return std::span(values).subspan(first * one, count * one);
  };
  std::vector<mesh::RunInput> inputs;
  for (const LearnRecord::Port& port : record.inputs) inputs.push_back({port.name, part(port.values)});
  std::vector<learning::Target> targets;
  for (const LearnRecord::Output& target : record.targets)
    targets.push_back({.output = target.name,
                       .labels = part(target.labels),
                       .values = part(target.values),
                       .weights = part(target.weights)});
  return learner_->learn(inputs, targets, count);
}

Status ReplayableMesh::apply_one(const InputRecord& record) {
  return mesh_->set_input(record.port, record.values, record.session);
}

Status ReplayableMesh::apply_one(const TicksRecord& record) {
  return as_told(mesh_->tick(record.ticks), record.halted, is_changed_);
}

Status ReplayableMesh::apply_one(const LearnRecord& record) {
  return as_told(learn(record, 0, record.samples), record.halted, is_changed_);
}

Status ReplayableMesh::apply_one(const DrainRecord& record) {
  if (!learner_) return no_learner_for("drain");
  return as_told(learner_->drain(), record.halted, is_changed_);
}

Status ReplayableMesh::apply_one(const ObserveRecord& record) {
  if (!learner_) return no_learner_for("observe");
  std::vector<mesh::RunInput> inputs;
  for (const LearnRecord::Port& port : record.inputs) inputs.push_back({port.name, port.values});
  const auto ticket = learner_->observe(inputs);
  return as_told(ticket ? Status() : Status(fail(ticket.error())), record.halted, is_changed_);
}

Status ReplayableMesh::apply_one(const TeachRecord& record) {
  if (!learner_) return no_learner_for("teach");
  return unless_expired(as_told(learner_->teach(record.ticket, record.views()), record.halted, is_changed_),
                        is_changed_, left_out_);
}

Status ReplayableMesh::apply_one(const ForgoRecord& record) {
  if (!learner_) return no_learner_for("forgo");
  return unless_expired(learner_->forgo(record.ticket), is_changed_, left_out_);
}

Status ReplayableMesh::apply_one(const ActRecord& record) {
  if (!loop_)
    return fail(Errc::corrupt, "act: this mesh has no environment; the network has no section \"reinforcement\"");
  return as_told(compares_ ? loop_->run(record.steps) : act(record.steps), record.halted, is_changed_);
}

Status ReplayableMesh::apply_one(const ActExternalRecord& record) {
  if (!loop_ || !loop_->is_external())
    return fail(Errc::corrupt, "act_external: this mesh has no external environment in its section \"reinforcement\"");
  if (compares_ || record.halted)
    return as_told(loop_->run_recorded(record.steps, record.answers, is_changed_), record.halted, is_changed_);
  for (std::uint64_t done = 0, part; done < record.steps; done += part) {
    part = steps_to_look(record.steps - done);
    WEFT_CHECK(loop_->run_recorded(part, record.of(done, part), is_changed_));
    WEFT_CHECK(react());
  }
  return {};
}

Status ReplayableMesh::apply_one(const ReactRecord&) { return compares_ ? react() : Status(); }

Status ReplayableMesh::act(std::uint64_t steps) {
  do {
    const std::uint64_t part = steps_to_look(steps);
    WEFT_CHECK(loop_->run(part));
    WEFT_CHECK(react());
    steps -= part;
  } while (steps > 0);
  return {};
}

std::uint64_t ReplayableMesh::steps_to_look(std::uint64_t most) const noexcept {
  const learning::DriftOptions& drift = learner_->options().drift;
  return drift.has_reactions() ? std::min(most, drift.react_every - loop_->steps() % drift.react_every) : most;
}

learning::DriftReaction ReplayableMesh::due() const {
  if (!learner_) return {};
  const std::uint64_t samples = loop_ ? loop_->steps() : learner_->samples();
  if (samples % learner_->options().drift.react_every != 0) return {};
  return learning::drift_of(*learner_).due();
}

bool allows_reaction(RecordKind kind) noexcept {
  return kind == RecordKind::learn || kind == RecordKind::teach || kind == RecordKind::observe ||
         kind == RecordKind::drain || kind == RecordKind::act || kind == RecordKind::act_external;
}

bool allows_reaction(const Record& record) noexcept {
  const auto has_ended = [](const auto* each) { return each && !each->halted; };
  return has_ended(std::get_if<LearnRecord>(&record)) || has_ended(std::get_if<TeachRecord>(&record)) ||
         has_ended(std::get_if<ObserveRecord>(&record)) || has_ended(std::get_if<DrainRecord>(&record)) ||
         has_ended(std::get_if<ActRecord>(&record)) || has_ended(std::get_if<ActExternalRecord>(&record));
}

Status ReplayableMesh::react() {
  const learning::DriftReaction reaction = due();
  if (!reaction.is_due()) return {};
  constexpr float kMostScale = 1e6f;
  const mesh::LayerRates& rates = mesh::MeshAccess::weights(std::as_const(*mesh_)).rates;
  const auto& nodes = mesh_->graph().nodes();
  for (mesh::NodeId node = static_cast<mesh::NodeId>(mesh_->graph().port_count());
       node < nodes.size() && reaction.rate_factor != 1.0f; ++node) {
    if (nodes[node].layer->parameters().empty() || nodes[node].is_frozen) continue;
    auto command = mesh::make_command(mesh::CommandKind::set_rate);
    command->level = nodes[node].at.l;
    command->values = {std::min(rates.of(node) * reaction.rate_factor, kMostScale)};
    WEFT_TRY([[maybe_unused]] const auto sent, mesh_->post(nodes[node].at, std::move(command)));
  }
  mesh::MeshAccess::deliver_commands(*mesh_);
  WEFT_CHECK(learning::change_weights(*learner_, reaction));
  learning::drift_of(*learner_).reacted();
  return {};
}

Status ReplayableMesh::apply_one(const DeliverRecord&) {
  mesh::MeshAccess::deliver_commands(*mesh_);
  return {};
}

Status ReplayableMesh::apply_one(const CommandRecord& record) {
  // A record is applied once, so the message may be sent as it is.
  WEFT_TRY([[maybe_unused]] const auto sent, mesh_->post(record.cell, record.control));
  return {};
}

Status ReplayableMesh::apply_one(const MessageRecord& record) {
  // As above.
  WEFT_TRY([[maybe_unused]] const std::uint64_t stamp, mesh_->tell(record.to, record.mail));
  return {};
}

Status ReplayableMesh::apply_one(const AddSessionRecord&) {
  WEFT_TRY([[maybe_unused]] const std::size_t session, mesh_->add_session());
  return {};
}

Status ReplayableMesh::apply_one(const RemoveSessionRecord& record) { return mesh_->remove_session(record.session); }

Status ReplayableMesh::apply_one(const ResetSessionRecord& record) { return mesh_->reset_session(record.session); }

Status ReplayableMesh::apply_one(const AttachSessionRecord& record) {
  WEFT_TRY(const auto file, formats::decode_entity(record.file, "session"));
  const bool allows_others = record.allow_other_weights || is_changed_;
  WEFT_TRY([[maybe_unused]] const std::size_t session, mesh::attach_session(*mesh_, file, allows_others));
  return {};
}

Status ReplayableMesh::apply_one(const ResumeRecord&) {
  mesh_->resume();
  return {};
}

Status ReplayableMesh::apply_one(const MarkerRecord& record) { return compare(record.tick, record.hash); }

Status ReplayableMesh::apply_one(const CheckpointRecord& record) {
  quiesce();
  return compare_tick(record.tick);
}

Status ReplayableMesh::compare_tick(std::uint64_t tick) const {
  if (!compares_ || mesh_->ticks() == tick) return {};
  return fail(Errc::corrupt, "stands at tick " + std::to_string(mesh_->ticks()) + " where it stood at " +
                                 std::to_string(tick) + " when it was recorded");
}

Status ReplayableMesh::compare(std::uint64_t tick, Hash128 expected) const {
  if (!compares_) return {};
  WEFT_CHECK(compare_tick(tick));
  if (const Hash128 now = hash(); now != expected)
    return fail(Errc::corrupt, "tick " + std::to_string(tick) + ": state hash " + to_string(now) + ", it was " +
                                   to_string(expected) + " when it was recorded");
  return {};
}

}  // namespace weft::agent
