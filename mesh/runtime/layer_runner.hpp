// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/network/source_combine.hpp"
#include "mesh/runtime/state.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/narrow_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::mesh {

/// Firing of single layers: their operands in a tick, and their forward.
/// @thread fire: the one that runs the layer's region
class LayerRunner {
 public:
  /// Facts about a layer that a tick reads, close together: the graph's nodes carry names and lists that it never
  /// needs.
  struct Unit {
    const Layer* layer = nullptr;
    ConstWeights weights;
    NodeId direct = 0;  // the one source, when read directly
    bool reads_directly = false;
    bool looks_at_rows = false;      // at those that are trained or new (FiringRows)
    bool has_weights = false;        // of the first parameter, for prefetching
    bool fires_by_sessions = false;  // on several threads, each its sessions
    Dtype rounded = Dtype::float32;  // what its outputs are rounded to
    double work = 0;                 // of a session's forward
  };

  LayerRunner(const Graph& graph, const WeightStore& weights, State& state, std::size_t threads);

  const Unit& unit(NodeId node) const noexcept { return units_[node]; }
  /// Operands of the firing that commits output(node, tick + 1). Several sources are combined first.
  ForwardArgs args(kernels::OpStream& stream, NodeId node, std::uint64_t tick, float* workspace) const {
    const Unit& unit = units_[node];
    ForwardArgs args;
    args.weights = unit.weights;
    if (unit.reads_directly) {
      args.x = state_.output(unit.direct, tick);
    } else {
      const kernels::MatrixView x = state_.input(node, tick + 1);
      combine_sources(
          stream, graph_, graph_.nodes()[node],
          [&](const Edge& edge) { return kernels::ConstMatrixView(state_.output(edge.from, tick)); }, x);
      args.x = x;
    }
    args.y = state_.output(node, tick + 1);
    args.z = state_.preactivation(node, tick + 1);
    args.cache = state_.cache(node, tick + 1);
    args.state = state_.hidden(node, tick);
    args.next_state = state_.hidden(node, tick + 1);
    args.workspace = workspace;
    return args;
  }
  void fire(kernels::CpuStream& stream, NodeId node, const ForwardArgs& args) const {
    const Unit& unit = units_[node];
    if (unit.fires_by_sessions)
      fire_by_sessions(stream, unit, args);
    else
      unit.layer->forward(stream, args);
    if (unit.rounded != Dtype::float32) kernels::round_rows(unit.rounded, args.y);
  }

 private:
  void fire_by_sessions(kernels::CpuStream& stream, const Unit& unit, const ForwardArgs& args) const;

  const Graph& graph_;
  State& state_;
  std::size_t threads_;
  std::vector<Unit> units_;  // by node
};

}  // namespace weft::mesh
