// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/served_mesh.hpp"

#include "core/json.hpp"

namespace weft::server {

/// One line of the list of meshes: name, phase, grid, tick, sessions, version and bytes of weights.
Json summary_of(const ServedMesh& mesh);
/// All that a mesh publishes, with the keys of docs/formats/top.md where they mean the same.
Json statistics_of(const ServedMesh& mesh);

}  // namespace weft::server
