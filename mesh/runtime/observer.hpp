// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/fwd.hpp"
#include "mesh/runtime/command.hpp"

#include "kernels/views.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace weft::mesh {

class StepRule;

/// A layer as the target of commands: its cell, by index, and its level in the cell.
struct CellPlace {
  std::uint32_t node = 0, cell = 0, level = 0;
};

/// A firing of an observer's layer.
struct Observation {
  std::uint64_t tick = 0;           // committed before it
  kernels::ConstMatrixView output;  // of the layer, as it will be committed
  const StepRule* rule = nullptr;
  std::uint64_t step = 0;
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
/// has seen the command at its tick after the next, and all regions carry it out at one tick.
/// @thread the one that runs the cell of its layer
class Observer {
 public:
  /// Words of its memory, which are part of the state hash and of files.
  static constexpr std::size_t kWords = 5;

  virtual ~Observer() = default;
  virtual void observe(const Observation& seen, CommandSink& to) = 0;
  virtual std::array<std::uint64_t, kWords> words() const noexcept = 0;
  /// False when they are no such words.
  virtual bool restore(std::span<const std::uint64_t, kWords> words) noexcept = 0;
  /// True when its commands may change weights.
  virtual bool may_change_weights() const noexcept { return false; }
};

/// Surroundings of a layer for which an observer is made.
struct ObserverSite {
  const Graph& graph;
  NodeId node = 0;
  std::function<CellPlace(NodeId)> place_of;
};

/// An observer, and the cells that it may command.
struct MadeObserver {
  std::unique_ptr<Observer> observer;
  std::vector<CellPlace> commanded;
};

}  // namespace weft::mesh
