// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"

#include "core/state_hash.hpp"

namespace weft::mesh {

/// What a session's state belongs to: ports, layers with their places, sources, settings and integer arithmetic, and
/// outputs; the seed where a layer draws noise as it runs. Not names of the network, orders of layers in a file,
/// numeric types, policies, training and data: they change between two lives of one network, or are the weights'
/// matter.
Hash128 network_digest(const Graph& graph);

}  // namespace weft::mesh
