// SPDX-License-Identifier: Apache-2.0

#include "agent/agent.hpp"

#include "agent/internal/data_directory.hpp"
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
    size += target.labels.size_bytes() + target.values.size_bytes() + target.gradient.size_bytes();
  return check_size(directory, options, "a batch", size);
}

Status no_learner(const std::string& directory) {
  return fail(Errc::unsupported, directory + ": this agent has no learner; open it with a section \"learning\"");
}

LogPosition log_position(const storage::JournalWriter& journal, const mesh::Mesh& mesh) noexcept {
  return {journal.place().number, mesh.ticks()};
}

}  // namespace

Agent::Agent(storage::FileSystem& files, storage::CheckpointStore store, Options options, ReplayableMesh replayable)
    : files_(files),
      store_(std::move(store)),
      journal_directory_(internal::journal_in(store_.directory())),
      options_(std::move(options)),
      replayable_(std::move(replayable)),
      has_learner_(replayable_.learner() != nullptr) {
  mesh::MeshAccess::deliver_by(replayable_.mesh(),
                               [this](Coord to, mesh::MessagePointer message,
                                      std::optional<std::uint64_t> reply_within) -> Result<std::uint64_t> {
                                 WEFT_CHECK(check_message_size(directory(), options_, message.get()));
                                 return inbox_.receive(replayable_.mesh(), {to, std::move(message), reply_within});
                               });
}

Result<std::unique_ptr<Agent>> Agent::open(storage::FileSystem& files, const std::string& directory,
                                           const mesh::NetworkSpec& spec, Options options, Recovery& recovery) {
  const auto begin = options.now();
  WEFT_TRY(const std::string network, mesh::write_network(spec, -1));
  WEFT_TRY(auto store, storage::CheckpointStore::open(files, directory, {.keep = options.keep}));
  WEFT_CHECK(internal::make_journal_in(files, directory));
  recovery = {};
  WEFT_TRY(auto found, internal::find_latest(files, store, recovery.passed_over));
  if (!found) {
    WEFT_TRY(const auto segments, storage::journal_segments(files, internal::journal_in(directory)));
    if (!segments.empty())
      return fail(Errc::corrupt, directory + ": holds a journal that begins with record " +
                                     std::to_string(segments.front()) +
                                     " and no checkpoint to go on from; put one back, or empty the directory");
    recovery.is_new = true;
    WEFT_TRY(ReplayableMesh replayable, ReplayableMesh::begin(spec, options.learns, options.mesh));
    std::unique_ptr<Agent> agent(new Agent(files, std::move(store), std::move(options), std::move(replayable)));
    agent->network_ = network;
    WEFT_CHECK(agent->initialize());
    recovery.hash = agent->replayable_.hash();
    recovery.took = agent->options_.now() - begin;
    return agent;
  }
  WEFT_TRY(const internal::Found saved, internal::read_checkpoint(*found));
  const bool may_change = options.differ != nullptr;
  WEFT_CHECK(saved.check_same(network, options.identity, directory, options.differ));
  WEFT_TRY(const mesh::NetworkSpec now, mesh::network_of(saved.file));
  WEFT_TRY(ReplayableMesh replayable, ReplayableMesh::restore(saved.file, now, options.mesh));
  WEFT_CHECK(saved.check_hash(replayable.hash(), found->path));
  std::unique_ptr<Agent> agent(new Agent(files, std::move(store), std::move(options), std::move(replayable)));
  agent->network_ = may_change ? network : saved.network;
  WEFT_CHECK(agent->recover(saved, recovery));
  recovery.took = agent->options_.now() - begin;
  return agent;
}

Status Agent::initialize() {
  if (options_.on_create) WEFT_CHECK(options_.on_create(replayable_.mesh()));
  if (options_.extension) WEFT_CHECK(options_.extension->begin(replayable_));
  begin_writing(
      std::make_unique<storage::JournalWriter>(files_, journal_directory_, storage::JournalPlace(), options_.journal));
  // A first checkpoint exists before the first call.
  WEFT_CHECK(take_checkpoint(true));
  return checkpointer_->wait();
}

