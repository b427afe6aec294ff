// SPDX-License-Identifier: Apache-2.0

// A mesh's state in memory, out and in.

#include "mesh/persistence/snapshot.hpp"

#include "mesh/internal/mesh_parts.hpp"
#include "mesh/mesh.hpp"
#include "mesh/network/network_digest.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/observer.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace weft::mesh {
namespace {

/// The error that observers would give of a record that the cell, or one like it, gave. Changes nothing.
Status check_observers(const Cell& cell, const CellRecord& from) {
  const std::span<const CellObserver> observers = cell.observers();
  for (std::size_t i = 0; i < observers.size(); ++i)
    if (Status fits = observers[i].observer->check(from.observers[i].words); !fits)
      return fail(std::move(fits).error().within("cell " + to_string(cell.at())));
  return {};
}

bool changes_weights(const Command& command) noexcept {
  return command.kind == CommandKind::set_weights || command.kind == CommandKind::morph;
}

/// Fields that belong to weights stay where these do.
Scopes rule_scopes(SnapshotWeights weights) noexcept {
  return weights == SnapshotWeights::never ? scopes::kSnapshot.without(Scope::optimizer) : scopes::kSnapshot;
}

/// The size of the fields, then the fields.
void save_rule(const RuleState& rule, ByteArchive& to, Scopes wanted) {
  SizeArchive size(wanted);
  rule.visit(size);
  to.reserve(sizeof(std::uint64_t) + size.size_with_lists());
  to.put(std::uint64_t{size.size()});
  WriteArchive archive(to, wanted);
  rule.visit(archive);
}

/// @error shape_mismatch: another rule's; nothing changes then, as what tells them apart comes first
Status load_rule(RuleState& rule, const ByteArchive& from, Scopes wanted) {
  SizeArchive own(wanted);
  std::as_const(rule).visit(own);
  std::uint64_t size = 0;
  if (from.size() >= sizeof size) std::memcpy(&size, from.bytes().data(), sizeof size);
  if (size == own.size()) {
    ReadArchive archive(from.bytes().subspan(sizeof size), wanted);
    rule.visit(archive);
    if (!archive.has_failed()) return {};
  }
  return fail(Errc::shape_mismatch,
              "snapshot: of its learning rule " + std::to_string(size) + " bytes where " + std::to_string(own.size()) +
                  " are expected, or of another rule, schedule, loss or optimizer; attach one with the same options");
}

std::string shape_text(const State::Options& options) {
  return std::to_string(options.sessions) + " sessions with " + std::to_string(options.depth) + " ticks of history";
}

}  // namespace

bool Mesh::Parts::may_change_weights() const noexcept {
  for (const Cell* cell : mailing.observing)
    for (const CellObserver& each : cell->observers())
      if (each.observer->may_change_weights()) return true;
  if (!engine->commands().has_deferred()) return false;
  for (const auto& cell : cells)
    for (const CommandMessage& command : cell->deferred())
      if (changes_weights(*command)) return true;
  return false;
}

const Hash128& Mesh::Parts::network_digest() {
  if (!digest) digest = mesh::network_digest(graph);
  return *digest;
}

const Hash128& Mesh::network_digest() const { return parts_->network_digest(); }

void Mesh::take_snapshot(Snapshot& to) { take_snapshot(to, SnapshotWeights::automatic); }

