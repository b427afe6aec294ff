// SPDX-License-Identifier: Apache-2.0

#include "agent/agent.hpp"

#include "agent/agent_access.hpp"
#include "agent/internal/data_directory.hpp"
#include "agent/internal/log_position.hpp"
#include "learning/drift/drift_watch.hpp"
#include "learning/learner_snapshot.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/checkpoint_snapshot.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/session_file.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/message.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace weft::agent {
namespace {

// Pause before a failed checkpoint is tried again.
constexpr std::chrono::nanoseconds kCheckpointPause = std::chrono::seconds(5);

/// Refuses what no record of the journal can hold beside `others` bytes; 0: half a record.
Status check_size(const std::string& directory, const Agent::Options& options, std::string_view what,
                  std::uint64_t bytes, std::uint64_t others = 0) {
  const std::uint64_t record = std::min<std::uint64_t>(options.journal.max_record_bytes, UINT32_MAX);
  const std::uint64_t most = record - std::min(record, others ? others : record / 2);
  if (bytes <= most) return {};
  return fail(Errc::too_large, directory + ": " + std::string(what) + " of " + std::to_string(bytes) +
                                   " bytes, at most " + std::to_string(most) +
                                   " go into one record; give it in several calls");
}

Status check_message_size(const std::string& directory, const Agent::Options& options, const mesh::Message* message) {
  std::uint64_t bytes = 0;
  if (const auto* const mail = dynamic_cast<const mesh::Mail*>(message))
    bytes = mail->values.size() * sizeof(float) + mail->bytes.size();
  else if (const auto* const command = dynamic_cast<const mesh::Command*>(message))
    bytes = command->values.size() * sizeof(float);
  return check_size(directory, options, "a message", bytes);
}

Status check_batch(const std::string& directory, const Agent::Options& options, std::span<const mesh::RunInput> inputs,
                   std::span<const learning::Target> targets) {
  std::uint64_t size = 0;
  for (const mesh::RunInput& input : inputs) size += input.values.size_bytes();
  for (const learning::Target& target : targets)
    size += target.labels.size_bytes() + target.values.size_bytes() + target.gradient.size_bytes() +
            target.weights.size_bytes();
  return check_size(directory, options, "a batch", size);
}

Status no_learner(const std::string& directory) {
  return fail(Errc::unsupported, directory + ": this agent has no learner; open it with a section \"learning\"");
}

/// Of an agent that acts each session has an environment; with more or fewer it could not be opened again.
Status check_sessions_change(const std::string& directory, const ReplayableMesh& of) {
  if (!of.loop()) return {};
  return fail(Errc::unsupported, directory + ": the network acts in " + std::to_string(of.loop()->environments()) +
                                     " environments (reinforcement.environments), each with a session; none is added, "
                                     "attached or removed");
}

}  // namespace

using internal::log_position;

Agent::Agent(storage::FileSystem& files, storage::CheckpointStore store, Options options, ReplayableMesh replayable)
    : files_(files),
      store_(std::move(store)),
      journal_directory_(internal::journal_in(store_.directory())),
      options_(std::move(options)),
      replayable_(std::move(replayable)),
      has_learner_(replayable_.learner() != nullptr) {
  AgentAccess::take_deliveries(*this);
}

void AgentAccess::take_deliveries(Agent& agent) {
  mesh::MeshAccess::deliver_by(
      agent.replayable_.mesh(),
      [&agent](Coord to, mesh::MessagePointer message,
               std::optional<std::uint64_t> reply_within) -> Result<std::uint64_t> {
        WEFT_CHECK(check_message_size(agent.directory(), agent.options_, message.get()));
        return agent.inbox_.receive(agent.replayable_.mesh(), {to, std::move(message), reply_within});
      });
}

/// Appends the record of a call, unless the call was refused and changed nothing.
template <class Write>
Status Agent::journaled(Status status, RecordKind kind, Write&& write) {
  if (!status && status.error().code() != Errc::halted) {
    if (status.error().code() == Errc::internal) broken_ = status.error().text();
    return status;
  }
  write(bytes_.begin());
  journal_->append(static_cast<std::uint32_t>(kind), bytes_.bytes());
  if (Status looked = look_after(status ? kind : RecordKind::none); !looked) return looked;
  return status;
}

