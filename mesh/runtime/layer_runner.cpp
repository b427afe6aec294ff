// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/layer_runner.hpp"

#include "mesh/runtime/fault_origins.hpp"

#include <algorithm>
#include <exception>
#include <mutex>

namespace weft::mesh {

LayerRunner::LayerRunner(const Graph& graph, const WeightStore& weights, State& state, std::size_t threads)
    : graph_(graph), state_(state), threads_(threads) {
  for (NodeId id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    Unit unit;
    if (!node.is_port()) {
      unit.layer = node.layer.get();
      unit.weights = weights.view(id);
      unit.has_weights = !node.layer->parameters().empty();
      unit.reads_directly = node.reads_directly();
      unit.rounded = node.value_dtypes.activation;
      unit.looks_at_rows = node.layer->has_training_mode() || node.layer->takes_samples();
      // A matrix is better read by halves than twice: its products are cut up by outputs.
      // Noise may be numbered by rows (gumbel.hpp), so its layers see them all.
      unit.fires_by_sessions = threads > 1 && node.layer->weight_matrix() < 0 && node.layer->noise_states().empty();
      unit.work = node.layer->multiply_adds();
      unit.direct = graph.edges()[node.sources[0]].from;
    }
    units_.push_back(unit);
  }
}

// Every row stands alone, so sessions may fire on several threads.
void LayerRunner::fire_by_sessions(kernels::CpuStream& stream, const Unit& unit, const ForwardArgs& args) const {
  // Of several exceptions the one that a single thread would have met.
  std::mutex mutex;
  std::exception_ptr thrown;
  std::size_t thrown_at = 0;
  const auto fire = [&](kernels::OpStream& own, std::size_t first, std::size_t count) {
    const auto rows = [&](auto all) {
      return decltype(all){all.data ? all.row(first) : nullptr, count, all.cols, all.stride};
    };
    ForwardArgs part = args;
    part.x = rows(args.x), part.z = rows(args.z), part.y = rows(args.y), part.cache = rows(args.cache);
    part.state = rows(args.state), part.next_state = rows(args.next_state);
    part.training_rows = std::min(count, args.training_rows - std::min(first, args.training_rows));
    part.sample_rows = std::min(count, args.sample_rows - std::min(first, args.sample_rows));
    if (args.workspace) part.workspace = own.workspace_of(args.workspace);
    try {
      unit.layer->forward(own, part);
    } catch (...) {
      const std::exception_ptr own_one = std::current_exception();
      const std::lock_guard lock(mutex);
      if (thrown && !came_before(own_one, thrown) && (came_before(thrown, own_one) || thrown_at < first)) return;
      thrown = own_one;
      thrown_at = first;
    }
  };
  const std::size_t sessions = args.y.rows;
  // With fewer sessions than threads, operations are cut up instead.
  if (sessions < threads_)
    fire(stream, 0, sessions);
  else
    stream.split(sessions, unit.work * static_cast<double>(sessions), fire);
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace weft::mesh
