// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "topology/core_assignment.hpp"
#include "topology/machine.hpp"

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace weft::scheduler::internal {

class PinningObserver;

/// The workers of one arena: [first, first + count).
struct WorkerRange {
  std::size_t first = 0, count = 0;
  bool has_caller = false;  // the first slot of the arena is the caller's
  std::size_t threads() const noexcept { return count + has_caller; }
  /// The worker whose place the calling thread has, which runs a task of this arena; 0: the caller. None: a thread that
  /// oneTBB lends for what is enqueued where there is no place for a worker.
  std::optional<std::size_t> worker_here() const noexcept;
};

/// The threads of an executor on one NUMA node: a oneTBB arena, whose workers keep to their cores.
struct NodeArena {
  explicit NodeArena(const WorkerRange& workers_here);
  ~NodeArena();

  const WorkerRange workers;
  tbb::task_arena arena;
  std::unique_ptr<PinningObserver> observer;
};

/// One arena a NUMA node. Worker 0 is the caller, which belongs to the first.
class Arenas {
 public:
  /// @param pin keeps workers on their cores
  Arenas(const topology::Machine& machine, std::vector<topology::CoreAssignment> cores, bool pin);
  ~Arenas();

  std::span<const std::unique_ptr<NodeArena>> nodes() const noexcept { return nodes_; }
  std::span<const topology::CoreAssignment> cores() const noexcept { return cores_; }
  /// The arena of a worker.
  NodeArena& of(std::size_t worker) const noexcept;
  /// Waits for the workers to leave.
  void close() noexcept { nodes_.clear(); }

 private:
  std::vector<topology::CoreAssignment> cores_;
  std::optional<tbb::global_control> more_workers_;
  std::vector<std::unique_ptr<NodeArena>> nodes_;
};

}  // namespace weft::scheduler::internal