Status Agent::ready() const {
  if (!broken_) return {};
  return fail(Errc::internal, directory() +
                                  ": an earlier call failed halfway, so state and journal may differ; open "
                                  "the agent again: " +
                                  *broken_);
}

Status Agent::look_after(RecordKind kind) {
  // Something may be due at a change of the task.
  const bool may_react = allows_reaction(kind) && replayable_.due().is_due();
  const bool wants_checkpoint = may_react && replayable_.due().checkpoint;
  if (may_react) {
    if (Status reacted = replayable_.react(); !reacted) {
      broken_ = reacted.error().text();
      return reacted;
    }
    journal_->append(static_cast<std::uint32_t>(RecordKind::react), {});
  }
  flusher_->appended(log_position(*journal_, replayable_.mesh()));
  if (journal_->waiting_bytes() > options_.waiting_bytes) {
    log_warn(directory() + ": " + std::to_string(journal_->waiting_bytes()) +
             " bytes of the journal could not be written and are given up; a checkpoint is to hold what they say");
    flusher_->drop(journal_->place().number);
  }
  if (holds_checkpoints_ || checkpointer_->is_busy()) return {};  // that one is young enough
  // Of an agent that acts, a few bytes of the journal say many steps, and each is acted again when it is opened.
  const std::uint64_t most_ticks = options_.checkpoint_every ? options_.checkpoint_every
                                   : replayable_.loop()      ? options_.checkpoint_steps
                                                             : UINT64_MAX;
  const bool is_due =
      replayable_.mesh().ticks() - checkpoint_tick_ >= most_ticks ||
      (!options_.checkpoint_every && journal_->appended_bytes() - checkpoint_bytes_ >= options_.checkpoint_bytes);
  const bool is_needed = flusher_->has_gap() || checkpointer_->last_error() || wants_checkpoint;
  // After one failed, there is no use in trying with every call.
  if ((is_due || is_needed) && (!checkpointer_->last_error() || options_.now() >= next_checkpoint_)) checkpoint();
  return {};
}

Status Agent::set_input(std::string_view port, std::span<const float> values, std::size_t session) {
  WEFT_CHECK(ready());
  return journaled(replayable_.mesh().set_input(port, values, session), RecordKind::input,
                   [&](RecordBytes& bytes) { bytes.put_input(port, session, values); });
}

Status Agent::tick(std::uint64_t n) {
  WEFT_CHECK(ready());
  take_in();
  Status done = replayable_.mesh().tick(n);
  const bool halted = !done;
  return journaled(std::move(done), RecordKind::ticks, [&](RecordBytes& bytes) { bytes.put_ticks(n, halted); });
}

Status Agent::learn(std::span<const mesh::RunInput> inputs, std::span<const learning::Target> targets,
                    std::uint64_t samples) {
  WEFT_CHECK(ready());
  take_in();
  if (!replayable_.learner()) return no_learner(directory());
  WEFT_CHECK(check_batch(directory(), options_, inputs, targets));
  Status done = replayable_.learner()->learn(inputs, targets, samples);
  const bool halted = !done;
  return journaled(std::move(done), RecordKind::learn,
                   [&](RecordBytes& bytes) { bytes.put_learn(inputs, targets, samples, halted); });
}

Status Agent::act(std::uint64_t steps) {
  WEFT_CHECK(ready());
  take_in();
  if (!replayable_.loop())
    return fail(Errc::unsupported,
                directory() + ": this agent has no environment; open it with a section \"reinforcement\"");
  EnvironmentLoop& loop = *replayable_.loop();
  loop.clear_ended();
  if (loop.is_external()) {
    // An episode may begin with each step.
    const EnvironmentShape& shape = loop.environment().shape();
    const std::uint64_t step = 2 * (32 + (shape.observations + shape.values) * sizeof(float));
    WEFT_CHECK(
        check_size(directory(), options_, "external steps", steps > UINT64_MAX / step ? UINT64_MAX : steps * step));
  }
  do {
    const std::uint64_t part = replayable_.steps_to_look(steps);
    WEFT_CHECK(AgentAccess::act_at_once(*this, part));
    steps -= part;
  } while (steps > 0);
  return {};
}

