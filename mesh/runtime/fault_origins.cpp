// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/fault_origins.hpp"

#include "mesh/layers/container.hpp"
#include "mesh/runtime/region_plan.hpp"
#include "mesh/runtime/state.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <string>
#include <utility>

namespace weft::mesh {
namespace {

/// Null where no layer inside states a policy.
const Container* supervising(const Graph& graph, NodeId node) noexcept {
  const auto* const container = dynamic_cast<const Container*>(graph.nodes()[node].layer.get());
  return container && container->has_policies() ? container : nullptr;
}

std::optional<FaultOrigin> origin_of(const Graph& graph, NodeId node, std::optional<SupervisedLayer> layer) {
  if (!layer) return std::nullopt;
  const Coord at = graph.nodes()[node].at;
  layer->name = std::to_string(at.z) + "," + std::to_string(at.y) + "," + std::to_string(at.x) + "," +
                std::to_string(at.l) + "." + layer->name;
  return FaultOrigin{std::move(*layer), node};
}

void add(std::optional<FaultOrigin> origin, FaultOrigins& to) {
  const bool is_known = std::any_of(to.begin(), to.end(), [&](const std::optional<FaultOrigin>& known) {
    return known.has_value() == origin.has_value() && (!known || known->name == origin->name);
  });
  if (!is_known) to.push_back(std::move(origin));
}

bool is_finite(const kernels::MatrixView& rows, std::size_t row) noexcept {
  return !rows.data ||
         std::all_of(rows.row(row), rows.row(row) + rows.cols, [](float value) { return std::isfinite(value); });
}

/// The place of the exception that is handled, where it left that container; empty else.
InnerPath path_of(const std::exception_ptr& thrown, const Layer* container) {
  if (!thrown) return {};
  try {
    std::rethrow_exception(thrown);
  } catch (const InnerFault& fault) {
    if (!container || fault.container() == container) return fault.path();
  } catch (...) {
  }
  return {};
}

FaultOrigins origins_of_exception(const Graph& graph, NodeId first, std::uint32_t layers) {
  for (NodeId node = first; node < first + layers; ++node) {
    const Container* const container = supervising(graph, node);
    if (!container) continue;
    const InnerPath path = path_of(std::current_exception(), container);
    if (!path.empty()) return {origin_of(graph, node, ContainerFaults(*container).supervised(path))};
  }
  return {};
}

void add_origins_of_values(const Graph& graph, const State& state, NodeId node, std::uint64_t tick, FaultOrigins& to) {
  const kernels::MatrixView y = state.output(node, tick), hidden = state.hidden(node, tick),
                            cache = state.cache(node, tick);
  const Container* const container = supervising(graph, node);
  std::vector<InnerPath> paths;
  for (std::size_t b = 0; b < state.sessions(); ++b) {
    if (is_finite(y, b) && is_finite(hidden, b)) continue;
    if (!container) return add(std::nullopt, to);
    ContainerFaults(*container)
        .find({y.row(b), cache.data ? cache.row(b) : nullptr, hidden.data ? hidden.row(b) : nullptr}, paths);
  }
  std::sort(paths.begin(), paths.end());
  for (const InnerPath& path : paths) add(origin_of(graph, node, ContainerFaults(*container).supervised(path)), to);
}

}  // namespace

bool restarts_inside(const Graph& graph, NodeId first, std::uint32_t layers) noexcept {
  for (NodeId node = first; node < first + layers; ++node) {
    const Container* const container = supervising(graph, node);
    if (container && ContainerFaults(*container).may_restart()) return true;
  }
  return false;
}

FaultOrigins origins_of_firing(const Graph& graph, const State& state, const RegionPart& part, std::uint64_t tick,
                               actors::FaultKind kind) noexcept {
  try {
    if (kind == actors::FaultKind::threw) return origins_of_exception(graph, part.first, part.layers);
    FaultOrigins origins;
    bool has_policies = false;
    for (NodeId node = part.first; node < part.first + part.layers; ++node)
      has_policies |= supervising(graph, node) != nullptr;
    for (NodeId node = part.first; has_policies && node < part.first + part.layers; ++node)
      add_origins_of_values(graph, state, node, tick + 1, origins);
    return origins;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

FaultOrigins origins_of_learning(const Graph& graph, NodeId node, std::uint32_t parameter,
                                 actors::FaultKind kind) noexcept {
  try {
    if (kind == actors::FaultKind::threw) return origins_of_exception(graph, node, 1);
    const Container* const container = supervising(graph, node);
    if (!container || parameter >= container->parameters().size()) return {};
    return {origin_of(graph, node, ContainerFaults(*container).supervised_with(parameter))};
  } catch (const std::bad_alloc&) {
    return {};
  }
}

bool came_before(const std::exception_ptr& one, const std::exception_ptr& other) noexcept {
  try {
    return path_of(one, nullptr) < path_of(other, nullptr);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace weft::mesh
