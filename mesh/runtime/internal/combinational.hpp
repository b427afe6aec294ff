// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/runtime/engine.hpp"
#include "mesh/runtime/internal/activity_scope.hpp"
#include "mesh/weights/weight_store.hpp"

#include <utility>
#include <vector>

namespace weft::mesh::internal {

/// One pass in topological order over `rows` independent inputs [rows][width]; feedback links and hidden states read
/// zero. Sinks receive [rows][width]; `visits` hears of each layer.
/// @error not_finite naming the first layer whose output is not; internal naming one that threw
Status run_combinational(const Graph& graph, const WeightStore& weights, std::size_t rows,
                         const std::vector<std::pair<NodeId, const float*>>& inputs,
                         const std::vector<OutputSink>& sinks, Visits& visits);

}  // namespace weft::mesh::internal
