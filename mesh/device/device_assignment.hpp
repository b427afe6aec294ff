// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace weft::mesh {

/// Nodes that stay on the host while a device runs the rest of a mesh.
struct HostPlaces {
  /// The cells that the network keeps there, those with a layer of a registered type, those that observe others, those
  /// whose gradients are measured, those that share weights with them, and the ports that all these read.
  std::vector<std::uint8_t> is_host;
  /// Layers of a type that somebody registered, or with one inside: they may compute where their operands stand, which
  /// no stream would see.
  std::vector<std::uint8_t> is_opaque;
  /// The cells and the reasons, in words; empty: none.
  std::string why;
  /// The network itself keeps them there, and no others.
  bool is_asked = true;
};

HostPlaces host_places(const Graph& graph);

}  // namespace weft::mesh
