// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/memory/byte_archive.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/runtime/bounded_count.hpp"
#include "mesh/runtime/cell_mail.hpp"
#include "mesh/runtime/cell_record.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/observer.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "actors/actor.hpp"
#include "actors/supervisor.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::mesh {

class RuleState;
struct FaultOrigin;

/// An observer of a cell, and its layer.
struct CellObserver {
  NodeId node = 0;
  std::unique_ptr<Observer> observer;
};

/// One place (z, y, x) of the grid: an actor whose behaviour is its layers. Data reaches it through the rings its
/// layers read; commands and mail reach it through its mailbox. Commands are executed at tick boundaries, in the order
/// of their stamps; mail is handled as the cell fires.
/// @thread mailbox: any; everything else: the thread that runs the cell's region
class Cell final : public actors::Actor<MessagePointer> {
 public:
  static constexpr std::size_t kMailboxCapacity = 16;
  /// Commands from outside that may wait for their tick.
  static constexpr std::uint32_t kCommandCapacity = 1024;

  /// Its mailbox holds `from_outside` messages of senders outside the mesh, and besides them `commands` of observers:
  /// whether these find room must not depend on others.
  Cell(actors::ActorId id, Coord at, NodeId first, std::uint32_t layers, std::size_t from_outside = kMailboxCapacity,
       std::size_t commands = 0)
      : Actor(id, from_outside + commands),
        at_(at),
        first_(first),
        layers_(layers),
        undelivered_(static_cast<std::uint32_t>(from_outside)) {}

  Coord at() const noexcept { return at_; }
  NodeId first() const noexcept { return first_; }
  std::uint32_t layers() const noexcept { return layers_; }

  /// Sets the objects it acts on, when the mesh is built or its state is replaced.
  void bind(const Graph& graph, WeightStore& weights, State& state, actors::Registry& registry,
            RuleState* rule) noexcept;

  /// Puts a message of a sender outside the mesh (Message::sender is 0) into the mailbox; returns its stamp.
  /// @error full: the mailbox has no room left for messages from outside, or kCommandCapacity commands wait for their
  /// tick
  /// @thread any
  Result<std::uint64_t> receive_from_outside(MessagePointer message);

  /// True when the cell is due at this tick; otherwise it keeps its output.
  bool fires(std::uint64_t tick) const noexcept {
    return switches_.is_enabled && (switches_.period == 1 || tick % switches_.period == 0);
  }
  /// True when the registry lists the cell as held, isolated or halting the mesh; the registry is told when the cell
  /// fires well again.
  bool is_marked() const noexcept { return marked_; }
  void set_marked(bool marked) noexcept { change(marked_, marked); }

  /// True when it fires every tick, observes nothing and no command waits: its ticks may be computed many at once.
  bool is_steady() const noexcept {
    return fires_always() && deferred_.empty() && observers_.empty() && const_cast<Cell*>(this)->mailbox().empty();
  }
  /// True when a tick does nothing for it besides firing its layers and looking at what they put out.
  bool is_plain() const noexcept { return fires_always() && !marked_ && observers_.empty(); }
  bool is_enabled() const noexcept { return switches_.is_enabled; }
  std::uint64_t period() const noexcept { return switches_.period; }
  void set_enabled(bool enabled) noexcept { change(switches_.is_enabled, enabled); }
  void set_period(std::uint64_t period) noexcept { change(switches_.period, period); }

  /// Executes the commands kept for this tick: as they were sent, those of observers (by layer) after those from
  /// outside. To be called before `deliver`: what is kept was sent earlier.
  void run_deferred(std::uint64_t tick);
  /// Keeps one for later, as when it is delivered.
  void keep(CommandMessage message);
  /// Commands kept for later ticks, as they will be executed; part of a checkpoint.
  std::span<const CommandMessage> deferred() const noexcept { return deferred_; }

  /// True once after a `reset` command: the cell commits zeros at this tick instead of firing. Zeros go into the slot
  /// being written, since neighbours may be reading the committed one.
  bool take_reset() noexcept {
    if (!switches_.is_reset_pending) return false;
    change(switches_.is_reset_pending, false);
    return true;
  }
  bool is_reset_pending() const noexcept { return switches_.is_reset_pending; }
  void set_reset_pending(bool ordered) noexcept { change(switches_.is_reset_pending, ordered); }