void Mesh::take_snapshot(Snapshot& to, SnapshotWeights weights) {
  Parts& p = *parts_;
  // Commands waiting in mailboxes are delivered first, as in the next tick: they are part of the state.
  parts_->deliver_commands();
  p.sync(false);
  const bool is_known = to.mesh_id_ == p.number && to.state_id_ == p.state->id();
  if (!is_known) {
    to.network_ = network_digest();
    to.options_ = p.state->options();
    to.layout_ = p.state->layout();
    to.live_size_ = p.state->live_bytes();
    if (to.live_.size() < to.live_size_) to.live_ = AlignedBuffer<std::byte>(to.live_size_);
    to.mesh_id_ = p.number;
    to.state_id_ = p.state->id();
  }
  to.ticks_ = p.ticks;
  to.sessions_created_ = p.sessions_created;
  to.wanted_ = weights;
  to.holds_weights_ = weights == SnapshotWeights::always ||
                      (weights == SnapshotWeights::automatic && (p.rule != nullptr || p.may_change_weights()));
  p.state->take_live(p.ticks, to.live_.data(), p.begin_copies(to.live_size_, to.holds_weights_));

  if (!is_known || to.changes_ != p.registry->changes()) p.take_cells(to);
  for (const Cell* cell : p.mailing.observing) cell->record_observers(to.cells_[cell->id()].record);
  if (p.engine->is_halted() || to.halt_) to.halt_ = p.engine->halt();

  if (to.holds_weights_)
    to.weights_.take(p.weights, true, p.copies);
  else if (!is_known || p.rule || to.weight_changes_ != p.weights.changes())
    to.weights_.take_versions(p.weights);
  to.weight_changes_ = p.weights.changes();
  to.has_rule_ = p.rule != nullptr;
  to.rule_.clear();
  if (p.copies.count()) p.copies.make(*p.executor);
  if (RuleState* const rule = p.rule_state()) save_rule(*rule, to.rule_, rule_scopes(weights));
}

void Mesh::Parts::take_cells(Snapshot& to) const {
  const Parts& p = *this;
  to.cells_.resize(p.cells.size());
  for (std::size_t i = 0; i < p.cells.size(); ++i) {
    p.cells[i]->record(*p.supervisor, to.cells_[i].record);
    to.cells_[i].snapshot = p.cells[i]->snapshot();
  }
  to.changes_ = p.registry->changes();
}

Status Mesh::Parts::check_fits(const Snapshot& from) {
  const Parts& p = *this;
  if (from.empty()) return fail(Errc::invalid_argument, "snapshot: nothing was taken into it yet");
  if (from.has_rule_ != (p.rule != nullptr))
    return fail(Errc::shape_mismatch, std::string("snapshot: of a mesh ") +
                                          (from.has_rule_ ? "that learns" : "without a learning rule") + ", into one " +
                                          (p.rule ? "that learns" : "without a learning rule") +
                                          "; attach or take off the rule first");
  if (from.mesh_id_ == p.number && from.state_id_ == p.state->id()) return {};
  if (from.network_ != network_digest())
    return fail(Errc::shape_mismatch, "snapshot: of network " + to_string(from.network_) + ", into network " +
                                          to_string(network_digest()) + "; load it into a mesh of its own network");
  if (from.options_ != p.state->options())
    return fail(Errc::shape_mismatch, "snapshot: " + shape_text(from.options_) + ", the mesh has " +
                                          shape_text(p.state->options()) +
                                          "; sessions were added or removed, or another rule attached, since");
  if (from.layout_ != p.state->layout())
    return fail(Errc::shape_mismatch, "snapshot: its cells were placed on threads otherwise than the mesh's " +
                                          std::to_string(p.layout.plan.regions.size()) +
                                          " regions; use a mesh of the same options and machine, or a file");
  return {};
}

