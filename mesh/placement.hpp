// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/graph.hpp"

#include <cstdint>
#include <vector>

namespace weft::mesh {

/// Which nodes stay on the host while a device runs the others, by node: the cells that the network keeps there, those
/// that share weights with them, and the ports that all these read.
std::vector<std::uint8_t> host_nodes(const Graph& graph);

}  // namespace weft::mesh
