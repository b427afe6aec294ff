// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"
#include "mesh/runtime/command.hpp"

#include "kernels/op_stream.hpp"
#include "kernels/views.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace weft::mesh {

struct BackwardArgs;
class Cell;
class Outbox;
class StepRule;

/// A layer as the target of commands: its cell, by index, and its level in the cell.
struct CellPlace {
  std::uint32_t node = 0, cell = 0, level = 0;
};

/// A firing of an observer's layer.
struct Observation {
  std::uint64_t tick = 0;      // committed before it
  kernels::MatrixView output;  // of the layer, as it will be committed
  const StepRule* rule = nullptr;
  std::uint64_t step = 0;
  Cell* cell = nullptr;  // of the layer, its state and its weights
  State* state = nullptr;
  WeightStore* weights = nullptr;
  kernels::OpStream* stream = nullptr;
  float* workspace = nullptr;
  /// The rms of a layer's last gradient; 0 before the first, and where nothing learns.
  float gradient_size(NodeId node) const noexcept;
};

/// Receiver of an observer's commands.
class CommandSink {
 public:
  virtual ~CommandSink() = default;
  virtual void send(std::uint32_t cell, CommandMessage command) = 0;
};

/// A layer that acts on cells by what it observes of its sources: its memory and its decisions. It looks at its own
/// output after each firing, at values that are committed, so it decides the same on every thread count.
/// A command that it sends at tick t must not be due before t + 3: the commanded cell's region is a neighbour, so it
/// has seen the command at its tick after the next, and all regions execute it at one tick.
/// @thread the one that runs the cell of its layer
class Observer {
 public:
  /// Words of memory that metacognition keeps. 0 elsewhere: as many as there are.
  static constexpr std::size_t kWords = 5;

  virtual ~Observer() = default;
  virtual void observe(const Observation& seen, CommandSink& to) = 0;
  /// Words of its memory, which are part of the state hash and of files. 0: their number changes.
  virtual std::size_t size() const noexcept { return kWords; }
  virtual void save(std::vector<std::uint64_t>& to) const = 0;
  /// @error corrupt: they are no such words; internal: a user's code threw. Its memory is as it was then
  virtual Status restore(std::span<const std::uint64_t> words) = 0;
  /// The error that `restore` would give of words that `save` of such an observer gave: of a user's code alone.
  virtual Status check(std::span<const std::uint64_t>) const { return {}; }
  /// The same for the cell alone, which starts again while its neighbours go on.
  virtual Status restart(std::span<const std::uint64_t> words) { return restore(words); }
  /// True when it handles mail of a type.
  virtual bool handles(MessageType) const noexcept { return false; }
  /// The layer's backward, where it is the observer's. False: it is the layer's own.
  virtual bool backward(const BackwardArgs&) { return false; }
  /// Forgets mail that it sent: the mesh went to another state, between runs.
  virtual void forget_sent() noexcept {}
  /// True when its commands may change weights.
  virtual bool may_change_weights() const noexcept { return false; }
};

/// Surroundings of a layer for which an observer is made.
struct ObserverSite {
  const Graph& graph;
  NodeId node = 0;
  std::function<CellPlace(NodeId)> place_of;
  /// Layers that name a node among those that they tell.
  std::function<std::vector<NodeId>(NodeId)> told_by;
};

/// An observer, and the cells that it may command.
struct MadeObserver {
  std::unique_ptr<Observer> observer;
  std::vector<CellPlace> commanded;
  /// Layers that it may train: they move towards targets that it sends.
  std::vector<CellPlace> trained{};
  /// Layers that its layer exchanges mail with, ascending.
  std::vector<NodeId> neighbours{};
  /// Mail that it sends; null: it sends none.
  const Outbox* outbox = nullptr;
  /// True when its layer handles mail.
  bool takes_mail = false;
};

}  // namespace weft::mesh
