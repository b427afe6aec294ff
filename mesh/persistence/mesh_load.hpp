// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/mesh.hpp"
#include "mesh/network/network.hpp"

#include "formats/entity/entity.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <string>
#include <string_view>

namespace weft::mesh {

/// As Mesh::load, of a file's bytes, which are copied; `name` stands for its path in messages.
Result<Mesh> load_mesh(ByteSpan file, std::string_view name, MeshOptions options = {});

/// A file's weights, and its live state where it has one, into a mesh of its network and sessions that nobody drives.
/// Of the past stays what the next tick reads. @error as restore_weights, restore_live; out_of_memory
Status load_state(Mesh& mesh, const formats::EntityFile& file);

/// The network that Mesh::load would build.
Result<NetworkSpec> load_network(const std::string& path);

}  // namespace weft::mesh
