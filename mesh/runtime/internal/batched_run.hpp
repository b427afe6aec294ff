// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/runtime/engine.hpp"
#include "mesh/runtime/internal/activity_scope.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "scheduler/executor.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace weft::mesh::internal {

/// True when a run of `ticks` may be computed layer by layer instead of tick by tick: enough ticks, most of the work
/// outside feedback loops, every cell due at each tick, no command waiting.
bool may_batch(const Graph& graph, const std::vector<std::unique_ptr<Cell>>& cells, std::uint64_t ticks);

/// Runs `ticks` ticks in blocks: layers outside every loop as one call for all ticks of the block (rows of a GEMM),
/// loops tick by tick. Threads of the executor share operations that are worth it. A block's memory does not depend on
/// the number of ticks. The same bits as ticking, since no op's row depends on how many rows there are. Returns false,
/// with `state` untouched, when a value was not finite or a layer threw: supervision then needs the ticks one by one.
bool run_batched(const Graph& graph, const WeightStore& weights, State& state, std::uint64_t tick, std::uint64_t ticks,
                 const std::vector<std::pair<NodeId, const float*>>& feeds, const std::vector<OutputSink>& sinks,
                 Visits& visits, scheduler::Executor& executor);

}  // namespace weft::mesh::internal
