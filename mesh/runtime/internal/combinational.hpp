// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/runtime/engine.hpp"
#include "mesh/runtime/internal/activity_scope.hpp"
#include "mesh/weights/weight_store.hpp"

#include "scheduler/executor.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace weft::mesh::internal {

/// Threads of a pass, and where it tells at which cells they are.
struct PassPlace {
  scheduler::Executor& executor;
  actors::ActivityTable& activity;
  std::span<const std::unique_ptr<Cell>> cells;
  std::uint64_t& visits;
  std::uint64_t tick = 0;
};

/// Bytes that the parts of a pass under way take together, at most, unless a part is a single row.
inline constexpr std::uint64_t kPassBytes = std::uint64_t{64} << 20;
/// Rows of a part of a pass that `threads` threads share.
std::size_t pass_rows(const Graph& graph, std::size_t rows, std::size_t threads) noexcept;

/// One pass in topological order over `rows` independent inputs [rows][width]; feedback links and hidden states read
/// zero. Parts of the rows go through all layers one after the other, on all threads. Sinks receive [rows][width].
/// @error not_finite naming the first layer whose output is not; internal naming one that threw. Sinks then have some
///        of the rows
/// @exact whatever the parts and threads: a row is the same in any company, and noise is numbered by rows of the pass
Status run_combinational(const Graph& graph, const WeightStore& weights, std::size_t rows,
                         const std::vector<std::pair<NodeId, const float*>>& inputs,
                         const std::vector<OutputSink>& sinks, const PassPlace& place);

}  // namespace weft::mesh::internal
