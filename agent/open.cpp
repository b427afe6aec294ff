// SPDX-License-Identifier: Apache-2.0
// Beginnings of an agent: a new one, one that is found and replayed, one of a directory alone.

#include "agent/agent.hpp"
#include "agent/disk_room.hpp"
#include "agent/internal/data_directory.hpp"
#include "agent/internal/log_position.hpp"

#include "mesh/network/network_json.hpp"
#include "mesh/persistence/entity_model.hpp"

#include "storage/file_system.hpp"

#include "core/log.hpp"

#include <algorithm>
#include <utility>

namespace weft::agent {

using internal::log_position;

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
    if (replayable.learner()) WEFT_CHECK(check_disk_room(*replayable.learner(), directory));
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
  bool may_react = false;  // killed before the record of it
  const auto replay = [&](const storage::JournalRecord& stored) -> Status {
    WEFT_TRY(const Record record, read_record(stored.kind, stored.payload));
    WEFT_CHECK(replayable_.apply(record));
    may_react = allows_reaction(record);
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
  if (may_react) WEFT_CHECK(look_after(RecordKind::learn));
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

Result<std::unique_ptr<Agent>> Agent::open(const std::string& directory, const mesh::NetworkSpec& spec,
                                           Options options) {
  Recovery recovery;
  return open(storage::real_file_system(), directory, spec, std::move(options), recovery);
}

Result<std::unique_ptr<Agent>> Agent::open(const std::string& directory, Options options) {
  storage::FileSystem& files = storage::real_file_system();
  const auto nobody = [&] {
    return fail(Errc::not_found, directory + ": no agent is there; one begins where a network is given");
  };
  const auto listed = files.list(directory);
  if (!listed && listed.error().code() != Errc::not_found) return fail(listed.error());
  // Nothing is made in a directory that is not an agent's.
  if (!listed ||
      std::none_of(listed->begin(), listed->end(), [](const auto& name) { return name.starts_with("ckpt-"); }))
    return nobody();
  mesh::NetworkSpec spec;
  {
    // Let go of again: `open` takes it for itself.
    WEFT_TRY(auto store, storage::CheckpointStore::open(files, directory, {.keep = options.keep}));
    std::vector<std::string> passed_over;
    WEFT_TRY(const auto found, internal::find_latest(files, store, passed_over));
    if (!found) return nobody();
    WEFT_TRY(internal::Found saved, internal::read_checkpoint(*found));
    if (!options.extension && saved.extension != "{}")
      return fail(Errc::invalid_argument,
                  directory +
                      ": it is kept by a program that saves a state of its own beside the agent (`weft run`); " +
                      "go on with that, or load " + found->path + " into a mesh");
    WEFT_TRY(spec, mesh::read_network(saved.network, directory));
    if (options.identity.empty()) options.identity = std::move(saved.identity);
  }
  return open(directory, spec, std::move(options));
}

}  // namespace weft::agent
