// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/layers/inner_fault.hpp"
#include "mesh/network/graph.hpp"

#include "actors/supervisor.hpp"

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

namespace weft::mesh {

class State;
struct RegionPart;

/// A layer inside a container that answers for a fault of its cell. Its name begins with the container's place:
/// "z,y,x,l.layers[1]".
struct FaultOrigin : SupervisedLayer {
  NodeId node = 0;
};

/// The layers of a cell that answer for one fault, in the order in which they compute, each once; nothing: the cell as
/// a whole. An empty list is the cell as a whole too.
using FaultOrigins = std::vector<std::optional<FaultOrigin>>;

/// True where a layer inside a container may restart alone, of nodes from `first` on.
bool restarts_inside(const Graph& graph, NodeId first, std::uint32_t layers) noexcept;

/// The origins of a firing that failed, before its values are dropped. Of one that threw: the layer inside that did,
/// while its exception is handled. Of values that are not finite, in rows that are to be dropped: layers inside whose
/// output or hidden state is not finite, though what they read of other layers is. Where two sessions fail in two
/// layers, both answer. Sources that overflow as they are added are the fault of the layer that reads them. A layer
/// that states no policy hands the fault to the container around it. Follows from the values alone, so all paths give
/// the same.
FaultOrigins origins_of_firing(const Graph& graph, const State& state, const RegionPart& part, std::uint64_t tick,
                               actors::FaultKind kind) noexcept;

/// The origin of a fault in learning: the layer inside whose backward threw, while its exception is handled, or that
/// has the parameter; else the cell.
FaultOrigins origins_of_learning(const Graph& graph, NodeId node, std::uint32_t parameter,
                                 actors::FaultKind kind) noexcept;

/// True where `one`, an exception of some rows of a firing, came before `other` as if all rows had been computed by one
/// call: its layer computes earlier. Layers that compute first see all rows first.
bool came_before(const std::exception_ptr& one, const std::exception_ptr& other) noexcept;

}  // namespace weft::mesh