Status AgentAccess::act_at_once(Agent& agent, std::uint64_t steps) {
  EnvironmentLoop& loop = *agent.replayable_.loop();
  Status done = loop.run(steps);
  if (loop.is_cut_off()) {
    // The journal ends before the step that the environment broke off, and so goes on from there.
    if (loop.whole_steps() > 0) {
      agent.bytes_.begin().put_act_external(loop.whole_steps(), loop.answers(), false);
      agent.journal_->append(static_cast<std::uint32_t>(RecordKind::act_external), agent.bytes_.bytes());
      agent.flusher_->appended({agent.journal_->place().number, loop.mesh_tick()});
    }
    agent.broken_ = done.error().text();
    return done;
  }
  const bool halted = !done;
  if (loop.is_external())
    return agent.journaled(std::move(done), RecordKind::act_external,
                           [&](RecordBytes& bytes) { bytes.put_act_external(steps, loop.answers(halted), halted); });
  return agent.journaled(std::move(done), RecordKind::act, [&](RecordBytes& bytes) { bytes.put_act(steps, halted); });
}

Result<learning::Ticket> Agent::observe(std::span<const mesh::RunInput> inputs) {
  WEFT_CHECK(ready());
  take_in();
  if (!replayable_.learner()) return fail(no_learner(directory()).error());
  WEFT_CHECK(check_batch(directory(), options_, inputs, {}));
  const auto ticket = replayable_.learner()->observe(inputs);
  WEFT_CHECK(journaled(ticket ? Status() : Status(fail(ticket.error())), RecordKind::observe,
                       [&](RecordBytes& bytes) { bytes.put_observe(inputs, !ticket); }));
  return *ticket;
}

Status Agent::teach(learning::Ticket ticket, std::span<const learning::Target> targets) {
  WEFT_CHECK(ready());
  for (const learning::Target& target : targets)
    if (!target.signals.empty())
      return fail(Errc::unsupported, directory() + ": target of '" + std::string(target.output) +
                                         "': " + std::to_string(target.signals.size()) +
                                         " signals, and the journal has one a target; give `signal`, of one learner");
  take_in();
  if (!replayable_.learner()) return no_learner(directory());
  WEFT_CHECK(check_batch(directory(), options_, {}, targets));
  Status done = replayable_.learner()->teach(ticket, targets);
  const bool halted = !done;
  return journaled(std::move(done), RecordKind::teach,
                   [&](RecordBytes& bytes) { bytes.put_teach(ticket, targets, halted); });
}

Status Agent::forgo(learning::Ticket ticket) {
  WEFT_CHECK(ready());
  if (!replayable_.learner()) return no_learner(directory());
  return journaled(replayable_.learner()->forgo(ticket), RecordKind::forgo,
                   [&](RecordBytes& bytes) { bytes.put_forgo(ticket); });
}

Status Agent::drain() {
  WEFT_CHECK(ready());
  take_in();
  if (!replayable_.learner()) return no_learner(directory());
  Status done = replayable_.learner()->drain();
  const bool halted = !done;
  return journaled(std::move(done), RecordKind::drain, [&](RecordBytes& bytes) { bytes.put_drain(halted); });
}

Result<mesh::CommandMessage> Agent::post(Coord cell, std::shared_ptr<mesh::Command> control, bool now) {
  WEFT_CHECK(ready());
  WEFT_CHECK(check_message_size(directory(), options_, control.get()));
  take_in();
  WEFT_TRY(auto sent, replayable_.mesh().post(cell, control));
  WEFT_CHECK(journaled({}, RecordKind::command, [&](RecordBytes& bytes) { bytes.put_command(cell, *control); }));
  if (now) {
    mesh::MeshAccess::deliver_commands(replayable_.mesh());
    WEFT_CHECK(journaled({}, RecordKind::deliver, [](RecordBytes&) {}));
  }
  return sent;
}

Result<std::uint64_t> Agent::tell(Coord to, mesh::MessagePointer message) {
  WEFT_CHECK(ready());
  WEFT_CHECK(check_message_size(directory(), options_, message.get()));
  take_in();
  WEFT_TRY(const std::uint64_t stamp, replayable_.mesh().tell(to, message));
  WEFT_CHECK(write_down(to, *message));
  return stamp;
}

