// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/observer.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "actors/actor.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace weft::mesh {

class RuleState;

/// An observer of a cell, and its layer.
struct CellObserver {
  NodeId node = 0;
  std::unique_ptr<Observer> observer;
};

/// One place (z, y, x) of the grid: an actor whose behaviour is its layers. Data reaches it through the rings its
/// layers read; commands reach it through its mailbox and are executed at tick boundaries, in the order of their
/// stamps.
/// @thread mailbox: any; everything else: the thread that runs the cell's region
class Cell final : public actors::Actor<CommandMessage> {
 public:
  static constexpr std::size_t kMailboxCapacity = 16;

  Cell(actors::ActorId id, Coord at, NodeId first, std::uint32_t layers)
      : Actor(id, kMailboxCapacity), at_(at), first_(first), layers_(layers) {}

  Coord at() const noexcept { return at_; }
  NodeId first() const noexcept { return first_; }
  std::uint32_t layers() const noexcept { return layers_; }

  /// Sets the objects it acts on, when the mesh is built or its state is replaced.
  void bind(const Graph& graph, WeightStore& weights, State& state, actors::Registry& registry,
            RuleState* rule) noexcept;

  /// True when the cell is due at this tick; otherwise it keeps its output.
  bool fires(std::uint64_t tick) const noexcept { return enabled_ && (period_ == 1 || tick % period_ == 0); }
  /// True when the registry lists the cell as held, isolated or halting the mesh; the registry is told when the cell
  /// fires well again.
  bool is_marked() const noexcept { return marked_; }
  void set_marked(bool marked) noexcept { change(marked_, marked); }

  /// True when it fires every tick, observes nothing and no command waits: its ticks may be computed many at once.
  bool is_steady() const noexcept {
    return enabled_ && period_ == 1 && !reset_pending_ && deferred_.empty() && observers_.empty() && mailbox_is_empty();
  }
  /// True when a tick does nothing for it besides firing its layers and looking at what they put out.
  bool is_plain() const noexcept {
    return enabled_ && period_ == 1 && !reset_pending_ && !marked_ && observers_.empty();
  }
  bool is_enabled() const noexcept { return enabled_; }
  std::uint64_t period() const noexcept { return period_; }
  void set_enabled(bool enabled) noexcept { change(enabled_, enabled); }
  void set_period(std::uint64_t period) noexcept { change(period_, period); }

  /// Executes the commands kept for this tick: as they were sent, those of observers (by layer) after those from
  /// outside. To be called before `deliver`: what is kept was sent earlier.
  void run_deferred(std::uint64_t tick);
  /// Keeps one for later, as when it is delivered.
  void keep(CommandMessage message);
  /// Commands kept for later ticks, as they will be executed; part of a checkpoint.
  std::span<const CommandMessage> deferred() const noexcept { return deferred_; }
  void restore_deferred(std::vector<CommandMessage> commands) noexcept;
  /// Goes back to commands that were kept earlier; those kept or sent since are answered that they were withdrawn.
  void rewind_commands(std::uint64_t tick, std::span<const CommandMessage> kept);

  /// True once after a `reset` command: the cell commits zeros at this tick instead of firing. Zeros go into the slot
  /// being written, since neighbours may be reading the committed one.
  bool take_reset() noexcept {
    if (!reset_pending_) return false;
    change(reset_pending_, false);
    return true;
  }
  bool is_reset_pending() const noexcept { return reset_pending_; }
  void set_reset_pending(bool ordered) noexcept { change(reset_pending_, ordered); }

  std::vector<CellObserver>& observers() noexcept { return observers_; }
  const std::vector<CellObserver>& observers() const noexcept { return observers_; }

  /// Parameters, then the live rest, layer by layer.
  using Memory = std::vector<std::vector<float>>;
  /// Remembers weights, what the learning rule keeps beside them, outputs and hidden states as they are now, and goes
  /// back to them (`restart`).
  void remember(std::uint64_t tick);
  /// Memory of the last checkpoint, shared with snapshots; null before the first.
  const std::shared_ptr<Memory>& memory() const noexcept { return remembered_; }
  void set_memory(const std::shared_ptr<Memory>& memory) noexcept { change(remembered_, memory); }
  /// `tick` is the one being written.
  void restart(std::uint64_t tick);

 protected:
  void receive(std::uint64_t tick, std::uint64_t stamp, CommandMessage&& message) noexcept override;

 private:
  bool mailbox_is_empty() const noexcept { return const_cast<Cell*>(this)->mailbox().empty(); }
  void carry_out(std::uint64_t tick, Command& control) noexcept;
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
  bool enabled_ = true;
  bool reset_pending_ = false;
  bool marked_ = false;
  std::uint64_t period_ = 1;
  const Graph* graph_ = nullptr;
  WeightStore* weights_ = nullptr;
  State* state_ = nullptr;
  RuleState* rule_ = nullptr;
  std::vector<CommandMessage> deferred_;
  std::vector<CellObserver> observers_;
  std::shared_ptr<Memory> remembered_;
  actors::Registry* registry_ = nullptr;
};

}  // namespace weft::mesh
