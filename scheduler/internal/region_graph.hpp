// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor.hpp"
#include "scheduler/internal/arenas.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace weft::scheduler::internal {

/// The regions of a program as a oneTBB flow graph, one for each arena, made once and kept.
///
/// A region is three nodes: `interior`, and `boundary` for steps of even and for steps of odd number. A boundary waits
/// for a message from its interior and one from each neighbour's boundary of the step before, then sends to its own
/// interior and to the neighbours' next boundaries: the neighbour rule. Even and odd apart, since of two neighbours the
/// faster may be a step ahead, and its message must not count for the step that the slower still waits for.
///
/// A run ends, or a block, by interiors that send nothing on: with all regions at the limit, every boundary has its
/// neighbours' messages and lacks its interior's, so that the graph stands ready for the next run.
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