Result<mesh::MailPointer> Agent::ask(Coord to, mesh::MailPointer mail, std::uint64_t ticks) {
  WEFT_CHECK(ready());
  WEFT_CHECK(check_message_size(directory(), options_, mail.get()));
  take_in();
  WEFT_TRY(mail, replayable_.mesh().ask(to, std::move(mail), ticks));
  WEFT_CHECK(write_down(to, *mail));
  return mail;
}

Status Agent::write_down(Coord to, const mesh::Message& message) {
  if (message.type == mesh::MessageType::command) {
    const auto& command = static_cast<const mesh::Command&>(message);
    return journaled({}, RecordKind::command, [&](RecordBytes& bytes) { bytes.put_command(to, command); });
  }
  const auto& mail = static_cast<const mesh::Mail&>(message);
  return journaled({}, RecordKind::message, [&](RecordBytes& bytes) { bytes.put_message(to, mail); });
}

Result<std::size_t> Agent::add_session() {
  WEFT_CHECK(ready());
  WEFT_CHECK(check_sessions_change(directory(), replayable_));
  WEFT_TRY(const std::size_t session, replayable_.mesh().add_session());
  WEFT_CHECK(journaled({}, RecordKind::add_session, [](RecordBytes&) {}));
  return session;
}

Status Agent::remove_session(std::size_t session) {
  WEFT_CHECK(ready());
  WEFT_CHECK(check_sessions_change(directory(), replayable_));
  return journaled(replayable_.mesh().remove_session(session), RecordKind::remove_session,
                   [&](RecordBytes& bytes) { bytes.put_session(session); });
}

Status Agent::reset_session(std::size_t session) {
  WEFT_CHECK(ready());
  return journaled(replayable_.mesh().reset_session(session), RecordKind::reset_session,
                   [&](RecordBytes& bytes) { bytes.put_session(session); });
}

Result<std::size_t> Agent::attach_session(ByteSpan bytes, bool allow_other_weights) {
  WEFT_CHECK(ready());
  WEFT_CHECK(check_sessions_change(directory(), replayable_));
  WEFT_CHECK(check_size(directory(), options_, "a session's file", bytes.size(), 64));
  WEFT_TRY(const auto file, formats::decode_entity(bytes, "session"));
  WEFT_TRY(const std::size_t session, mesh::attach_session(replayable_.mesh(), file, allow_other_weights));
  WEFT_CHECK(journaled({}, RecordKind::attach_session,
                       [&](RecordBytes& record) { record.put_attach(bytes, allow_other_weights); }));
  return session;
}

void Agent::resume() {
  replayable_.mesh().resume();
  if (const Status done = journaled({}, RecordKind::resume, [](RecordBytes&) {}); !done) return;
}

void AgentAccess::hold_checkpoints(Agent& agent, bool held) noexcept { agent.holds_checkpoints_ = held; }

Status AgentAccess::move_to(Agent& agent, const topology::Machine& machine, std::shared_mutex* readers) {
  WEFT_CHECK(agent.ready());
  ReplayableMesh& here = agent.replayable_;
  // Writing reads the plan of the mesh.
  if (const Status written = agent.checkpointer_->wait(); !written) log_warn(written.error().text());
  // A replay does the same at this record, as at that of a checkpoint.
  here.quiesce();
  WEFT_CHECK(
      agent.journaled({}, RecordKind::checkpoint, [&](RecordBytes& bytes) { bytes.put_tick(here.mesh().ticks()); }));
  if (const Status written = agent.checkpointer_->wait(); !written) log_warn(written.error().text());
  mesh::MeshOptions options = agent.options_.mesh;
  options.machine = machine;
  WEFT_TRY(ReplayableMesh moved, here.copy(std::move(options)));
  {
    const auto still = readers ? std::unique_lock(*readers) : std::unique_lock<std::shared_mutex>();
    mesh::MeshAccess::deliver_by(here.mesh(), {});
    here.swap(moved);
  }
  take_deliveries(agent);
  return {};
}

Status Agent::note(std::string_view topic, std::string_view text) {
  WEFT_CHECK(ready());
  WEFT_CHECK(check_size(directory(), options_, "a note", topic.size() + text.size()));
  return journaled({}, RecordKind::annotation, [&](RecordBytes& bytes) { bytes.put_annotation(topic, text); });
}

