// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"

#include "core/state_hash.hpp"

namespace weft::mesh {

/// Digest of the network that a session's state belongs to: ports, layers with their places, sources, settings and
/// integer arithmetic, outputs, and the seed when a layer draws noise as it runs. It leaves out names, the order of
/// layers in a file, numeric types, policies, training and data: they may differ between two runs of one network, or
/// belong to the weights.
Hash128 network_digest(const Graph& graph);

}  // namespace weft::mesh
