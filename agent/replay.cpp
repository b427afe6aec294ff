// SPDX-License-Identifier: Apache-2.0

#include "agent/replay.hpp"

#include "agent/durable_watermark.hpp"
#include "agent/internal/data_directory.hpp"

#include "mesh/network/network_json.hpp"
#include "mesh/persistence/entity_model.hpp"

#include <algorithm>
#include <utility>

namespace weft::agent {
namespace {

/// The oldest checkpoint, or the newest at or before `tick`, that verifies.
Result<internal::Found> find_start(storage::CheckpointStore& store, std::optional<std::uint64_t> tick) {
  std::vector<storage::CheckpointKey> keys = store.keys();
  if (tick) std::reverse(keys.begin(), keys.end());
  if (keys.empty()) return fail(Errc::not_found, store.directory() + ": no agent is there: it has no checkpoint");
  std::string reasons;
  for (const storage::CheckpointKey key : keys) {
    if (tick && key.tick > *tick) {
      reasons += "; the one of tick " + std::to_string(key.tick) + " is younger";
      continue;
    }
    auto checkpoint = store.at(key);
    auto found =
        checkpoint ? internal::read_checkpoint(*checkpoint) : Result<internal::Found>(fail(checkpoint.error()));
    if (found) return found;
    reasons += "; " + found.error().text();
  }
  return fail(Errc::not_found, store.directory() + ": no checkpoint to begin from" +
                                   (tick ? " at or before tick " + std::to_string(*tick) : std::string()) + reasons);
}

/// State of the checkpoint, for its network or for the changed one. `anew`: see restore_changed.
Result<ReplayableMesh> restore(const internal::Found& found, const ReplayOptions& options,
                               std::vector<std::string>& anew) {
  WEFT_TRY(const mesh::NetworkSpec spec, mesh::network_of(found.file));
  if (options.set.empty()) return ReplayableMesh::restore(found.file, spec, options.mesh);
  WEFT_TRY(std::string network, mesh::write_network(spec, -1));
  for (const std::string& change : options.set) {
    WEFT_TRY(network, with_change(network, change));
  }
  WEFT_TRY(const mesh::NetworkSpec changed, mesh::read_network(network, "changed network"));
  return ReplayableMesh::restore_changed(found.file, spec, changed, options.mesh, anew);
}

}  // namespace

Replay::Replay(storage::FileSystem& files, const std::string& directory, storage::JournalPlace place,
               ReplayableMesh replayable)
    : replayable_(std::move(replayable)),
      files_(&files),
      source_(files, internal::journal_in(directory), place),
      directory_(directory) {}

Result<Replay> Replay::open(storage::FileSystem& files, const std::string& directory, ReplayOptions options) {
  WEFT_TRY(auto store, storage::CheckpointStore::look(files, directory));
  WEFT_TRY(const internal::Found found, find_start(store, options.from));
  std::vector<std::string> anew;
  WEFT_TRY(ReplayableMesh replayable, restore(found, options, anew));
  if (options.set.empty()) WEFT_CHECK(found.check_hash(replayable.hash(), directory));
  replayable.compare_marks(options.verifies && options.set.empty());
  Replay replay(files, directory, found.place, std::move(replayable));
  replay.start_ = {found.place.number, found.tick, found.hash};
  replay.anew_ = std::move(anew);
  replay.number_ = found.place.number;
  replay.verifies_ = options.verifies;
  replay.watch_ = std::move(options.watch);
  if (options.verifies) {
    WEFT_TRY(replay.checkpoints_, checkpoint_infos(files, directory));
  }
  return replay;
}

Result<std::vector<CheckpointInfo>> Replay::checkpoint_infos(storage::FileSystem& files, const std::string& directory) {
  WEFT_TRY(auto store, storage::CheckpointStore::look(files, directory));
  std::vector<CheckpointInfo> all;
  for (const storage::CheckpointKey key : store.keys()) {
    const auto checkpoint = store.at(key);
    if (!checkpoint) continue;
    if (const auto found = internal::read_checkpoint(*checkpoint)) all.push_back({key.record, key.tick, found->hash});
  }
  return all;
}

Result<bool> Replay::next() {
  WEFT_TRY(const RecordSource::Item* const item, source_.next());
  if (!item) {
    WEFT_CHECK(check_overtaken());
    return false;
  }
  number_ = item->number;
  payload_ = item->payload;  // some records point into it
  auto record = read_record(item->kind, payload_);
  if (!record) return within(std::move(record).error());
  record_ = *std::move(record);
  done_ = 0;
  ++records_;
  return true;
}

/// Records that a running agent has pruned meanwhile are no damage.
Status Replay::check_overtaken() const {
  if (source_.findings().damages.empty()) return {};
  WEFT_TRY(auto store, storage::CheckpointStore::look(*files_, directory_));
  const auto oldest = store.keys();
  if (oldest.empty() || oldest.front().record <= number_) return {};
  return fail(Errc::not_found, directory_ + ": its agent is running, and has removed what came after record " +
                                   std::to_string(number_) +
                                   " meanwhile; begin at a later checkpoint, or let it keep more of them");
}

bool Replay::is_divisible() const noexcept {
  // A call that a fault ended has no boundary between two of its parts.
  if (const auto* const ticks = std::get_if<TicksRecord>(&*record_)) return !ticks->halted;
  if (const auto* const learned = std::get_if<LearnRecord>(&*record_)) return !learned->halted;
  if (const auto* const acted = std::get_if<ActRecord>(&*record_)) return !acted->halted;
  if (const auto* const acted = std::get_if<ActExternalRecord>(&*record_)) return !acted->halted;
  return false;
}

std::uint64_t Replay::parts() const noexcept {
  if (!is_divisible()) return 1;
  if (const auto* const ticks = std::get_if<TicksRecord>(&*record_)) return ticks->ticks;
  if (const auto* const acted = std::get_if<ActRecord>(&*record_)) return acted->steps;
  if (const auto* const acted = std::get_if<ActExternalRecord>(&*record_)) return acted->steps;
  return std::get<LearnRecord>(*record_).samples;
}

std::uint64_t Replay::ticks_of_part() const {
  const bool is_sample = std::holds_alternative<LearnRecord>(*record_) ||
                         std::holds_alternative<ObserveRecord>(*record_) ||
                         std::holds_alternative<ActRecord>(*record_) ||
                         std::holds_alternative<ActExternalRecord>(*record_) || shows_again();
  if (is_sample && const_cast<ReplayableMesh&>(replayable_).learner())
    return const_cast<ReplayableMesh&>(replayable_).learner()->ticks_per_sample();
  return 1;
}

/// A target that shows its sample anew, which takes ticks.
bool Replay::shows_again() const {
  const learning::Learner* const learner = const_cast<ReplayableMesh&>(replayable_).learner();
  const auto* const taught = std::get_if<TeachRecord>(&*record_);
  if (!learner || !taught || learner->options().late != learning::Late::again) return false;
  return learning::teaches(taught->views(), learner->options().learners);
}

void Replay::note_external(std::uint64_t first, std::uint64_t count) {
  StateHasher hasher;
  hasher.add(outside_);
  if (const auto* const learned = std::get_if<LearnRecord>(&*record_)) {
    const auto add = [&](const auto& values, std::uint64_t sample) {
      const std::size_t one = learned->samples ? values.size() / learned->samples : 0;
      hasher.add_bytes(values.data() + sample * one, one * sizeof(values[0]));
    };
    for (std::uint64_t sample = first; sample < first + count; ++sample) {
      for (const auto& port : learned->inputs) add(port.values, sample);
      for (const auto& target : learned->targets) {
        add(target.labels, sample);
        add(target.values, sample);
        add(target.weights, sample);
      }
      outside_ = hasher.digest();
      hasher.reset();
      hasher.add(outside_);
    }
    return;
  }
  if (const auto* const acted = std::get_if<ActExternalRecord>(&*record_)) {
    const auto answers = count == parts() ? std::span(acted->answers) : acted->of(first, count);
    for (const Answer& answer : answers) {
      hasher.add(chained({}, answer));
      outside_ = hasher.digest();
      hasher.reset();
      hasher.add(outside_);
    }
    return;
  }
  if (std::holds_alternative<TicksRecord>(*record_) || std::holds_alternative<MarkerRecord>(*record_) ||
      std::holds_alternative<CheckpointRecord>(*record_) || std::holds_alternative<AnnotationRecord>(*record_) ||
      std::holds_alternative<DeliverRecord>(*record_) || std::holds_alternative<ActRecord>(*record_) ||
      std::holds_alternative<ReactRecord>(*record_))
    return;
  hasher.add(std::uint64_t{record_->index()});
  hasher.add_bytes(payload_.data(), payload_.size());
  outside_ = hasher.digest();
}

Status Replay::replay_parts(std::uint64_t count) {
  note_external(done_, count);
  Status done;
  if (count == parts()) {
    done = replayable_.apply(*record_);
  } else if (const auto* const learned = std::get_if<LearnRecord>(&*record_)) {
    done = replayable_.learn(*learned, done_, count);
  } else if (std::holds_alternative<ActRecord>(*record_)) {
    done = replayable_.apply(ActRecord{count, false});
  } else if (const auto* const outside = std::get_if<ActExternalRecord>(&*record_)) {
    const auto part = outside->of(done_, count);
    done = replayable_.apply(ActExternalRecord{count, false, {part.begin(), part.end()}});
  } else {
    done = replayable_.mesh().tick(count);
  }
  if (done && done_ + count == parts() && !replayable_.compares_marks() && allows_reaction(*record_))
    done = replayable_.react();
  if (replayable_.learner()) replayable_.learner()->clear_scores();
  if (replayable_.loop()) replayable_.loop()->clear_ended();
  if (!done) return within(std::move(done).error());
  if (verifies_) WEFT_CHECK(verify());
  if (const auto* const note = std::get_if<AnnotationRecord>(&*record_)) notes_.push_back(*note);
  done_ += count;
  if (done_ == parts()) record_.reset();
  return {};
}

/// Compares tick and state hash with a marker, which carries its hash, or with a checkpoint that is still there.
Status Replay::verify() {
  if (std::holds_alternative<MarkerRecord>(*record_)) ++compared_;
  if (!std::holds_alternative<CheckpointRecord>(*record_)) return {};
  for (const CheckpointInfo& stone : checkpoints_) {
    if (stone.record != number_) continue;
    ++compared_;
    if (const Hash128 now = replayable_.hash(); now != stone.hash)
      return within(Error(Errc::corrupt, "tick " + std::to_string(stone.tick) + ": state hash " + to_string(now) +
                                             ", its checkpoint says " + to_string(stone.hash)));
  }
  return {};
}

/// An end that an opened agent would refuse: before what was acknowledged, or before a checkpoint that is there.
void Replay::check_end() {
  const std::uint64_t end = source_.findings().end.number;
  const std::string journal = internal::journal_in(directory_);
  if (acknowledged_ && *acknowledged_ > end)
    missing_.push_back(internal::end_too_early(journal, end, *acknowledged_));
  else if (!checkpoints_.empty() && checkpoints_.back().record > end)
    missing_.push_back(journal + ": ends at record " + std::to_string(end) + ", and there is a checkpoint of record " +
                       std::to_string(checkpoints_.back().record));
}

Status Replay::run(std::optional<std::uint64_t> until) {
  if (!until) {
    // Read before the journal's end: a running agent goes on acknowledging records.
    acknowledged_ = DurableWatermark::last(*files_, internal::journal_in(directory_));
    WEFT_CHECK(source_.end_here());
  }
  missing_.clear();
  for (;;) {
    if (!record_) {
      WEFT_TRY(const bool more, next());
      if (!more) {
        if (!until) check_end();
        return {};
      }
    }
    std::uint64_t count = parts() - done_;
    if (until && parts() > 0) {
      const std::uint64_t remaining = *until > tick() ? (*until - tick()) / ticks_of_part() : 0;
      const bool takes_time =
          std::holds_alternative<TicksRecord>(*record_) || std::holds_alternative<LearnRecord>(*record_) ||
          std::holds_alternative<ActRecord>(*record_) || std::holds_alternative<ActExternalRecord>(*record_) ||
          std::holds_alternative<DrainRecord>(*record_) || std::holds_alternative<ObserveRecord>(*record_) ||
          shows_again();
      if (takes_time && remaining == 0) return {};
      if (takes_time && is_divisible()) count = std::min(count, remaining);
    }
    WEFT_CHECK(replay_parts(count));
    if (watch_) watch_(tick(), records_);
  }
}

Result<bool> Replay::step() {
  if (!record_) {
    WEFT_TRY(const bool more, next());
    if (!more) return false;
  }
  WEFT_CHECK(replay_parts(std::min<std::uint64_t>(1, parts() - done_)));
  return true;
}

Failure Replay::within(Error error) const {
  const std::string what = record_ ? std::string(name(static_cast<RecordKind>(record_->index() + 1))) : "unreadable";
  return fail(std::move(error).within(directory_ + ": record " + std::to_string(number_) + " (" + what + ")"));
}

}  // namespace weft::agent
