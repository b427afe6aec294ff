// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace weft::mesh {

/// Nodes that stay on the host while a device runs the rest of a mesh.
struct HostPlaces {
  /// The cells that the network keeps there, those with a custom layer, those that observe others, those
  /// whose gradients are measured, those that share weights with them, and the ports that all these read.
  std::vector<std::uint8_t> is_host;
  /// Custom layers, and those with one inside: they may read and write their operands directly, which no stream sees.
  std::vector<std::uint8_t> is_custom;
  /// The cells and the reasons, in words; empty: none.
  std::string why;
  /// The network itself keeps them there, and no others.
  bool is_asked = true;
};

HostPlaces host_places(const Graph& graph);

}  // namespace weft::mesh