Status Mesh::restore_snapshot(const Snapshot& from) {
  Parts& p = *parts_;
  WEFT_CHECK(p.check_fits(from));
  p.sync(true);
  const bool is_own = from.mesh_id_ == p.number;
  WeightConversion prepared;
  if (from.holds_weights_) {
    WEFT_TRY(prepared, from.weights_.prepare(p.weights));
  } else if (from.wanted_ != SnapshotWeights::never) {
    if (!is_own)
      return fail(Errc::invalid_argument,
                  "snapshot: it holds no weights and is of another mesh, whose weights may differ; take it with "
                  "SnapshotWeights::always, or with never if they are known to be the same");
    // A rule's steps are not counted; one that came and went has left another state.
    const bool is_counted = !p.rule && from.state_id_ == p.state->id();
    if (is_counted ? from.weight_changes_ != p.weights.changes() : !from.weights_.is_current(p.weights))
      return fail(Errc::invalid_argument,
                  "snapshot: it holds no weights, and weights or their types have changed "
                  "since tick " +
                      std::to_string(from.ticks_) +
                      "; take it with SnapshotWeights::always when commands may change them");
  }
  BatchCopy* const shared = p.begin_copies(from.live_size_, from.holds_weights_);
  for (const Cell* const cell : p.mailing.observing) WEFT_CHECK(check_observers(*cell, from.cells_[cell->id()].record));
  // The last that can fail, and the first that changes anything.
  if (RuleState* const rule = p.rule_state()) WEFT_CHECK(load_rule(*rule, from.rule_, rule_scopes(from.wanted_)));

  // Mail on its way is answered as mail that waits.
  for (Cell* const cell : p.mailing.observing) cell->collect_mail(p.ticks);
  if (from.holds_weights_) from.weights_.restore(p.weights, std::move(prepared), p.copies);
  p.ticks = from.ticks_;
  p.sessions_created = from.sessions_created_;
  p.state->restore_live(p.ticks, from.live_.data(), shared);
  if (p.copies.count()) p.copies.make(*p.executor);
  if (!is_own || from.changes_ != p.registry->changes() || p.engine->commands().has_mail()) p.restore_cells(from);
  for (Cell* cell : p.mailing.observing) {
    const CellRecord& record = from.cells_[cell->id()].record;
    const Status restored = cell->restore_observers(record);
    WEFT_ASSERT(restored, "an observer takes back what it gave");
    if (is_own) cell->restore_mail(record, p.ticks);
  }
  p.engine->clear_halt();
  if (from.halt_) p.engine->note_halt(*from.halt_);
  return {};
}

void Mesh::Parts::restore_cells(const Snapshot& from) {
  Parts& p = *this;
  const bool is_own = from.mesh_id_ == p.number;
  p.engine->commands().forget_mail();
  CellRecord own;
  for (std::size_t i = 0; i < p.cells.size(); ++i) {
    const Snapshot::CellPart& part = from.cells_[i];
    p.cells[i]->set_snapshot(part.snapshot);
    const CellRecord* record = &part.record;
    if (!is_own && !(record->commands.empty() && record->mail.empty())) {
      own = *record;
      for (CommandMessage& command : own.commands) command = copy_of(*command);
      for (MailPointer& mail : own.mail) mail = copy_of(*mail);
      record = &own;
    }
    const Status restored = p.cells[i]->restore(*record, *p.supervisor, p.ticks);
    WEFT_ASSERT(restored, "a cell takes back what it gave");
  }
  p.engine->commands().expect_deferred();
  // Everything is again as it was under that number; another mesh's numbers mean nothing here.
  if (is_own) p.registry->set_changes(from.changes_);
}

Status Mesh::take_session_snapshot(std::size_t session, SessionSnapshot& to) const {
  if (session >= parts_->state->sessions())
    return fail(Errc::out_of_range, "session " + std::to_string(session) + " of " + std::to_string(sessions()));
  parts_->sync(false);
  const State& state = *parts_->state;
  to.network_ = network_digest();
  to.depth_ = state.depth();
  to.keeps_history_ = state.options().keeps_history;
  to.size_ = state.live_session_size();
  if (to.values_.size() < to.size_) to.values_ = AlignedBuffer<float>(to.size_);
  state.take_live_session(session, parts_->ticks, to.values_.data());
  return {};
}

Status Mesh::restore_session_snapshot(std::size_t session, const SessionSnapshot& from) {
  if (session >= parts_->state->sessions())
    return fail(Errc::out_of_range, "session " + std::to_string(session) + " of " + std::to_string(sessions()));
  if (from.empty()) return fail(Errc::invalid_argument, "session snapshot: nothing was taken into it yet");
  parts_->sync(true);
  State& state = *parts_->state;
  if (from.network_ != network_digest())
    return fail(Errc::shape_mismatch, "session snapshot: of network " + to_string(from.network_) + ", into network " +
                                          to_string(network_digest()));
  if (from.keeps_history_ != state.options().keeps_history || from.depth_ != state.depth() ||
      from.size_ != state.live_session_size())
    return fail(Errc::shape_mismatch, "session snapshot: " + std::to_string(from.depth_) +
                                          " ticks of history, the mesh keeps " + std::to_string(state.depth()) +
                                          "; attach the same learning rule, or none");
  state.restore_live_session(session, parts_->ticks, from.values_.data());
  return {};
}

}  // namespace weft::mesh