Status Agent::recover(const internal::Found& saved, Recovery& recovery) {
  if (options_.extension) {
    WEFT_CHECK(options_.extension->begin(replayable_));
    WEFT_CHECK(options_.extension->load(saved.extension));
  }
  recovery.checkpoint = replayable_.mesh().ticks();
  const auto replay = [&](const storage::JournalRecord& stored) -> Status {
    WEFT_TRY(const Record record, read_record(stored.kind, stored.payload));
    WEFT_CHECK(replayable_.apply(record));
    return options_.extension ? options_.extension->replayed(record) : Status();
  };
  const auto visit = [&](const storage::JournalRecord& stored) -> Status {
    auto done = replay(stored);
    if (done) return {};
    return fail(std::move(done).error().within(directory() + ": record " + std::to_string(stored.number) + " (" +
                                               std::string(name(static_cast<RecordKind>(stored.kind))) + ")"));
  };
  WEFT_TRY(const auto findings,
           storage::read_journal(files_, journal_directory_, saved.place, visit, options_.journal));
  recovery.records = findings.records;
  recovery.torn_bytes = findings.torn_bytes;
  recovery.damages = findings.damages;
  if (const auto last = DurableWatermark::last(files_, journal_directory_); last && *last > findings.end.number)
    recovery.damages.push_back(internal::end_too_early(journal_directory_, findings.end.number, *last));
  const std::uint64_t tick = replayable_.mesh().ticks();
  if (!recovery.damages.empty() && !options_.salvage) {
    std::string text = directory() + ": damaged after record " + std::to_string(findings.end.number) + ", tick " +
                       std::to_string(tick);
    for (const std::string& damage : recovery.damages) text += "; " + damage;
    return fail(Errc::corrupt, text + "; nothing was changed; salvage goes on from tick " + std::to_string(tick) +
                                   " and forgets what came after");
  }
  // Records just read may be in the page cache only, so they are synced before anything more is acknowledged.
  const auto pass_over = [](const storage::JournalRecord&) -> Status { return {}; };
  WEFT_TRY(auto resumed, storage::resume_journal(files_, journal_directory_, saved.place, pass_over, options_.journal));
  if (resumed.findings.end != findings.end)
    return fail(Errc::storage, directory() + ": read twice, its journal ended at record " +
                                   std::to_string(findings.end.number) + " and at record " +
                                   std::to_string(resumed.findings.end.number) + "; look to the disk");
  begin_writing(std::move(resumed.writer));
  recovery.at = log_position(*journal_, replayable_.mesh());
  recovery.hash = replayable_.hash();
  if (recovery.damages.empty()) return {};
  // From here on, a checkpoint covers the damaged part.
  WEFT_CHECK(store_.discard_after({tick, findings.end.number}));
  return checkpoint_and_wait();
}

void Agent::begin_writing(std::unique_ptr<storage::JournalWriter> journal) {
  journal_ = std::move(journal);
  flusher_ =
      std::make_unique<JournalFlusher>(*journal_, DurableWatermark(files_, journal_directory_),
                                       JournalFlusher::Options{options_.durability, options_.background, options_.now},
                                       log_position(*journal_, replayable_.mesh()));
  // A crash right after the checkpoint would leave a gap before it, and nobody who starts at an older one could pass.
  // If the journal cannot be written, the checkpoint holds the same state.
  const auto before = [this] { (void)flusher_->flush(); };
  const auto written = [this](LogPosition at) {
    flusher_->checkpointed(at);
    // The segments that go may be the only ones on the device to hold what was written anew since.
    if (!flusher_->flush()) return;
    if (const Status pruned = storage::prune_journal(files_, journal_directory_, store_.keys().front().record); !pruned)
      log_warn(pruned.error().text());  // costs disk space, not safety; the next checkpoint tries again
  };
  checkpointer_ = std::make_unique<Checkpointer>(store_, before, written, options_.background, options_.now);
  checkpoint_tick_ = replayable_.mesh().ticks();
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
  look_after();
  return status;
}

Status Agent::ready() const {
  if (!broken_) return {};
  return fail(Errc::internal, directory() +
                                  ": an earlier call failed halfway, so state and journal may differ; open "
                                  "the agent again: " +
                                  *broken_);
}

void Agent::look_after() {
  flusher_->appended(log_position(*journal_, replayable_.mesh()));
  if (journal_->waiting_bytes() > options_.waiting_bytes) {
    log_warn(directory() + ": " + std::to_string(journal_->waiting_bytes()) +
             " bytes of the journal could not be written and are given up; a checkpoint is to hold what they say");
    flusher_->drop(journal_->place().number);
  }
  if (checkpointer_->is_busy()) return;
  const bool is_due = options_.checkpoint_every
                          ? replayable_.mesh().ticks() - checkpoint_tick_ >= options_.checkpoint_every
                          : journal_->appended_bytes() - checkpoint_bytes_ >= options_.checkpoint_bytes;
  const bool is_needed = flusher_->has_gap() || checkpointer_->last_error();
  // After one failed, there is no use in trying with every call.
  if ((is_due || is_needed) && (!checkpointer_->last_error() || options_.now() >= next_checkpoint_)) checkpoint();
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
  Status done = replayable_.loop()->run(steps);
  const bool halted = !done;
  return journaled(std::move(done), RecordKind::act, [&](RecordBytes& bytes) { bytes.put_act(steps, halted); });
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
  WEFT_TRY(const std::size_t session, replayable_.mesh().add_session());
  WEFT_CHECK(journaled({}, RecordKind::add_session, [](RecordBytes&) {}));
  return session;
}

Status Agent::remove_session(std::size_t session) {
  WEFT_CHECK(ready());
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
