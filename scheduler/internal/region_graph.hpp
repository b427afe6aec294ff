// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor.hpp"
#include "scheduler/internal/arenas.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace weft::scheduler::internal {

/// The regions of a program as a oneTBB flow graph, made once for its shape and kept.
///
/// A region is three nodes: a `step`, which does the work, and before it a gate for steps of even and one for steps of
/// odd number. A gate waits for a message of its own region and of each neighbour that the step before is done, then
/// sets the step off: the neighbour rule. The step sends to the neighbours' next gates, then to its own. Even and odd
/// apart, since of two neighbours the faster may be a step ahead, and its message must not count for the step that the
/// slower still waits for.
///
/// A run ends, or a block, by steps that send nothing to their own gate: every gate then has its neighbours' messages
/// and lacks its own, so that the graph stands ready for the next run.
class RegionGraph {
 public:
  struct Options {
    ThreadHooks hooks{};
    bool watches_cores = true;  // threads whose cores others use take no regions for a while
  };
  RegionGraph(const Arenas& arenas, Options options);
  ~RegionGraph();

  /// Runs steps [first, end); `done`: where it stands, which is less than `end` when should_stop said so. Called on the
  /// caller's thread, outside the hooks. False, with nothing done, when there is no memory for the graph.
  bool run(TickProgram& program, std::uint64_t first, std::uint64_t end, std::uint64_t& done) noexcept;
  /// Wakes workers.
  void prepare() noexcept;

 private:
  class Graph;
  struct Workers;
  Graph* graph_of(const TickProgram& program) noexcept;

  const Arenas& arenas_;
  Options options_;
  std::unique_ptr<Workers> workers_;
  std::vector<std::unique_ptr<Graph>> graphs_;  // the one used last comes first
};

}  // namespace weft::scheduler::internal