Status Agent::mark() {
  WEFT_CHECK(ready());
  return journaled({}, RecordKind::marker,
                   [&](RecordBytes& bytes) { bytes.put_marker(replayable_.mesh().ticks(), replayable_.hash()); });
}

bool Agent::checkpoint() {
  if (broken_ || checkpointer_->is_busy()) return false;
  if (const Status taken = take_checkpoint(false); !taken) {
    log_error(directory() + ": no checkpoint can be taken: " + taken.error().text());
    return false;
  }
  return true;
}

Status Agent::take_checkpoint(bool awaited) {
  const auto begin = options_.now();
  // Delivers what waits, as a replay of the record will.
  WEFT_CHECK(mesh::take_checkpoint_snapshot(replayable_.mesh(), true, snapshot_));
  if (replayable_.learner()) learner_snapshot_.take(*replayable_.learner());
  if (replayable_.loop()) loop_snapshot_ = replayable_.loop()->save();
  const std::uint64_t tick = replayable_.mesh().ticks();
  // A new agent stands before the first record.
  if (journal_->place().number > 0 || tick > 0) {
    bytes_.begin().put_tick(tick);
    journal_->append(static_cast<std::uint32_t>(RecordKind::checkpoint), bytes_.bytes());
    flusher_->appended(log_position(*journal_, replayable_.mesh()));
  }
  const storage::JournalPlace place = journal_->place();
  const std::string extension = options_.extension ? options_.extension->save() : "{}";
  checkpoint_tick_ = tick;
  checkpoint_bytes_ = journal_->appended_bytes();
  const auto now = options_.now();
  next_checkpoint_ = now + kCheckpointPause;
  checkpointer_->start(
      {{place.number, tick}, now - begin, [this, place, extension] { return encode(place, extension); }}, awaited);
  return {};
}

/// On the writing thread, while the mesh goes on: reads the snapshot and what never changes.
Result<Checkpointer::Content> Agent::encode(const storage::JournalPlace& place, const std::string& extension) const {
  mesh::CheckpointExtras extras;
  WEFT_TRY(extras.meta_json, internal::write_extras(network_, options_.identity, extension));
  mesh::LayerHash rule;
  if (has_learner_) {
    extras.tensors = learner_snapshot_.tensors();
    extras.kept_ticks = learner_snapshot_.kept_ticks();
    rule = [this](mesh::NodeId node, StateHasher& hasher) { learner_snapshot_.hash_layer(node, hasher); };
  }
  if (!loop_snapshot_.empty())
    extras.tensors.push_back({kLoopTensor, "bytes", Shape{loop_snapshot_.size()}, ByteSpan(loop_snapshot_)});
  const mesh::MeshView view = snapshot_.view();
  const Hash128 mesh =
      fold_sessions(snapshot_.sessions(), [&](std::size_t s) { return mesh::state_hash(view, s, rule); });
  const Hash128 hash = with_loop(mesh, loop_snapshot_);
  WEFT_TRY(auto file, mesh::entity_of(view, extras));
  return Checkpointer::Content{std::move(file), internal::write_info(place, snapshot_.ticks(), hash)};
}

Status Agent::checkpoint_and_wait() {
  WEFT_CHECK(ready());
  // One that is under way may be of an earlier moment.
  if (const Status earlier = checkpointer_->wait(); !earlier) log_warn(earlier.error().text());
  WEFT_CHECK(take_checkpoint(true));
  return checkpointer_->wait();
}

Status Agent::acknowledge() {
  if (options_.durability.mode == Durability::Mode::checkpoint || flusher_->has_gap()) return checkpoint_and_wait();
  return flusher_->flush();
}

AgentStatistics Agent::statistics() const {
  AgentStatistics statistics;
  statistics.at = log_position(*journal_, replayable_.mesh());
  statistics.acknowledged = flusher_->acknowledged();
  statistics.waiting_bytes = journal_->waiting_bytes();
  statistics.journal_bytes = journal_->appended_bytes() - checkpoint_bytes_;
  statistics.journal_failures = flusher_->failures();
  statistics.checkpoint = checkpointer_->statistics();
  statistics.last_error = flusher_->last_error();
  if (!statistics.last_error) statistics.last_error = checkpointer_->last_error();
  return statistics;
}

}  // namespace weft::agent
