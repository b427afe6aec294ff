// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/runtime/cell.hpp"

#include "actors/activity_table.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::mesh::internal {

/// Says in a mesh's activity table at which cell the calling thread is, where it computes layers without an engine. It
/// takes a worker's place, which is idle: a mesh is used by one thread at a time.
class Visits {
 public:
  /// `serial` tells all visits of a worker apart.
  Visits(actors::ActivityTable& activity, const Graph& graph, std::span<const std::unique_ptr<Cell>> cells,
         std::uint64_t& serial, std::uint64_t tick, std::size_t worker = 0)
      : activity_(activity), serial_(serial), worker_(worker), cell_(graph.nodes().size()) {
    for (const auto& cell : cells)
      for (NodeId id = cell->first(); id < cell->first() + cell->layers(); ++id) cell_[id] = cell->id();
    activity_.begin(worker_, tick);
  }
  ~Visits() { activity_.leave(worker_); }
  Visits(const Visits&) = delete;
  Visits& operator=(const Visits&) = delete;

  /// `node` is a layer.
  void enter(NodeId node) noexcept { activity_.enter(worker_, cell_[node], ++serial_); }
  /// Begins a tick: later entries belong to it.
  void begin(std::uint64_t tick) noexcept { activity_.begin(worker_, tick); }

 private:
  actors::ActivityTable& activity_;
  std::uint64_t& serial_;
  std::size_t worker_;
  std::vector<actors::ActorId> cell_;  // by node
};

}  // namespace weft::mesh::internal