  std::vector<CellObserver>& observers() noexcept { return observers_; }
  const std::vector<CellObserver>& observers() const noexcept { return observers_; }

  /// Its mail; null: no layer of it handles any.
  CellMail* mail() const noexcept { return mail_.get(); }
  /// Allocates memory for mail. Before the mesh runs.
  CellMail& open_mail() {
    if (!mail_) mail_ = std::make_unique<CellMail>();
    return *mail_;
  }
  /// True when a layer of it handles mail of a type.
  bool handles(NodeId node, MessageType type) const noexcept;
  /// Takes in what neighbours sent it for `tick`.
  void collect_mail(std::uint64_t tick, bool fires = true) noexcept {
    if (mail_) mail_->collect(tick, id());
    if (mail_ && !fires) mail_->end_questions(tick, at_);  // nobody handles it in this tick
  }
  /// Sizes of its observers' memory, as CellRecord::prepare takes them.
  std::vector<std::size_t> observer_sizes() const;

  /// Its state besides values and weights. The memory of `to` is used again.
  void record(const actors::Supervisor& supervisor, CellRecord& to) const;
  /// The part of it that every tick of an observer changes: its memory, and mail.
  void record_observers(CellRecord& to) const;
  /// Puts it back, and answers commands kept or sent since that they were withdrawn.
  /// @error corrupt: no such supervision, or no memory of its observers; the mesh is to be thrown away then
  Status restore(const CellRecord& from, actors::Supervisor& supervisor, std::uint64_t tick);
  Status restore_observers(const CellRecord& from);
  /// Puts mail back; what came since is answered that it was withdrawn.
  void restore_mail(const CellRecord& from, std::uint64_t tick);

  /// Fields of the scopes of a restart, layer by layer.
  using Snapshot = ByteArchive;
  /// Takes a snapshot of weights, of a learning rule's arrays beside them, of outputs and hidden states, for `restart`.
  void take_snapshot(std::uint64_t tick);
  /// The last one, shared with snapshots of the mesh; null before the first.
  const std::shared_ptr<Snapshot>& snapshot() const noexcept { return snapshot_; }
  void set_snapshot(const std::shared_ptr<Snapshot>& snapshot) noexcept { change(snapshot_, snapshot); }
  /// Goes back to the last snapshot. `tick` is the one being written. `layer`: the parameters of one layer inside a
  /// container, their arrays of the learning rule, and its hidden state; counts of updates, and outputs, stay.
  /// @error corrupt, internal, full: an actor did not take back what it gave; the cell is in between then
  Status restart(std::uint64_t tick, const FaultOrigin* layer = nullptr);

 protected:
  void receive(std::uint64_t tick, std::uint64_t stamp, MessagePointer&& message) noexcept override;

 private:
  /// The committed values of a layer in all sessions.
  template <class Archive>
  void visit_rows(NodeId node, std::uint64_t tick, Archive& archive) const {
    for (std::size_t session = 0; session < state_->sessions(); ++session)
      state_->visit_layer(node, session, tick, archive);
  }
  bool fires_always() const noexcept {
    return switches_.is_enabled && switches_.period == 1 && !switches_.is_reset_pending;
  }
  /// Goes back to commands that were kept earlier.
  void rewind_commands(std::uint64_t tick, std::span<const CommandMessage> kept);
  Status set_rate(NodeId node, const Command& command, const std::string& object);
  void execute(std::uint64_t tick, Command& control) noexcept;
  Status apply(std::uint64_t tick, Command& control, std::vector<float>& answer);
  /// Whatever of a cell is no value of its layers changes here, so that the registry knows of it (Registry::changes).
  template <class T>
  void change(T& what, const T& to) noexcept {
    if (what == to) return;
    what = to;
    if (registry_) registry_->note_change();
  }

  Coord at_;
  NodeId first_;
  std::uint32_t layers_;
  BoundedCount undelivered_, commands_{kCommandCapacity};  // from outside
  CellSwitches switches_;
  bool marked_ = false;
  const Graph* graph_ = nullptr;
  WeightStore* weights_ = nullptr;
  State* state_ = nullptr;
  RuleState* rule_ = nullptr;
  std::vector<CommandMessage> deferred_;
  std::vector<CellObserver> observers_;
  std::unique_ptr<CellMail> mail_;
  std::shared_ptr<Snapshot> snapshot_;
  actors::Registry* registry_ = nullptr;
};

}  // namespace weft::mesh
