// SPDX-License-Identifier: Apache-2.0

// A mesh's state in memory, out and in.

#include "mesh/persistence/snapshot.hpp"

#include "mesh/internal/mesh_parts.hpp"
#include "mesh/mesh.hpp"
#include "mesh/network/network_digest.hpp"

#include <algorithm>

namespace weft::mesh {
namespace {

bool changes_weights(const Command& command) noexcept {
  return command.kind == CommandKind::set_weights || command.kind == CommandKind::morph;
}

/// A copy of a command for another mesh, which answers it by itself.
CommandMessage copy_of(const Command& command) {
  auto made = std::make_shared<Command>();
  made->kind = command.kind;
  made->level = command.level;
  made->parameter = command.parameter;
  made->number = command.number;
  made->sender = command.sender;
  made->encoding = command.encoding;
  made->values = command.values;
  made->not_before = command.not_before;
  return made;
}

std::string shape_text(const State::Options& options) {
  return std::to_string(options.sessions) + " sessions with " + std::to_string(options.depth) + " ticks of history";
}

}  // namespace

bool Mesh::Parts::may_change_weights() const noexcept {
  for (const Observer* observer : all_observers)
    if (observer->may_change_weights()) return true;
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

void Mesh::save_state(Snapshot& to) { save_state(to, SaveWeights::automatic); }

void Mesh::save_state(Snapshot& to, SaveWeights weights) {
  Parts& p = *parts_;
  // Commands waiting in mailboxes are delivered first, as in the next tick: they are part of the state.
  deliver_commands();
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
  to.holds_weights_ = weights == SaveWeights::always ||
                      (weights == SaveWeights::automatic && (p.rule != nullptr || p.may_change_weights()));
  p.state->save_live(p.ticks, to.live_.data(), p.begin_copies(to.live_size_, to.holds_weights_));

  if (!is_known || to.changes_ != p.registry->changes()) p.save_cells(to);
  to.observers_.resize(p.all_observers.size());
  for (std::size_t i = 0; i < p.all_observers.size(); ++i) to.observers_[i] = p.all_observers[i]->words();
  const Halt* const halt = p.engine->halt();
  if (halt || to.halt_) to.halt_ = halt ? std::optional(*halt) : std::nullopt;

  if (to.holds_weights_)
    p.weights.copy_to(to.weights_, true, p.copies);
  else if (!is_known || p.rule || to.weight_changes_ != p.weights.changes())
    p.weights.note_to(to.weights_);
  to.weight_changes_ = p.weights.changes();
  to.has_rule_ = p.rule != nullptr;
  to.rule_.clear();
  if (p.copies.count()) p.copies.make(*p.executor);
  if (RuleState* const rule = p.saved_rule()) rule->save_state(to.rule_, weights != SaveWeights::never);
}

void Mesh::Parts::save_cells(Snapshot& to) const {
  const Parts& p = *this;
  to.cells_.resize(p.cells.size());
  for (std::size_t i = 0; i < p.cells.size(); ++i) {
    const Cell& cell = *p.cells[i];
    Snapshot::CellCopy& copy = to.cells_[i];
    copy.is_enabled = cell.is_enabled();
    copy.is_reset_pending = cell.is_reset_pending();
    copy.is_marked = cell.is_marked();
    copy.period = cell.period();
    copy.view = p.registry->view(cell.id());
    const auto restarts = p.supervisor->restarts(cell.id());
    if (const auto& wanted = p.supervisor->rule(cell.id()); wanted.policy == actors::Policy::restart)
      copy.restarts.reserve(wanted.max_restarts);
    copy.restarts.assign(restarts.begin(), restarts.end());
    copy.deferred.assign(cell.deferred().begin(), cell.deferred().end());
    copy.memory = cell.memory();
  }
  to.changes_ = p.registry->changes();
}

Status Mesh::Parts::check_fits(const Snapshot& from) {
  const Parts& p = *this;
  if (from.empty()) return fail(Errc::invalid_argument, "saved state: nothing was saved in it yet");
  if (from.has_rule_ != (p.rule != nullptr))
    return fail(Errc::shape_mismatch, std::string("saved state: of a mesh ") +
                                          (from.has_rule_ ? "that learns" : "without a learning rule") + ", into one " +
                                          (p.rule ? "that learns" : "without a learning rule") +
                                          "; attach or take off the rule first");
  if (from.mesh_id_ == p.number && from.state_id_ == p.state->id()) return {};
  if (from.network_ != network_digest())
    return fail(Errc::shape_mismatch, "saved state: of network " + to_string(from.network_) + ", into network " +
                                          to_string(network_digest()) + "; load it into a mesh of its own network");
  if (from.options_ != p.state->options())
    return fail(Errc::shape_mismatch, "saved state: " + shape_text(from.options_) + ", the mesh has " +
                                          shape_text(p.state->options()) +
                                          "; sessions were added or removed, or another rule attached, since");
  if (from.layout_ != p.state->layout())
    return fail(Errc::shape_mismatch, "saved state: its cells were placed on threads otherwise than the mesh's " +
                                          std::to_string(p.layout.plan.regions.size()) +
                                          " regions; use a mesh of the same options and machine, or a file");
  return {};
}

Status Mesh::load_state(const Snapshot& from) {
  Parts& p = *parts_;
  WEFT_CHECK(p.check_fits(from));
  p.sync(true);
  const bool is_own = from.mesh_id_ == p.number;
  WeightRoom room;
  if (from.holds_weights_) {
    WEFT_TRY(room, p.weights.make_room(from.weights_));
  } else if (from.wanted_ != SaveWeights::never) {
    if (!is_own)
      return fail(Errc::invalid_argument,
                  "saved state: it holds no weights and is of another mesh, whose weights may differ; save it with "
                  "SaveWeights::always, or with never if they are known to be the same");
    // A rule's steps are not counted; one that came and went has left another state.
    const bool is_counted = !p.rule && from.state_id_ == p.state->id();
    if (is_counted ? from.weight_changes_ != p.weights.changes() : !p.weights.is_unchanged_since(from.weights_))
      return fail(Errc::invalid_argument,
                  "saved state: it holds no weights, and weights or their types have changed "
                  "since tick " +
                      std::to_string(from.ticks_) + "; save it with SaveWeights::always when commands may change them");
  }
  BatchCopy* const shared = p.begin_copies(from.live_size_, from.holds_weights_);
  // The last that can fail, and the first that changes anything.
  if (RuleState* const rule = p.saved_rule())
    WEFT_CHECK(rule->load_state(from.rule_, from.wanted_ != SaveWeights::never));

  if (from.holds_weights_) p.weights.load(from.weights_, std::move(room), p.copies);
  p.ticks = from.ticks_;
  p.sessions_created = from.sessions_created_;
  p.state->load_live(p.ticks, from.live_.data(), shared);
  if (p.copies.count()) p.copies.make(*p.executor);
  if (!is_own || from.changes_ != p.registry->changes() || p.engine->commands().has_mail()) p.load_cells(from);
  for (std::size_t i = 0; i < p.all_observers.size(); ++i) {
    const bool restored = p.all_observers[i]->restore(from.observers_[i]);
    WEFT_ASSERT(restored, "an observer takes what it gave");
  }
  p.engine->clear_halt();
  if (from.halt_) p.engine->note_halt(*from.halt_);
  return {};
}

void Mesh::Parts::load_cells(const Snapshot& from) {
  Parts& p = *this;
  const bool is_own = from.mesh_id_ == p.number;
  std::vector<CommandMessage> commands;
  p.engine->commands().forget_mail();
  for (std::size_t i = 0; i < p.cells.size(); ++i) {
    Cell& cell = *p.cells[i];
    const Snapshot::CellCopy& copy = from.cells_[i];
    cell.set_enabled(copy.is_enabled);
    cell.set_reset_pending(copy.is_reset_pending);
    cell.set_marked(copy.is_marked);
    cell.set_period(copy.period);
    cell.set_memory(copy.memory);
    if (is_own) {
      cell.rewind_commands(p.ticks, copy.deferred);
    } else {
      commands.clear();
      for (const CommandMessage& command : copy.deferred) commands.push_back(copy_of(*command));
      cell.rewind_commands(p.ticks, commands);
    }
    p.registry->restore(cell.id(), copy.view);
    p.supervisor->set_restarts(cell.id(), copy.restarts);
  }
  p.engine->commands().expect_deferred();
  // Everything is again as it was under that number; another mesh's numbers mean nothing here.
  if (is_own) p.registry->set_changes(from.changes_);
}

Status Mesh::save_session_state(std::size_t session, SessionSnapshot& to) const {
  if (session >= parts_->state->sessions())
    return fail(Errc::out_of_range, "session " + std::to_string(session) + " of " + std::to_string(sessions()));
  parts_->sync(false);
  const State& state = *parts_->state;
  to.network_ = network_digest();
  to.depth_ = state.depth();
  to.keeps_history_ = state.options().keeps_history;
  to.size_ = state.live_session_size();
  if (to.values_.size() < to.size_) to.values_ = AlignedBuffer<float>(to.size_);
  state.save_live_session(session, parts_->ticks, to.values_.data());
  return {};
}

Status Mesh::load_session_state(std::size_t session, const SessionSnapshot& from) {
  if (session >= parts_->state->sessions())
    return fail(Errc::out_of_range, "session " + std::to_string(session) + " of " + std::to_string(sessions()));
  if (from.empty()) return fail(Errc::invalid_argument, "session state: nothing was saved in it yet");
  parts_->sync(true);
  State& state = *parts_->state;
  if (from.network_ != network_digest())
    return fail(Errc::shape_mismatch, "session state: of network " + to_string(from.network_) + ", into network " +
                                          to_string(network_digest()));
  if (from.keeps_history_ != state.options().keeps_history || from.depth_ != state.depth())
    return fail(Errc::shape_mismatch, "session state: " + std::to_string(from.depth_) +
                                          " ticks of history, the mesh keeps " + std::to_string(state.depth()) +
                                          "; attach the same learning rule, or none");
  state.load_live_session(session, parts_->ticks, from.values_.data());
  return {};
}

}  // namespace weft::mesh
